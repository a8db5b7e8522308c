//! What scoring needs of each planned request, read on threads of their own while the scorers work.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

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
        let mut plan = read_plan(self.folder)?;
        // The plan is a third of what is read here: another thread reads it.
        std::thread::scope(|scope| {
            let (parts_in, parts) = sync_channel(8);
            scope.spawn(move || {
                loop {
                    let part: Result<Vec<Planned>, _> = plan.by_ref().take(BATCH).collect();
                    let last = part.as_ref().map_or(true, Vec::is_empty);
                    // Nobody listens any more after an error.
                    if parts_in.send(part).is_err() || last {
                        return;
                    }
                }
            });
            for part in parts {
                let batch = part?.into_iter().filter_map(|planned| {
                    let section = *self.by_label.get(planned.benchmark.as_str())?;
                    Some(self.fetch(section, planned))
                });
                if to.send(Ok(batch.collect::<Result<_, _>>()?)).is_err() {
                    return Ok(());
                }
            }
            Ok(())
        })
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
