//! The tables: scores by category and set, and the judging runs behind them.

use super::NAME;
use super::score::{BY_RUN, BY_WINDOW, MEAN_OF_MAX, SCORE, SCORE_SD, SUCCESS, UNBLOCKED};
use crate::benchmark::{BenchmarkScores, notes};
use crate::metric::Mean;
use crate::report::published::Published;
use crate::report::table::{Cell, Table};
use crate::types::{Outcome, Tags};

pub(super) fn all(scores: &BenchmarkScores, published: &Published, compare_to: Option<&str>) -> Vec<Table> {
    let sheet = Sheet { scores, published, compare_to };
    let mut tables = vec![sheet.main()];
    if sheet.groups().any(|_| true) {
        tables.push(sheet.runs());
    }
    tables
}

struct Sheet<'a> {
    scores: &'a BenchmarkScores,
    published: &'a Published,
    compare_to: Option<&'a str>,
}

impl<'a> Sheet<'a> {
    /// The groups that have a score: all, categories, sets, categories of sets.
    fn groups(&self) -> impl Iterator<Item = &'a Tags> {
        self.scores.metrics.iter().filter(|value| value.metric == SCORE).map(|value| &value.group)
    }

    fn value(&self, metric: &str, group: &Tags, more: Option<(&str, &str)>) -> Option<f64> {
        let tags: Vec<(&str, &str)> =
            group.iter().map(|(key, value)| (key.as_str(), value.as_str())).chain(more).collect();
        self.scores.find(metric, super::CONDITION, &tags)?.value
    }

    fn n(&self, group: &Tags) -> u64 {
        let found = self.scores.metrics.iter().find(|value| value.metric == SCORE && value.group == *group);
        found.map_or(0, |value| value.n)
    }

    /// Answers that a filter withheld, in all windows.
    fn withheld(&self) -> u64 {
        self.scores.conditions.iter().map(|counts| counts.of(Outcome::ContentFilter)).sum()
    }

    fn label(&self) -> &'a str {
        if self.scores.label.is_empty() { NAME } else { &self.scores.label }
    }

    fn title(&self, rest: &str) -> String {
        format!("{}: {rest}", self.label())
    }

    fn main(&self) -> Table {
        let windows = self.scores.metrics.iter().any(|value| value.metric == MEAN_OF_MAX);
        let mut columns = vec!["items", "score", "SD of runs", "without blocked"];
        if windows {
            columns.extend(["first window", "last window", "better window by item"]);
        }
        columns.extend(["n", "published", "status"]);
        let mut used = Vec::new();
        let rows = self.groups().map(|group| {
            let figure = |metric| Cell::number(self.value(metric, group, None), 1);
            let mut row = vec![
                Cell::text(name(group)),
                figure(SCORE),
                Cell::number(self.value(SCORE_SD, group, None), 2),
                figure(UNBLOCKED),
            ];
            if windows {
                for window in ["first", "last"] {
                    row.push(Cell::number(self.value(BY_WINDOW, group, Some(("window", window))), 1));
                }
                row.push(figure(MEAN_OF_MAX));
            }
            row.push(Cell::Count(self.n(group)));
            let tags: Vec<(&str, &str)> =
                group.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let theirs =
                self.compare_to.and_then(|model| self.published.find(model, super::CONDITION, SCORE, &tags));
            row.push(Cell::number(theirs.map(|figure| figure.value), 1));
            row.push(theirs.map_or(Cell::Empty, |figure| Cell::text(figure.status.as_str())));
            used.extend(theirs);
            row
        });
        let rows: Vec<_> = rows.collect();
        let mut notes = vec![
            "score: ratings of 0 to 5 times 20, the mean over items of each judging run, and of these the mean; an \
             answer that a filter withheld has 0"
                .to_owned(),
            "SD of runs: of the scores of the judging runs, as of a sample (n - 1)".to_owned(),
        ];
        if windows {
            notes.push(
                "clips are asked about twice, with their first and with their last part; the score is that of the \
                 window which is better overall (max_of_means), beside it the better window of each item (mean_of_max)"
                    .to_owned(),
            );
        }
        let count = |name: &str| -> u64 {
            let of_all =
                self.scores.metrics.iter().filter(|value| value.metric == SCORE && value.group.is_empty());
            of_all.filter_map(|value| value.counts.get(name)).sum()
        };
        let (blocked, unjudged) = (count("blocked"), count("unjudged"));
        let withheld = self.withheld();
        if windows && withheld > 0 {
            notes.push(format!(
                "{withheld} answers were withheld by a filter, {blocked} of them in the window that counts"
            ));
        } else if withheld > 0 {
            notes.push(format!("{withheld} answers were withheld by a filter"));
        }
        if unjudged > 0 {
            let zeros = if blocked > 0 {
                "; the zeros of withheld answers stay, and weigh more than with all verdicts"
            } else {
                ""
            };
            notes.push(format!(
                "{unjudged} answers have no verdict, and are neither in a score nor in n{zeros}"
            ));
        }
        for figure in used {
            notes.push(format!("{}: {}", figure.status.as_str(), figure.source));
        }
        notes.extend(notes::common(self.scores));
        Table {
            name: format!("{}-main", self.label()),
            title: self.title("judge scores, 0 to 100"),
            columns: columns.into_iter().map(str::to_owned).collect(),
            rows,
            notes,
        }
    }

    fn runs(&self) -> Table {
        let mut runs: Vec<&str> = self
            .scores
            .metrics
            .iter()
            .filter(|value| value.metric == BY_RUN)
            .filter_map(|value| value.group.get("run").map(String::as_str))
            .collect();
        runs.sort_unstable_by_key(|run| run.parse::<u32>().unwrap_or(u32::MAX));
        runs.dedup();
        let rows = self.groups().map(|group| {
            let values: Vec<Option<f64>> =
                runs.iter().map(|run| self.value(BY_RUN, group, Some(("run", run)))).collect();
            let mean = values.iter().flatten().copied().collect::<Mean>().value();
            std::iter::once(Cell::text(name(group)))
                .chain(values.into_iter().map(|value| Cell::number(value, 2)))
                .chain([Cell::number(mean, 2)])
                .collect()
        });
        let rows = rows.collect();
        let mut notes = Vec::new();
        if self.withheld() > 0 {
            notes.push("an answer that a filter withheld has 0 in every run".to_owned());
        }
        if let Some(success) = self.value(SUCCESS, &Tags::new(), None) {
            notes.push(format!("replies of the judge with a rating: {:.1} %", success * 100.0));
        }
        notes.extend(notes::common(self.scores));
        let columns = std::iter::once("items".to_owned())
            .chain(runs.iter().map(|run| format!("run {run}")))
            .chain(["mean".to_owned()]);
        Table {
            name: format!("{}-runs", self.label()),
            title: self.title("judging runs"),
            columns: columns.collect(),
            rows,
            notes,
        }
    }
}

/// How a group is called.
fn name(group: &Tags) -> String {
    match (group.get("set"), group.get("category")) {
        (None, None) => "all".to_owned(),
        (Some(set), None) => set.clone(),
        (None, Some(category)) => category.clone(),
        (Some(set), Some(category)) => format!("{set}, {category}"),
    }
}
