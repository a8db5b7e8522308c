//! `harness score` and `harness report`.

use std::path::Path;

use super::exit::{self, Failure};
use super::predictions::{self, Predictions};
use super::{FolderArgs, ScoreArgs, print};
use crate::benchmark::JudgeScores;
use crate::model::replay;
use crate::report::scores_file::Scores;
use crate::run::folder::find_run;
use crate::run::judge::JudgeFile;
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
        if let Some(judge) = &section.judge {
            for (word, sentence) in unheard(folder, judge) {
                eprintln!("{word}: {}: {sentence}", section.label);
            }
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

/// What is to be said of calls of a judge that gave no reply: those that can be made again, and those that would come
/// to the same.
fn unheard(folder: &Path, judge: &JudgeScores) -> Vec<(&'static str, String)> {
    let (calls, name, withheld) = (judge.calls, &judge.judge, judge.withheld());
    let failed = judge.unheard().saturating_sub(withheld);
    let mut found = Vec::new();
    if failed > 0 {
        let told = JudgeFile::read(folder, name).ok().flatten().map(|file| file.options).unwrap_or_default();
        let quoted = told.iter().map(|word| {
            if word.contains(char::is_whitespace) { format!(" \"{word}\"") } else { format!(" {word}") }
        });
        found.push(format!(
            "{failed} of {calls} calls of the judge {name} gave no reply ({} never made). To make just these: \
             harness judge {}{}",
            judge.missing,
            folder.display(),
            quoted.collect::<String>()
        ));
    }
    if withheld > 0 {
        found.push(format!(
            "{withheld} of {calls} replies of the judge {name} were withheld by a filter, and asking again would not \
             change that: on_error under [judge] says what becomes of their answers"
        ));
    }
    if judge.unreadable() {
        found.push(format!(
            "none of the {} replies of the judge {name} could be read, and the scores mean nothing: look at them in \
             {}",
            judge.replies(),
            folder.join("verdicts").join(format!("{name}.jsonl")).display()
        ));
    }
    let incomplete = judge.required || judge.unreadable();
    let word = if incomplete { "incomplete" } else { "note" };
    found.into_iter().map(|sentence| (word, sentence)).collect()
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
    section
        .judge
        .as_ref()
        .is_some_and(|judge| judge.unreadable() || judge.required && judge.unheard() + judge.unusable > 0)
}
