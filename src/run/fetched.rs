//! What scoring needs of each planned request, read on a thread of its own while the scorers work.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use super::journal::Journal;
use super::judge::{self, Asked, CallsTook};
use super::plan::read_plan;
use super::score::ScoreError;
use crate::benchmark::JudgeCall;
use crate::types::{Planned, Response};

/// Requests that are handed over together.
const BATCH: usize = 256;

/// A planned request with what came of it.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The index of its section.
    pub(super) section: usize,
    pub(super) planned: Planned,
    pub(super) response: Option<Response>,
    /// The judge's calls about the response, and what they took.
    pub(super) calls: Vec<JudgeCall>,
    pub(super) took: CallsTook,
}

/// Reads a run folder in plan order.
pub(super) struct Fetcher<'a> {
    pub(super) folder: &'a Path,
    /// The sections, by label.
    pub(super) by_label: &'a HashMap<&'a str, usize>,
    /// What was asked of the judge, by section.
    pub(super) asked: &'a [Option<Asked<'a>>],
    pub(super) responses: Option<Journal>,
    pub(super) verdicts: Option<Journal>,
}

impl Fetcher<'_> {
    /// Sends all requests; the first error is the last that is sent. Ends early where nobody listens any more.
    pub(super) fn send(&self, to: &SyncSender<Result<Vec<Fetched>, ScoreError>>) {
        if let Err(error) = self.send_all(to) {
            let _ = to.send(Err(error));
        }
    }

    fn send_all(&self, to: &SyncSender<Result<Vec<Fetched>, ScoreError>>) -> Result<(), ScoreError> {
        let mut batch = Vec::with_capacity(BATCH);
        for planned in read_plan(self.folder)? {
            let planned = planned?;
            let Some(&section) = self.by_label.get(planned.benchmark.as_str()) else { continue };
            batch.push(self.fetch(section, planned)?);
            if batch.len() == BATCH && to.send(Ok(std::mem::take(&mut batch))).is_err() {
                return Ok(());
            }
        }
        let _ = to.send(Ok(batch));
        Ok(())
    }

    fn fetch(&self, section: usize, planned: Planned) -> Result<Fetched, ScoreError> {
        let response = match &self.responses {
            Some(journal) => journal.to_score(&planned.request)?,
            None => None,
        };
        let (calls, took) = match (&self.verdicts, self.asked.get(section), &response) {
            (Some(verdicts), Some(Some(asked)), Some(response)) => {
                judge::calls_about(verdicts, asked, &planned, response)?
            }
            _ => (Vec::new(), CallsTook::default()),
        };
        Ok(Fetched { section, planned, response, calls, took })
    }
}
