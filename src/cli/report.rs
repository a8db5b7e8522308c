//! `harness score` and `harness report`.

use std::path::Path;

use super::exit::{self, Failure};
use super::predictions::{self, Predictions};
use super::{FolderArgs, ScoreArgs, print};
use crate::model::replay;
use crate::report::scores_file::Scores;
use crate::run::folder::find_run;
use crate::run::score;

/// `harness score RUN`
pub(super) fn score(args: &ScoreArgs) -> Result<u8, Failure> {
    if let (Some(file), Some(benchmark)) = (&args.predictions, &args.benchmark) {
        let (gold, json) = (args.data.as_deref(), args.json);
        return predictions::score(&Predictions { benchmark, file, gold, json });
    }
    let folder = find_run(args.run.as_deref().unwrap_or_default(), &args.results)?;
    let scores = score::score(&folder, args.judge.as_deref())?;
    tables(&folder, &scores)?;
    warnings(&folder, &scores);
    Ok(code(&scores, args.allow_incomplete))
}

/// `harness report RUN`
pub(super) fn report(args: &FolderArgs) -> Result<u8, Failure> {
    let folder = find_run(&args.run, &args.results)?;
    let scores = score::read_scores(&folder)?;
    tables(&folder, &scores)?;
    warnings(&folder, &scores);
    Ok(code(&scores, args.allow_incomplete))
}

/// Writes the tables of a run and prints them.
pub(super) fn tables(folder: &Path, scores: &Scores) -> Result<(), Failure> {
    let tables = score::report(folder, scores)?;
    let text = tables.iter().map(crate::report::table::Table::markdown).collect::<Vec<_>>().join("\n");
    print(&text)
}

/// Says on standard error what is incomplete, and last what is suspicious.
pub(super) fn warnings(folder: &Path, scores: &Scores) {
    for section in &scores.benchmarks {
        for counts in section.conditions.iter().filter(|counts| counts.unanswered() > 0) {
            let (section, condition, planned) = (&section.label, &counts.condition, counts.planned);
            let (unanswered, missing) = (counts.unanswered(), counts.missing);
            let what = if scores.model.kind == replay::KIND {
                "Add their answers to the files, and run the config with --fresh"
            } else {
                "Run the same config again to try just these"
            };
            eprintln!(
                "incomplete: {section}: {condition}: {unanswered} of {planned} requests have no answer ({missing} never \
                 asked); they are in no score. {what}"
            );
        }
        if let Some(judge) = section.judge.as_ref().filter(|judge| judge.unheard() > 0) {
            eprintln!(
                "incomplete: {}: {} of {} calls of the judge {} gave no reply ({} never made). To make just these: \
                 harness judge {}",
                section.label,
                judge.unheard(),
                judge.calls,
                judge.judge,
                judge.missing,
                folder.display()
            );
        }
        if let Some(judge) = section.judge.as_ref().filter(|judge| judge.required && judge.unusable > 0) {
            eprintln!(
                "incomplete: {}: {} of {} replies of the judge {} give no verdict, and the answers are in no score",
                section.label, judge.unusable, judge.calls, judge.judge
            );
        }
        if section.unreadable_rows > 0 {
            eprintln!(
                "incomplete: {}: {} rows of the data are unreadable; {} names them",
                section.label,
                section.unreadable_rows,
                folder.join("manifest.json").display()
            );
        }
    }
    for section in &scores.benchmarks {
        for warning in &section.warnings {
            eprintln!("warning: {}: {warning}", section.label);
        }
    }
}

/// The exit code of scores.
pub(super) fn code(scores: &Scores, allow_incomplete: bool) -> u8 {
    let incomplete = scores
        .benchmarks
        .iter()
        .any(|s| unjudged(s) || s.unreadable_rows > 0 || s.conditions.iter().any(|c| c.unanswered() > 0));
    if incomplete && !allow_incomplete { exit::INCOMPLETE } else { exit::DONE }
}

/// Whether answers that should be judged are not.
fn unjudged(section: &crate::benchmark::BenchmarkScores) -> bool {
    section.judge.as_ref().is_some_and(|judge| judge.required && judge.unheard() + judge.unusable > 0)
}
