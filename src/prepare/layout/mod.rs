//! The sets as they are published: which columns they have, and which rows are made of them.

mod belebele;
mod ccfqa;
mod cp_bench;
mod simplevqa;

use std::path::Path;

use serde_json::{Map, Value};

use super::PrepareError;
use super::store::{Saved, Store};
use crate::dataset::prepared::Sentences;
use crate::dataset::{Choice, Dataset, DatasetError};

/// Files of rows that belong together.
#[derive(Debug)]
pub(super) struct Source {
    /// Their name where a set is made of several.
    pub(super) label: Option<String>,
    pub(super) dataset: Dataset,
    /// Whether their media are named from the data folder.
    pub(super) in_place: bool,
}

/// A set, found in a data folder.
#[derive(Debug)]
pub(super) struct Found {
    /// Its name: a language or a split.
    pub(super) name: String,
    pub(super) sources: Vec<Source>,
}

/// What a data folder holds.
#[derive(Debug)]
pub(super) enum Look {
    /// Sets to be prepared.
    Sets(Vec<Found>),
    /// Nothing needs to be: a sentence.
    Nothing(String),
}

/// A row as it is written.
pub(super) struct Made {
    pub(super) row: Value,
    /// What names the row among all.
    pub(super) key: String,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) set: &'a str,
    pub(super) label: Option<&'a str>,
    /// Its number among the rows of its files, from 1.
    pub(super) row: u64,
}

/// Puts rows together; adds sentences on those that do not fit.
pub(super) type Join = fn(Vec<Value>, &mut Vec<String>) -> Vec<Value>;

/// What is known of a benchmark's published files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Belebele,
    Ccfqa,
    CpBench,
    SimpleVqa,
    /// Text alone.
    Cfever,
}

impl Layout {
    /// The layout of a benchmark.
    pub(super) fn of(benchmark: &str) -> Option<(Self, &'static str)> {
        Some(match benchmark {
            "2m-belebele" => (Self::Belebele, "2m-belebele"),
            "ccfqa" => (Self::Ccfqa, "ccfqa"),
            "cp-bench" => (Self::CpBench, "cp-bench"),
            "simplevqa" => (Self::SimpleVqa, "simplevqa"),
            "cfever" => (Self::Cfever, "cfever"),
            _ => return None,
        })
    }

    /// What lies in a data folder.
    pub(super) fn look(self, data: &Path, languages: &[String]) -> Result<Look, PrepareError> {
        if self != Self::Belebele && !languages.is_empty() {
            let sentence = "only 2m-belebele is published by language; leave it out".to_owned();
            return Err(PrepareError::Languages(sentence));
        }
        match self {
            Self::Belebele => belebele::look(data, languages),
            Self::Ccfqa => ccfqa::look(data),
            Self::CpBench => cp_bench::look(data),
            Self::SimpleVqa => simplevqa::look(data),
            Self::Cfever => {
                let sentence =
                    "cfever is published as lines of JSON without media: nothing needs to be prepared";
                Ok(Look::Nothing(sentence.to_owned()))
            }
        }
    }

    /// Makes a row; its media are kept.
    pub(super) fn row(self, row: Value, at: At<'_>, store: &mut Store) -> Result<Made, PrepareError> {
        let row = match row {
            Value::Object(row) => row,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        match self {
            Self::Belebele => belebele::row(&row, at, store),
            Self::Ccfqa => ccfqa::row(&row, at, store),
            Self::CpBench => cp_bench::row(&row, at, store),
            Self::SimpleVqa | Self::Cfever => simplevqa::row(row, at, store),
        }
    }

    /// Of a row that was made: what passage it asks about, and what is recorded of its sentences.
    pub(super) fn sentences(self, row: &Value) -> Option<(String, Sentences)> {
        if self == Self::Belebele { belebele::sentences(row) } else { None }
    }

    /// That rows are of another split than the one that their set is called by: a sentence.
    pub(super) fn other_split(self, dataset: &Dataset) -> Option<String> {
        if self == Self::CpBench { cp_bench::other_split(dataset) } else { None }
    }

    /// Puts rows together that belong together, where they must be; `None` where each stands for itself.
    pub(super) fn joins(self) -> Option<Join> {
        (self == Self::Ccfqa).then_some(ccfqa::join as Join)
    }
}

/// The published files of a folder, as one set called `test`.
fn one(data: &Path, ignore: &[&str], benchmark: &'static str) -> Result<Dataset, PrepareError> {
    let choice = Choice { ignore, published: true, ..Choice::default() };
    Dataset::choose(data, None, &choice).map_err(|e| PrepareError::Data(e, benchmark))
}

fn test(dataset: Dataset) -> Look {
    let source = Source { label: None, dataset, in_place: true };
    Look::Sets(vec![Found { name: "test".to_owned(), sources: vec![source] }])
}

/// Whether all rows are text, whose media are files already.
fn is_text(dataset: &Dataset) -> bool {
    dataset.stretches().iter().all(|stretch| stretch.rows.is_none())
}

/// The first of several fields that is there, each a path of names with dots.
fn first<'a>(row: &'a Map<String, Value>, paths: &[&str]) -> Option<&'a Value> {
    paths.iter().find_map(|path| {
        let (column, rest) =
            path.split_once('.').map_or((*path, None), |(column, rest)| (column, Some(rest)));
        let value = row.get(column)?;
        let value =
            rest.map_or(Some(value), |rest| rest.split('.').try_fold(value, |at, name| at.get(name)))?;
        (!value.is_null()).then_some(value)
    })
}

/// A value as text: numbers as they are written, lists and objects not.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// What a clip became, as a row says it.
fn clip(saved: Saved) -> Map<String, Value> {
    let mut clip = Map::new();
    clip.insert("audio".to_owned(), saved.name.into());
    if let Some(seconds) = saved.seconds {
        clip.insert("seconds".to_owned(), ((seconds * 1e6).round() / 1e6).into());
    }
    if let Some(rate) = saved.rate {
        clip.insert("rate".to_owned(), rate.into());
    }
    clip
}

/// The fields in which a clip may stand.
const CLIP: [&str; 5] = ["audio", "wav", "array", "bytes", "path"];

/// The name of a clip that stands in a place: text, or a struct around it.
fn name_in(value: &Value) -> Option<&str> {
    match value {
        Value::String(name) => Some(name),
        Value::Object(fields) => CLIP.iter().find_map(|name| name_in(fields.get(*name)?)),
        _ => None,
    }
}

/// That nothing usable is in a folder.
fn missing(data: &Path, what: &str, benchmark: &'static str, remedy: String) -> PrepareError {
    if data.is_dir() {
        return PrepareError::Missing { folder: data.to_owned(), what: what.to_owned(), remedy };
    }
    PrepareError::Data(DatasetError::Missing(data.to_owned()), benchmark)
}
