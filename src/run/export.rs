//! Export: the answers of a run as a file in the form that a benchmark's authors take.
//!
//! Reads only what the earlier stages left in the folder.

use std::io::{self, Write};
use std::path::Path;

use super::journal::{Journal, JournalError};
use super::manifest::DatasetFacts;
use super::plan::{PlanFileError, read_plan};
use super::score::{ScoreError, manifest_of, sections};

/// A run that cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Manifest or benchmark.
    #[error(transparent)]
    Run(#[from] ScoreError),
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanFileError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What is asked for is not there, or more than one thing is.
    #[error("{0}")]
    Choice(String),
    /// Answers are missing.
    #[error(
        "{unanswered} of {planned} requests have no answer: run the config again, or give --allow-incomplete to write \
         what counts as wrong in their place"
    )]
    Incomplete {
        /// Requests without an answer.
        unanswered: u64,
        /// All of them.
        planned: u64,
    },
    /// The run is of fewer rows than the data hold.
    #[error(
        "{taken} of {all} claims: a file for the authors needs a line for every row of the split; {remedy}, or give \
         --allow-incomplete to write it as it is"
    )]
    Part {
        /// Rows that the run is of.
        taken: u64,
        /// Rows of the data.
        all: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// The file cannot be written.
    #[error("the export cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// What is exported.
#[derive(Clone, Copy, Debug)]
pub struct ExportAsked<'a> {
    /// The form.
    pub format: &'a str,
    /// The label of the section; the only one that has the form where it is `None`.
    pub section: Option<&'a str>,
    /// The condition; the only one where it is `None`.
    pub condition: Option<&'a str>,
    /// Whether requests may be without an answer.
    pub allow_incomplete: bool,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Lines.
    pub lines: u64,
    /// Of these, those of requests without an answer.
    pub unanswered: u64,
    /// Rows of the data, those that could not be read too.
    pub rows: u64,
}

/// The section and condition that an export is of.
pub fn chosen(folder: &Path, asked: &ExportAsked<'_>) -> Result<(String, String), ExportError> {
    let manifest = manifest_of(folder)?;
    let all = sections(folder, &manifest, None)?;
    let fits = |label: &str| asked.section.is_none_or(|wanted| wanted == label);
    let with: Vec<_> = all.iter().filter(|(_, _, b)| b.exports().contains(&asked.format)).collect();
    let found: Vec<_> = with.iter().filter(|(config, ..)| fits(&config.label)).collect();
    let [(config, _, benchmark)] = found.as_slice() else {
        let labels: Vec<&str> = with.iter().map(|(config, ..)| &*config.label).collect();
        return Err(ExportError::Choice(match (labels.as_slice(), asked.section) {
            ([], _) => {
                let known: Vec<&str> = all.iter().flat_map(|(_, _, b)| b.exports()).copied().collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("no benchmark of this run has the form `{}`: there are {known}", asked.format)
            }
            (labels, Some(wanted)) => {
                format!("no section `{wanted}` has this form: there are {}", labels.join(", "))
            }
            (labels, None) => {
                format!("several sections have this form: name one with --benchmark ({})", labels.join(", "))
            }
        }));
    };
    let conditions = benchmark.conditions();
    let condition = match asked.condition {
        Some(wanted) => conditions.iter().find(|name| *name == wanted),
        None => conditions.first().filter(|_| conditions.len() == 1),
    };
    let condition = condition.ok_or_else(|| {
        let names = conditions.join(", ");
        ExportError::Choice(format!("name one of the conditions of this run with --condition: {names}"))
    })?;
    Ok((config.label.clone(), condition.clone()))
}

/// Writes the answers of a section in a condition, in the order of the data.
pub fn export(
    folder: &Path,
    (section, condition): (&str, &str),
    allow_incomplete: bool,
    out: &mut dyn Write,
) -> Result<Exported, ExportError> {
    let manifest = manifest_of(folder)?;
    let all = sections(folder, &manifest, None)?;
    let found = all.iter().find(|(config, ..)| config.label == section);
    let (_, facts, benchmark) =
        found.ok_or_else(|| ExportError::Choice(format!("the run has no section `{section}`")))?;
    let journal = Journal::read(&folder.join("responses.jsonl"))?;
    let DatasetFacts { samples, unreadable_rows, .. } = facts.dataset;
    let rows = samples.saturating_add(unreadable_rows);
    if facts.samples < rows && !allow_incomplete {
        let remedy = if unreadable_rows > 0 {
            "repair the rows that could not be read, and run the config again"
        } else {
            "run the config without `limit`"
        };
        return Err(ExportError::Part { taken: facts.samples, all: rows, remedy });
    }
    let mut done = Exported { lines: 0, unanswered: 0, rows };
    for planned in read_plan(folder)? {
        let planned = planned?;
        if planned.benchmark != section || planned.conditions.iter().all(|name| name != condition) {
            continue;
        }
        let response = match &journal {
            Some(journal) => journal.response(&planned.request)?,
            None => None,
        };
        done.unanswered += u64::from(!response.as_ref().is_some_and(|r| r.outcome.is_answer()));
        if let Some(line) = benchmark.export(&planned, response.as_ref()) {
            writeln!(out, "{line}")?;
            done.lines += 1;
        }
    }
    if done.unanswered > 0 && !allow_incomplete {
        return Err(ExportError::Incomplete { unanswered: done.unanswered, planned: done.lines });
    }
    Ok(done)
}
