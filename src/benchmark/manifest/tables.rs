//! The tables of a manifest: all figures, then one table for each tag that makes groups.

use super::score::{GROUPS, Metric};
use super::{CONDITION, NAME};
use crate::benchmark::{BenchmarkScores, notes};
use crate::metric::edit::Normaliser;
use crate::report::table::{Cell, Table};

/// All tables.
pub(super) fn all(metrics: &[Metric], scores: &BenchmarkScores) -> Vec<Table> {
    let label = if scores.label.is_empty() { NAME } else { scores.label.as_str() };
    std::iter::once(main(metrics, scores, label))
        .chain(GROUPS.iter().filter_map(|key| groups(metrics, scores, label, key)))
        .collect()
}

/// One row for each figure.
fn main(metrics: &[Metric], scores: &BenchmarkScores, label: &str) -> Table {
    let mut rows = Vec::new();
    let mut about = Vec::new();
    for (metric, &(name, meaning)) in metrics.iter().flat_map(|m| m.figures().iter().map(move |f| (m, f))) {
        let Some(found) = scores.find(name, CONDITION, &[]) else { continue };
        rows.push(vec![Cell::text(name), Cell::number(found.value, 1), Cell::Count(found.n)]);
        about.push(format!("{name}: {meaning}"));
        if metric.normaliser().is_some() && name.ends_with("_corpus") {
            let count = |name: &str| found.counts.get(name).copied().unwrap_or_default();
            about.push(format!(
                "{name}: {} substitutions, {} insertions, {} deletions, {} in references; {} empty references, \
                 which count here and have no part in the mean",
                count("substitutions"),
                count("insertions"),
                count("deletions"),
                count("reference"),
                count("empty_references")
            ));
        }
    }
    let mut normalisers: Vec<&str> =
        metrics.iter().filter_map(|m| m.normaliser()).map(Normaliser::about).collect();
    normalisers.sort_unstable();
    normalisers.dedup();
    about.extend(normalisers.into_iter().map(|about| format!("normaliser {about}")));
    about.extend(notes::common(scores));
    Table {
        name: format!("{label}-main"),
        title: format!("{label}: answers as they are, in percent"),
        columns: ["metric", "this run", "n"].map(str::to_owned).into(),
        rows,
        notes: about,
    }
}

/// One row for each value of a tag; nothing where the tag makes no groups.
fn groups(metrics: &[Metric], scores: &BenchmarkScores, label: &str, key: &str) -> Option<Table> {
    let mut values: Vec<&str> =
        scores.metrics.iter().filter_map(|m| m.group.get(key)).map(String::as_str).collect();
    values.dedup();
    values.sort_unstable();
    values.dedup();
    let figures: Vec<&str> = metrics.iter().flat_map(|m| m.figures()).map(|(name, _)| *name).collect();
    let first = *figures.first()?;
    if values.is_empty() {
        return None;
    }
    let rows = values.into_iter().map(|value| {
        let find = |metric| scores.find(metric, CONDITION, &[(key, value)]);
        let cells = figures.iter().map(|metric| Cell::number(find(metric).and_then(|found| found.value), 1));
        let n = find(first).map_or(Cell::Empty, |found| Cell::Count(found.n));
        std::iter::once(Cell::text(value)).chain(cells).chain([n]).collect()
    });
    let columns = std::iter::once(key).chain(figures.iter().copied()).chain(["n"]);
    Some(Table {
        name: format!("{label}-{key}"),
        title: format!("{label} by {key}: answers as they are, in percent"),
        columns: columns.map(str::to_owned).collect(),
        rows: rows.collect(),
        notes: notes::common(scores),
    })
}
