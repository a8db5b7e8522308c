//! What is to be done: which sets lie in the data folder, and which of them were prepared already.

use std::path::{Path, PathBuf};

use super::PrepareError;
use super::layout::{Layout, Look, Source};
use crate::benchmark::sources::SourcesError;
use crate::dataset::Dataset;
use crate::dataset::prepared::{FOLDER, Record, SetRecord, SourceRecord, broken_media};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The benchmark.
    pub benchmark: String,
    /// The data folder.
    pub data: PathBuf,
    /// The data folder that is written to, where it is another.
    pub to: Option<PathBuf>,
    /// The languages; all that are there where none is named.
    pub languages: Vec<String>,
}

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    pub(super) layout: Layout,
    /// The benchmark.
    pub benchmark: &'static str,
    /// The data folder that is read.
    pub data: PathBuf,
    /// The data folder that is written to.
    pub to: PathBuf,
    /// The sets, in order.
    pub sets: Vec<PlannedSet>,
    /// Why there is nothing to do: a sentence.
    pub nothing: Option<String>,
    /// What should be known of the sets: sentences.
    pub notes: Vec<String>,
    pub(super) record: Option<Record>,
}

/// A set of a plan.
#[derive(Debug)]
pub struct PlannedSet {
    /// Its name: a language or a split.
    pub name: String,
    /// The files that it is made from.
    pub sources: Vec<SourceRecord>,
    /// What an earlier call left, where it is whole, of the same files, and everything could be read.
    pub done: Option<SetRecord>,
    pub(super) from: Vec<Source>,
}

impl PlannedSet {
    /// The published rows that it is made from.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.from.iter().map(|source| &source.dataset)
    }

    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }
}

/// Whether a benchmark's data must be prepared before its rows are what a run reads: they were published in columns, and
/// its rows are made of several of them.
pub fn is_needed(benchmark: &str, data: &Dataset) -> bool {
    let made = matches!(Layout::of(benchmark), Some((Layout::Belebele | Layout::Ccfqa | Layout::CpBench, _)));
    made && data.stretches().iter().any(|stretch| stretch.rows.is_some())
}

/// Whether a benchmark's data are published by language, and prepared so.
pub fn is_by_language(benchmark: &str) -> bool {
    matches!(Layout::of(benchmark), Some((Layout::Belebele, _)))
}

/// Looks at a data folder. Footers are read, rows are not.
pub fn plan(asked: &Asked) -> Result<Plan, PrepareError> {
    let unknown = || PrepareError::Unknown(SourcesError::Unknown(asked.benchmark.clone()));
    let (layout, benchmark) = Layout::of(&asked.benchmark).ok_or_else(unknown)?;
    if asked.data.is_file() {
        return Err(PrepareError::Missing {
            folder: asked.data.clone(),
            what: "rows and is no folder".to_owned(),
            remedy: "name the folder that it lies in".to_owned(),
        });
    }
    let to = asked.to.clone().unwrap_or_else(|| asked.data.clone());
    let record = Record::read(&to).map_err(PrepareError::Prepared)?;
    if let Some(other) = record.as_ref().filter(|record| record.benchmark != benchmark) {
        return Err(PrepareError::Other { folder: to, found: other.benchmark.clone() });
    }
    let mut plan = Plan {
        layout,
        benchmark,
        data: asked.data.clone(),
        to: to.clone(),
        sets: Vec::new(),
        nothing: None,
        notes: Vec::new(),
        record,
    };
    match layout.look(&asked.data, &asked.languages)? {
        Look::Nothing(sentence) => plan.nothing = Some(sentence),
        Look::Sets(found) => {
            for set in found {
                let others = set.sources.iter().filter_map(|source| layout.other_split(&source.dataset));
                plan.notes.extend(others);
                let mut sources = Vec::new();
                for path in set.sources.iter().flat_map(|source| source.dataset.paths()) {
                    sources.push(SourceRecord::of(&asked.data, path).map_err(PrepareError::disk(path))?);
                }
                let earlier = plan.record.as_ref().and_then(|record| record.sets.get(&set.name));
                // What could not be read is tried again.
                let done = earlier.filter(|earlier| {
                    earlier.sources == sources
                        && earlier.counts.faults == 0
                        && is_whole(&to, &set.name, earlier)
                });
                let done = done.cloned();
                let from = set.sources.into_iter().map(|source| Source {
                    // With another folder even files of their own are copied.
                    in_place: source.in_place && asked.to.is_none(),
                    ..source
                });
                plan.sets.push(PlannedSet { name: set.name, sources, done, from: from.collect() });
            }
        }
    }
    Ok(plan)
}

/// Whether the rows of a set and all files that they name are there.
fn is_whole(to: &Path, name: &str, record: &SetRecord) -> bool {
    let path = to.join(FOLDER).join(format!("{name}.jsonl"));
    let Ok(text) = std::fs::read(&path) else { return false };
    text.len() as u64 == record.bytes
        && crate::types::Digest::of(&text) == record.blake3
        && broken_media(to, name, record).is_none()
}
