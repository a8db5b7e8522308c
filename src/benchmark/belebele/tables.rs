//! The tables: averages and shares of languages, and the languages one by one.

use std::collections::BTreeSet;

use super::score::{ACCURACY, AVERAGE, GE_50, GE_70, HIGH, LENIENT_AVERAGE, LOW, Rows, UNHEARD};
use super::{Condition, NAME};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::{BenchmarkScores, MetricValue, notes};
use crate::config::BelebeleConfig;
use crate::config::belebele::{MissingSentence, Speaker};
use crate::report::published::{Figure, Published};
use crate::report::table::{Cell, Table};
use crate::types::Profile;

pub(super) fn all(
    scores: &BenchmarkScores,
    published: &Published,
    compare_to: Option<&str>,
    conditions: &[Condition],
    settings: &BelebeleConfig,
) -> Vec<Table> {
    let sheet = Sheet { scores, published, compare_to, conditions, settings };
    vec![sheet.main(), sheet.languages()]
}

/// English, which is reported by itself too.
const ENGLISH: &str = "eng_Latn";
/// The sets of rows, in the order of tables.
const SETS: [Rows; 4] =
    [Rows::All, Rows::Matched, Rows::Same(Condition::Speech), Rows::Same(Condition::FullSpeech)];
/// The model that the published differences of the abstract stand under.
const ABSTRACT: &str = "the paper's abstract";

struct Sheet<'a> {
    scores: &'a BenchmarkScores,
    published: &'a Published,
    compare_to: Option<&'a str>,
    conditions: &'a [Condition],
    settings: &'a BelebeleConfig,
}

