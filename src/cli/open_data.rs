//! From a section of a config to its data: which files of a folder are meant, and what must be prepared first.

use std::num::NonZeroUsize;

use super::open::Unprepared;
use super::prepare_progress::PrepareProgress;
use crate::benchmark::{self, sources};
use crate::config::BenchmarkConfig;
use crate::dataset::{Choice, Dataset, DatasetError};
use crate::prepare::{self, Asked, Plan};
use crate::types::size;

/// Bytes of published files that a run prepares by itself: minutes. Whoever has more is told so, and gives the command
/// when there is time and room for it.
const MOST: u64 = 4_000_000_000;

/// What is wrong, and the key of the section that it comes from.
type Problem = (&'static str, String);

/// The data of a section.
pub(super) fn open(config: &BenchmarkConfig, unprepared: Unprepared) -> Result<Dataset, Problem> {
    let published = sources::sources(&config.name).ok();
    let ignore: Vec<&str> =
        published.iter().flat_map(|sources| &sources.ignore).map(String::as_str).collect();
    let sets: Vec<&str> = config.languages.iter().map(String::as_str).collect();
    let choice = Choice {
        split: published.as_ref().and_then(sources::split),
        ignore: &ignore,
        sets: &sets,
        ..Choice::default()
    };
    let choose = || Dataset::choose(&config.data, config.media.as_deref(), &choice);
    let found = choose();
    let Some(plan) = needed(config, &found)? else { return found.map_err(|e| problem(config, &e)) };
    let todo = || plan.sets.iter().filter(|set| set.done.is_none());
    let bytes: u64 = todo().map(prepare::PlannedSet::bytes).sum();
    let names = todo().map(|set| set.name.as_str()).collect::<Vec<_>>();
    if unprepared == Unprepared::Prepared && bytes <= MOST {
        prepare_now(&plan, bytes)?;
        return choose().map_err(|e| problem(config, &e));
    }
    let languages = if prepare::is_by_language(&config.name) && !config.languages.is_empty() {
        format!(" --languages {}", config.languages.join(","))
    } else {
        String::new()
    };
    let data = config.data.display();
    let by_itself = if bytes <= MOST { ", or let `harness run` do it first" } else { "" };
    let sentence = format!(
        "{data}: is published in columns and read as rows ({}, {} to be prepared): run `harness prepare {} --data \
         {data}{languages}` once{by_itself}",
        names.join(", "),
        size(bytes),
        config.name
    );
    Err(("data", sentence))
}

/// What must be prepared, if anything must.
fn needed(config: &BenchmarkConfig, found: &Result<Dataset, DatasetError>) -> Result<Option<Plan>, Problem> {
    let (must, may) = match found {
        Ok(dataset) => (prepare::is_needed(&config.name, dataset), false),
        Err(DatasetError::Unprepared { .. }) => (true, false),
        // A folder for each language is none that rows are found in.
        Err(DatasetError::NoIndex { .. }) => (false, prepare::is_by_language(&config.name)),
        Err(_) => (false, false),
    };
    if !must && !may {
        return Ok(None);
    }
    let languages = if prepare::is_by_language(&config.name) { config.languages.clone() } else { Vec::new() };
    let asked = Asked { benchmark: config.name.clone(), data: config.data.clone(), to: None, languages };
    match prepare::plan(&asked) {
        Ok(plan) if plan.sets.is_empty() => Ok(None),
        Ok(plan) => Ok(Some(plan)),
        Err(e) => Err(("data", e.to_string())),
    }
}

fn prepare_now(plan: &Plan, bytes: u64) -> Result<(), Problem> {
    let name = plan.benchmark;
    eprintln!(
        "preparing {} of {name} in {}, once (harness prepare {name})",
        size(bytes),
        plan.data.display()
    );
    let progress = PrepareProgress::new(bytes);
    let jobs = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let done = prepare::carry_out(plan, jobs, &|event| progress.on(event));
    progress.finish();
    done.map_err(|e| ("data", e.to_string()))
}

/// What is wrong with data that cannot be opened.
fn problem(config: &BenchmarkConfig, error: &DatasetError) -> Problem {
    let of_media = matches!(error, DatasetError::Missing(path) if Some(path) == config.media.as_ref());
    let key = if of_media { "media" } else { "data" };
    let published = benchmark::entry(&config.name);
    let missing = matches!(error, DatasetError::Missing(_));
    match published.filter(|entry| missing && !entry.data.is_empty()) {
        Some(entry) => (key, format!("{error}; get the data: {}", entry.data)),
        None => (key, error.to_string()),
    }
}
