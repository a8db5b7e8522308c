//! `harness prepare`: published data to files, once.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::exit::{self, Failure};
use super::prepare_evidence::{self, EvidenceArgs};
use super::prepare_progress::PrepareProgress;
use super::prepare_summary::summary;
use super::print;
use super::progress::{duration, plural};
use crate::dataset::prepared::{Counts, FOLDER, Record, SetRecord};
use crate::prepare::{Asked, Plan, PrepareError, carry_out, plan};
use crate::types::size;

/// Problems of a set that are shown.
const SHOWN: usize = 10;

/// What to prepare, and how.
#[derive(Debug, Args)]
pub(super) struct PrepareArgs {
    /// The benchmark whose data are to be prepared.
    benchmark: String,
    /// The data folder [default: data/BENCHMARK].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Another data folder to write to: `data` in a config must name that one then [default: the data folder].
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Only these languages, by the codes that the data use.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    languages: Vec<String>,
    /// Threads [default: as many as there are processors].
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    evidence: EvidenceArgs,
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        let code = if error.is_disk() { exit::FOLDER } else { exit::USAGE };
        Self::new(code, format!("error: {error}"))
    }
}

/// `harness prepare`
pub(super) fn prepare(args: &PrepareArgs) -> Result<u8, Failure> {
    let jobs =
        || args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    if args.benchmark == prepare_evidence::BENCHMARK {
        if !args.languages.is_empty() {
            let sentence = "--languages: only 2m-belebele is published by language; leave it out";
            return Err(Failure::new(exit::USAGE, format!("error: {sentence}")));
        }
        return prepare_evidence::prepare(&args.evidence, args.data.clone(), args.to.clone(), jobs());
    }
    if let Some(key) = args.evidence.given() {
        let sentence = format!("{key} means nothing to {}: leave it out", args.benchmark);
        return Err(Failure::new(exit::USAGE, format!("error: {sentence}")));
    }
    let data = args.data.clone().unwrap_or_else(|| PathBuf::from("data").join(&args.benchmark));
    let asked = Asked {
        benchmark: args.benchmark.clone(),
        data,
        to: args.to.clone().filter(|to| Some(to) != args.data.as_ref()),
        languages: args.languages.clone(),
    };
    let plan = plan(&asked)?;
    if let Some(sentence) = &plan.nothing {
        print(&format!("{sentence}\n"))?;
        return Ok(exit::DONE);
    }
    let todo: Vec<_> = plan.sets.iter().filter(|set| set.done.is_none()).collect();
    let bytes: u64 = todo.iter().map(|set| set.bytes()).sum();
    let mut lines = String::new();
    for note in &plan.notes {
        let _ = writeln!(lines, "note: {note}");
    }
    if !todo.is_empty() {
        let _ = writeln!(
            lines,
            "{}: {} of {} in {} -> {}",
            plan.benchmark,
            plural(todo.len() as u64, "set"),
            size(bytes),
            plan.data.display(),
            plan.to.join(FOLDER).display()
        );
        print(&std::mem::take(&mut lines))?;
        let progress = PrepareProgress::new(bytes);
        let jobs = jobs();
        let done = carry_out(&plan, jobs, &|event| progress.on(event));
        let (now, seconds) = progress.finish();
        done?;
        let rate = if seconds > 0.0 { now as f64 / seconds } else { 0.0 };
        let _ = writeln!(
            lines,
            "{} of published files in {}, {}/s on {jobs} threads",
            size(now),
            duration(seconds),
            size(rate as u64)
        );
    }
    let record = Record::read(&plan.to).map_err(PrepareError::Prepared)?;
    let broken = report(&plan, record.as_ref(), &mut lines);
    print(&lines)?;
    Ok(if broken { exit::INCOMPLETE } else { exit::DONE })
}

/// A line a set, and its problems; whether there are any.
fn report(plan: &Plan, record: Option<&Record>, out: &mut String) -> bool {
    let mut broken = false;
    let mut all = Vec::new();
    for set in &plan.sets {
        let already = if set.done.is_some() { "prepared already; " } else { "" };
        let Some(found) = record.and_then(|record| record.sets.get(&set.name)) else { continue };
        let _ = writeln!(out, "{}: {already}{}", set.name, describe(&found.counts));
        broken |= problems(&set.name, found);
        all.push(found.counts);
    }
    out.push_str(&summary(&all));
    let _ = writeln!(out, "rows: {}", plan.to.join(FOLDER).display());
    broken
}

fn problems(name: &str, set: &SetRecord) -> bool {
    for problem in set.problems.iter().take(SHOWN) {
        eprintln!("{name}: {problem}");
    }
    let more = set.counts.problems.saturating_sub(set.problems.len().min(SHOWN) as u64);
    if more > 0 {
        eprintln!("{name}: and {more} more");
    }
    set.counts.problems > 0
}

/// What a set is, in a line.
fn describe(counts: &Counts) -> String {
    let mut out = format!("{} rows, {} files, {}", counts.rows, counts.files, size(counts.file_bytes));
    if counts.audio_ms > 0 {
        let _ = write!(out, ", {} of audio", duration(counts.audio_ms as f64 / 1000.0));
    }
    let kinds = [
        (counts.original, "with the bytes that were published"),
        (counts.pcm16, "with the same values in 16 bits"),
        (counts.float32, "with the same values as 32-bit floats"),
        (counts.rounded, "rounded from 64-bit floats to 32-bit ones"),
    ];
    let kinds = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    let kinds = kinds.collect::<Vec<_>>();
    if !kinds.is_empty() {
        let _ = write!(out, "; {}", kinds.join(", "));
    }
    if counts.loud > 0 {
        let _ = write!(
            out,
            "; {} files have {} samples beyond full scale, which are kept",
            counts.loud, counts.beyond
        );
    }
    if counts.absent > 0 {
        let _ = write!(out, "; {} places hold no recording", counts.absent);
    }
    if counts.problems > 0 {
        let _ = write!(out, "; {}", plural(counts.problems, "problem"));
    }
    if counts.faults > 0 {
        let _ = write!(out, ", {} of them may pass: the same command tries again", counts.faults);
    }
    out
}