impl<'a> Sheet<'a> {
    fn label(&self) -> &'a str {
        if self.scores.label.is_empty() { NAME } else { &self.scores.label }
    }

    /// A figure of a condition and of some rows: of a language, or without one of all.
    fn find(
        &self,
        metric: &str,
        profile: Option<Profile>,
        condition: Condition,
        language: Option<&str>,
        rows: Rows,
    ) -> Option<&'a MetricValue> {
        let group: Vec<(&str, &str)> =
            language.map(|code| ("language", code)).into_iter().chain(rows.tag()).collect();
        self.scores.metrics.iter().find(|value| {
            value.metric == metric
                && value.profile == profile
                && value.condition == condition.name()
                && value.group.len() == group.len()
                && group
                    .iter()
                    .all(|(key, wanted)| value.group.get(*key).is_some_and(|found| found == wanted))
        })
    }

    fn percent(value: Option<&MetricValue>) -> Option<f64> {
        value.and_then(|value| value.value).map(|value| 100.0 * value)
    }

    /// A published figure. All that are known are of questions without examples, and stand beside such alone.
    fn theirs(&self, condition: Condition, metric: &str, group: &[(&str, &str)]) -> Option<&'a Figure> {
        self.known(condition, metric, group).filter(|_| self.settings.shots == 0)
    }

    /// A published figure, whatever is asked here.
    fn known(&self, condition: Condition, metric: &str, group: &[(&str, &str)]) -> Option<&'a Figure> {
        self.published.find(self.compare_to?, condition.name(), metric, group)
    }

    /// The other profile than that of the headline.
    fn other(&self) -> Profile {
        match self.scores.profile {
            Profile::Official => Profile::Recipe,
            Profile::Recipe => Profile::Official,
        }
    }

    fn main(&self) -> Table {
        let (profile, other) = (self.scores.profile, self.other());
        let columns = [
            "condition",
            "rows",
            "languages",
            "average",
            "English",
            ">= 50 %",
            ">= 70 %",
            other.as_str(),
            "lenient",
            "unparsed",
            "n",
            "published",
            "published English",
            "status",
        ];
        let mut used: Vec<&Figure> = Vec::new();
        let mut rows = Vec::new();
        for condition in self.conditions {
            for of in SETS {
                let Some(average) = self.find(AVERAGE, Some(profile), *condition, None, of) else { continue };
                let headline = |metric: &str| {
                    Cell::number(Self::percent(self.find(metric, Some(profile), *condition, None, of)), 1)
                };
                let english = self.find(ACCURACY, Some(profile), *condition, Some(ENGLISH), of);
                let (n, unparsed) = self.answers(*condition, of);
                let theirs = |metric: &str, group: &[(&str, &str)]| {
                    self.theirs(*condition, metric, group).filter(|_| of == Rows::All)
                };
                let (mean, in_english) = (theirs(AVERAGE, &[]), theirs(ACCURACY, &[("language", ENGLISH)]));
                rows.push(vec![
                    Cell::text(condition.name()),
                    match of {
                        Rows::All => Cell::text("all"),
                        Rows::Matched => Cell::text("fully recorded"),
                        Rows::Same(spoken) => Cell::text(format!("those of {}", spoken.name())),
                    },
                    Cell::Count(average.n),
                    headline(AVERAGE),
                    Cell::number(Self::percent(english), 1),
                    or_none(headline(GE_50)),
                    or_none(headline(GE_70)),
                    Cell::number(Self::percent(self.find(AVERAGE, Some(other), *condition, None, of)), 1),
                    Cell::number(Self::percent(self.find(LENIENT_AVERAGE, None, *condition, None, of)), 1),
                    unparsed.filter(|_| of == Rows::All).map_or(Cell::Empty, Cell::Count),
                    Cell::Count(n),
                    Cell::number(mean.map(published_percent), 1),
                    Cell::number(in_english.map(published_percent), 1),
                    mean.map_or(Cell::Empty, |figure| Cell::text(figure.status.as_str())),
                ]);
                used.extend(mean);
            }
        }
        let mut chance = vec![Cell::Empty; columns.len()];
        for (place, cell) in
            [(0, Cell::text("chance")), (3, Cell::Number(25.0, 1)), (4, Cell::Number(25.0, 1))]
        {
            if let Some(found) = chance.get_mut(place) {
                *found = cell;
            }
        }
        rows.push(chance);
        let mut notes = self.notes();
        for figure in used {
            notes.push(format!("{}: {}", figure.status.as_str(), figure.source));
            notes.extend(figure.comment.iter().cloned());
        }
        notes.extend(self.abstracts());
        notes.extend(notes::common(self.scores));
        Table {
            name: format!("{}-main", self.label()),
            title: format!("{}: accuracy in percent, profile {}", self.label(), profile.as_str()),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
            notes,
        }
    }

    /// Answers of a condition, and those of them in which the reading of the headline finds no letter: none where that was
    /// not counted, as in scores of earlier versions.
    fn answers(&self, condition: Condition, rows: Rows) -> (u64, Option<u64>) {
        let of_condition = || {
            self.scores.metrics.iter().filter(|value| {
                value.metric == ACCURACY
                    && value.profile == Some(self.scores.profile)
                    && value.condition == condition.name()
                    && value.group.get("rows").map(String::as_str) == rows.tag().map(|(_, rows)| rows)
            })
        };
        let unparsed: Option<u64> = of_condition().map(|value| value.counts.get("unparsed").copied()).sum();
        (of_condition().map(|value| value.n).sum(), unparsed)
    }

    /// A count that all readings have in common, or that of the recipe's.
    fn total(&self, condition: Condition, count: &str) -> u64 {
        let values = self.scores.metrics.iter().filter(|value| {
            value.metric == ACCURACY
                && value.profile == Some(Profile::Recipe)
                && value.condition == condition.name()
                && !value.group.contains_key("rows")
        });
        values.filter_map(|value| value.counts.get(count)).sum()
    }

    /// What the figures are, beside the notes of all benchmarks.
    fn notes(&self) -> Vec<String> {
        let settings = self.settings;
        let seeds: Vec<String> = settings.seeds.iter().map(u64::to_string).collect();
        let mut notes = vec![if settings.deterministic {
            "runs=1 (deterministic): no examples, temperature 0, so all seeds ask and answer the same"
                .to_owned()
        } else {
            format!(
                "runs={}: seeds {}; accuracy is the mean over runs",
                settings.seeds.len(),
                seeds.join(", ")
            )
        }];
        if settings.shots > 0 {
            notes.push(format!(
                "{} examples of the English training set as text, {}, the same for all questions of a seed (ChaCha8)",
                settings.shots,
                settings.shots_as.as_str()
            ));
        }
        let published =
            || self.conditions.iter().any(|condition| self.known(*condition, AVERAGE, &[]).is_some());
        if settings.shots > 0 && published() {
            notes.push(
                "published figures are left out: those that are known are zero-shot, and the questions here have examples"
                    .to_owned(),
            );
        }
        notes.push(
            "average: the unweighted mean over languages; >= 50 % and >= 70 %: the share of languages that reach it, \
             counted in whole numbers over all runs; n: answers"
                .to_owned(),
        );
        notes.push(
            "readings: `recipe` takes the letter that an answer names, `official` its first character, `lenient` also an \
             option that is written out; an answer without a letter is wrong, and unparsed by the reading of the profile"
                .to_owned(),
        );
        for condition in self.conditions.iter().copied() {
            let refusals = self.total(condition, "refusals");
            if refusals > 0 {
                notes.push(format!(
                    "{}: {refusals} answers refuse or say that nothing was heard: does the model get the media?",
                    condition.name()
                ));
            }
        }
        for condition in self.conditions.iter().copied().filter(|condition| condition.is_spoken()) {
            let unheard = self.scores.find(UNHEARD, condition.name(), &[]);
            notes.push(format!(
                "{}: {} of {} samples could not be asked (no recording{}), {} with a sentence that has none",
                condition.name(),
                unheard.and_then(|value| value.value).unwrap_or_default(),
                unheard.map_or(0, |value| value.n),
                match settings.missing {
                    MissingSentence::DropRow => ", or a sentence without one",
                    _ => "",
                },
                self.total(condition, "partial_audio"),
            ));
        }
        if self.conditions.iter().any(|condition| condition.is_spoken()) {
            notes.push(format!(
                "a passage is the recordings of its sentences, {} speaker a sentence, each brought to 16 kHz and joined \
                 with {} ms between them; sentences without a recording: {}",
                match settings.speaker {
                    Speaker::First => "the first",
                    Speaker::Seeded => "a drawn",
                },
                settings.gap_ms,
                settings.missing.as_str()
            ));
        }
        if self.conditions.contains(&Condition::NoPassage) {
            notes.push("no_passage: the layout with nothing in the place of the passage".to_owned());
        }
        notes
    }

    /// What the abstracts say, version by version: of questions without examples, as all published figures.
    fn abstracts(&self) -> Vec<String> {
        if self.settings.shots > 0 || !self.conditions.contains(&Condition::Speech) {
            return Vec::new();
        }
        let found = |group: &[(&str, &str)]| {
            self.published.find(ABSTRACT, Condition::Speech.name(), "speech_minus_text", group)
        };
        let points = |figure: &Figure| format!("{:+}", (figure.value * 100.0).round());
        let first = found(&[("version", "v1")]).map(|figure| {
            format!(
                "published ({}): speech minus text about {} points on average",
                figure.source,
                points(figure)
            )
        });
        let later = found(&[("version", "v3"), ("end", "low")])
            .zip(found(&[("version", "v3"), ("end", "high")]))
            .map(|(low, high)| {
                format!(
                    "published ({}): speech minus text {} to {} points",
                    low.source,
                    points(low),
                    points(high)
                )
            });
        first.into_iter().chain(later).collect()
    }

    fn languages(&self) -> Table {
        let profile = Some(self.scores.profile);
        let codes: BTreeSet<&str> = self
            .scores
            .metrics
            .iter()
            .filter_map(|value| value.group.get("language").map(String::as_str))
            .collect();
        let speech = self.conditions.contains(&Condition::Speech);
        let mut columns = vec!["language".to_owned()];
        for condition in self.conditions {
            columns.push(condition.name().to_owned());
            columns.push(format!("{} 95 %", condition.name()));
        }
        let spoken = || self.conditions.iter().copied().filter(|condition| condition.is_spoken());
        for name in spoken().map(Condition::name) {
            columns.push(format!("text, rows of {name}"));
            columns.push(format!("{name} - text"));
            columns.push(format!("{name}, fully recorded"));
        }
        columns.extend(["items", "n", "partial audio", "no audio", "unparsed"].map(str::to_owned));
        // The condition whose counts are shown.
        let main = if speech { Some(Condition::Speech) } else { self.conditions.first().copied() };
        let rows = codes.iter().map(|code| {
            let figure =
                |condition: Condition, rows: Rows| self.find(ACCURACY, profile, condition, Some(code), rows);
            let mut row = vec![Cell::text(*code)];
            for condition in self.conditions {
                row.push(Cell::number(Self::percent(figure(*condition, Rows::All)), 1));
                let end =
                    |metric| Self::percent(self.find(metric, profile, *condition, Some(code), Rows::All));
                let interval = end(LOW).zip(end(HIGH));
                row.push(
                    interval.map_or(Cell::Empty, |(low, high)| Cell::text(format!("{low:.1} - {high:.1}"))),
                );
            }
            for condition in spoken() {
                let text = Self::percent(figure(Condition::Text, Rows::Same(condition)));
                let heard = Self::percent(figure(condition, Rows::All));
                row.push(Cell::number(text, 1));
                row.push(Cell::delta(heard.zip(text).map(|(heard, text)| heard - text), 1));
                row.push(Cell::number(Self::percent(figure(condition, Rows::Matched)), 1));
            }
            let count = |of: &str, condition: Option<Condition>| {
                let value = condition
                    .and_then(|c| self.find(ACCURACY, Some(Profile::Recipe), c, Some(code), Rows::All));
                value.and_then(|value| value.counts.get(of).copied()).unwrap_or_default()
            };
            let n = main.and_then(|condition| figure(condition, Rows::All)).map_or(0, |value| value.n);
            let written = self.conditions.iter().copied().find(|condition| !condition.is_spoken());
            row.push(Cell::Count(count("items", main)));
            row.push(Cell::Count(n));
            row.push(Cell::Count(count("partial_audio", main)));
            row.push(written.map_or(Cell::Empty, |written| Cell::Count(count("no_audio", Some(written)))));
            let read = main.and_then(|condition| figure(condition, Rows::All));
            let unparsed = read.and_then(|value| value.counts.get("unparsed").copied());
            row.push(unparsed.map_or(Cell::Empty, Cell::Count));
            row
        });
        let rows = rows.collect();
        let mut notes = vec!["95 %: bootstrap over passages, 1,000 draws".to_owned()];
        notes.extend(main.map(|condition| {
            format!("items, n (answers), partial audio and unparsed are those of `{}`", condition.name())
        }));
        notes.extend(notes::common(self.scores));
        Table {
            name: format!("{}-languages", self.label()),
            title: format!("{}: accuracy by language in percent, chance 25", self.label()),
            columns,
            rows,
            notes,
        }
    }
}

/// A published share in percent, as it was printed.
fn published_percent(figure: &Figure) -> f64 {
    (figure.value * 1e5).round() / 1e3
}

/// What one language alone has no share of.
fn or_none(cell: Cell) -> Cell {
    if cell == Cell::Empty { Cell::text("n/a") } else { cell }
}
