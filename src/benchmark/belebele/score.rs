//! Scoring of 2M-Belebele: a letter against the gold letter, in three readings; accuracy by language as the mean over
//! seeds, of these the mean over languages.
//!
//! Text is scored again on the rows that were heard, for each spoken condition, and everything on the rows whose
//! sentences all have a recording: other rows are another question. What was withheld or says no letter is wrong, and
//! counted.

use std::collections::{BTreeMap, HashSet};

use super::figures::{Reading, Runs, average, share_reaching};
use super::row::Heard;
use super::{Condition, NAME, OPTIONS};
use crate::benchmark::conditions::Conditions as _;
use crate::benchmark::judging::JudgeCall;
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, MetricValue, Scorer};
use crate::config::BelebeleConfig;
use crate::metric::bootstrap::{Counted, interval};
use crate::metric::letter::{Found, is_refusal, lenient, official, recipe};
use crate::types::{Outcome, Planned, Profile, Response, SEED, Tags};

/// Of a language, by profile.
pub(super) const ACCURACY: &str = "accuracy";
/// With options that are written out.
pub(super) const LENIENT: &str = "accuracy_lenient";
/// The unweighted mean over languages.
pub(super) const AVERAGE: &str = "accuracy_average";
/// The same of the lenient reading.
pub(super) const LENIENT_AVERAGE: &str = "accuracy_lenient_average";
/// The share of languages with an accuracy of 50 % at least.
pub(super) const GE_50: &str = "share_ge_50";
/// Of 70 %.
pub(super) const GE_70: &str = "share_ge_70";
/// The ends of the interval around a language's accuracy.
pub(super) const LOW: &str = "accuracy_low";
pub(super) const HIGH: &str = "accuracy_high";
/// Samples that could not be asked by speech.
pub(super) const UNHEARD: &str = "rows_without_audio";

/// The seed of the intervals' draws.
const INTERVAL_SEED: u64 = 0;

/// Which rows a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    All,
    /// Those of which all sentences have a recording.
    Matched,
    /// Of a condition without speech: those that were answered by a spoken one.
    Same(Condition),
}

impl Rows {
    /// The group that names them.
    pub(super) fn tag(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::All => None,
            Self::Matched => Some(("rows", "matched")),
            Self::Same(spoken) => Some(("rows", spoken.name())),
        }
    }
}

/// One answer.
#[derive(Clone, Copy, Debug)]
struct Item {
    condition: Condition,
    run: usize,
    language: usize,
    sample: u64,
    passage: u64,
    matched: bool,
    right: [bool; 3],
}

/// What is counted beside answers, of a condition and language.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    /// Answers without a letter by reading: each has a rule of its own.
    unparsed: [u64; 3],
    /// Those of them that refuse.
    refusals: [u64; 3],
    withheld: u64,
}

/// Of a language: its runs, its samples, and answers by passage.
type OfLanguage = (Runs, HashSet<u64>, BTreeMap<u64, Counted>);

/// Scores of one section.
pub(super) struct BelebeleScorer {
    conditions: Vec<Condition>,
    profile: Profile,
    settings: BelebeleConfig,
    counts: Vec<ConditionCounts>,
    languages: Vec<String>,
    items: Vec<Item>,
    beside: BTreeMap<(usize, usize), Beside>,
    /// Samples by condition, with how they are heard.
    planned: BTreeMap<usize, BTreeMap<u64, (usize, u8)>>,
    taken: u64,
    same: SameAnswer,
}

impl BelebeleScorer {
    pub(super) fn new(conditions: &[Condition], profile: Profile, settings: &BelebeleConfig) -> Self {
        Self {
            conditions: conditions.to_vec(),
            profile,
            settings: settings.clone(),
            counts: conditions.iter().map(|condition| ConditionCounts::new(condition.name())).collect(),
            languages: Vec::new(),
            items: Vec::new(),
            beside: BTreeMap::new(),
            planned: BTreeMap::new(),
            taken: 0,
            same: SameAnswer::default(),
        }
    }

    fn language(&mut self, code: &str) -> usize {
        let found = self.languages.iter().position(|known| known == code);
        found.unwrap_or_else(|| {
            self.languages.push(code.to_owned());
            self.languages.len() - 1
        })
    }

    /// What an answer says in each reading; official, recipe, lenient.
    fn read(&self, planned: &Planned, text: &str) -> [Found; 3] {
        let option = |name: &&str| planned.judging.get(*name).map(String::as_str).unwrap_or_default();
        let options: Vec<&str> = OPTIONS.iter().map(option).collect();
        [official(text, self.settings.strip_prefix), recipe(text), lenient(text, &options)]
    }

    /// The samples that were answered, by spoken condition.
    fn heard(&self) -> BTreeMap<Condition, HashSet<u64>> {
        let mut heard: BTreeMap<Condition, HashSet<u64>> = BTreeMap::new();
        for item in self.items.iter().filter(|item| item.condition.is_spoken()) {
            heard.entry(item.condition).or_default().insert(item.sample);
        }
        heard
    }

    /// Whether the sets of rows of a condition are worth a figure of their own.
    fn rows_of(&self, condition: Condition) -> Vec<Rows> {
        let asked = self.conditions.iter().copied();
        let mut rows = vec![Rows::All];
        if condition.is_spoken() || self.conditions.contains(&Condition::Speech) {
            rows.push(Rows::Matched);
        }
        if !condition.is_spoken() {
            rows.extend(asked.filter(|condition| condition.is_spoken()).map(Rows::Same));
        }
        rows
    }

    fn figures_of(
        &self,
        condition: Condition,
        rows: Rows,
        heard: &BTreeMap<Condition, HashSet<u64>>,
        into: &mut Vec<MetricValue>,
    ) {
        let wanted = |item: &&Item| {
            item.condition == condition
                && match rows {
                    Rows::All => true,
                    Rows::Matched => item.matched,
                    Rows::Same(spoken) => {
                        heard.get(&spoken).is_some_and(|heard| heard.contains(&item.sample))
                    }
                }
        };
        let mut by_language: BTreeMap<usize, OfLanguage> = BTreeMap::new();
        for item in self.items.iter().filter(wanted) {
            let (runs, samples, passages) = by_language.entry(item.language).or_default();
            runs.add(item.run, item.right);
            samples.insert(item.sample);
            let counted = passages.entry(item.passage).or_default();
            counted.answers += 1;
            let [official, recipe, _] = item.right;
            counted.right += u64::from(if self.profile == Profile::Official { official } else { recipe });
        }
        let place = self.conditions.iter().position(|known| *known == condition).unwrap_or_default();
        let group = |language: Option<&str>| -> Tags {
            let language = language.map(|code| ("language".to_owned(), code.to_owned()));
            let rows = rows.tag().map(|(key, value)| (key.to_owned(), value.to_owned()));
            language.into_iter().chain(rows).collect()
        };
        let figure =
            |metric: &str, profile: Option<Profile>, group: Tags, value: Option<f64>, n: u64| MetricValue {
                metric: metric.to_owned(),
                profile,
                condition: condition.name().to_owned(),
                group,
                value,
                n,
                counts: BTreeMap::new(),
            };
        for (language, (runs, samples, passages)) in &by_language {
            let code = self.languages.get(*language).map(String::as_str).unwrap_or_default();
            for reading in Reading::ALL {
                let (metric, profile) = named(reading, ACCURACY, LENIENT);
                let mut value =
                    figure(metric, profile, group(Some(code)), runs.accuracy(reading), runs.answers());
                value.counts = [
                    ("items", samples.len() as u64),
                    ("right", runs.right(reading)),
                    ("runs", runs.0.iter().filter(|run| run.answers > 0).count() as u64),
                ]
                .map(|(name, count)| (name.to_owned(), count))
                .into();
                if rows == Rows::All {
                    value.counts.extend(self.without_letter(place, *language, reading));
                }
                if rows == Rows::All && reading == Reading::Recipe {
                    value.counts.extend(self.beside_of(place, *language));
                }
                into.push(value);
            }
            let passages: Vec<Counted> = passages.values().copied().collect();
            if let Some((low, high)) = interval(&passages, INTERVAL_SEED) {
                let n = passages.len() as u64;
                into.push(figure(LOW, Some(self.profile), group(Some(code)), Some(low), n));
                into.push(figure(HIGH, Some(self.profile), group(Some(code)), Some(high), n));
            }
        }
        let languages = || by_language.values().map(|(runs, ..)| runs);
        let n = by_language.len() as u64;
        for reading in Reading::ALL {
            let (metric, profile) = named(reading, AVERAGE, LENIENT_AVERAGE);
            into.push(figure(metric, profile, group(None), average(languages(), reading), n));
        }
        for reading in [Reading::Official, Reading::Recipe] {
            let (_, profile) = named(reading, "", "");
            let share = |tenths| share_reaching(languages(), reading, tenths);
            into.push(figure(GE_50, profile, group(None), share(5), n));
            into.push(figure(GE_70, profile, group(None), share(7), n));
        }
    }

    /// Answers of a condition and language in which a reading finds no letter.
    fn without_letter(&self, condition: usize, language: usize, reading: Reading) -> [(String, u64); 2] {
        let beside = self.beside.get(&(condition, language)).copied().unwrap_or_default();
        [("unparsed", beside.unparsed), ("refusals", beside.refusals)]
            .map(|(name, counts)| (name.to_owned(), reading.of(counts)))
    }

    /// Counts of a condition and language that are in no figure, and the same for all readings.
    fn beside_of(&self, condition: usize, language: usize) -> BTreeMap<String, u64> {
        let beside = self.beside.get(&(condition, language)).copied().unwrap_or_default();
        let asked = self.planned.get(&condition);
        let heard_as = |kind: Heard| {
            let fits = |found: &&(usize, u8)| found.0 == language && found.1 == kind as u8;
            asked.map_or(0, |asked| asked.values().filter(fits).count() as u64)
        };
        [
            ("withheld", beside.withheld),
            ("partial_audio", heard_as(Heard::Some)),
            ("no_audio", heard_as(Heard::None)),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into()
    }
}

/// The metric and profile of a reading.
fn named(
    reading: Reading,
    metric: &'static str,
    of_lenient: &'static str,
) -> (&'static str, Option<Profile>) {
    match reading {
        Reading::Official => (metric, Some(Profile::Official)),
        Reading::Recipe => (metric, Some(Profile::Recipe)),
        Reading::Lenient => (of_lenient, None),
    }
}

fn hash(text: &str) -> u64 {
    blake3::hash(text.as_bytes())
        .as_bytes()
        .iter()
        .take(8)
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Scorer for BelebeleScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>, _calls: &[JudgeCall]) {
        let known = Condition::of(planned);
        let Some(condition) = known else { return };
        let Some(place) = self.conditions.iter().position(|asked| *asked == condition) else { return };
        if let Some(counts) = self.counts.get_mut(place) {
            counts.count(response.map(|response| response.outcome));
        }
        let tag = |key: &str| planned.tags.get(key).map(String::as_str).unwrap_or_default();
        let heard = match tag("heard") {
            "all" => Heard::All,
            "some" => Heard::Some,
            _ => Heard::None,
        };
        let (sample, passage) = (hash(&planned.sample), hash(tag("passage")));
        let seed = planned.tags.get(SEED).and_then(|seed| seed.parse::<u64>().ok());
        let run = seed.and_then(|seed| self.settings.seeds.iter().position(|known| *known == seed));
        let language = self.language(tag("language"));
        self.planned.entry(place).or_default().insert(sample, (language, heard as u8));
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        self.same.add(&response.text, &planned.sample, &planned.gold);
        let gold = planned.gold.first().and_then(|gold| gold.chars().next());
        let found = self.read(planned, &response.text);
        let beside = self.beside.entry((place, language)).or_default();
        let without = found.map(|found| found.letter.is_none());
        let refuses = without.contains(&true) && is_refusal(&response.text);
        for (count, without) in beside.unparsed.iter_mut().zip(without) {
            *count += u64::from(without);
        }
        for (count, without) in beside.refusals.iter_mut().zip(without) {
            *count += u64::from(without && refuses);
        }
        beside.withheld += u64::from(response.outcome == Outcome::ContentFilter);
        self.items.push(Item {
            condition,
            run: run.unwrap_or_default(),
            language,
            sample,
            passage,
            matched: heard == Heard::All,
            right: found.map(|found| found.letter.is_some() && found.letter == gold),
        });
    }

    fn taken(&mut self, samples: u64) {
        self.taken = samples;
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let heard = self.heard();
        let mut metrics = Vec::new();
        for condition in &self.conditions {
            for rows in self.rows_of(*condition) {
                self.figures_of(*condition, rows, &heard, &mut metrics);
            }
        }
        for (place, condition) in self.conditions.iter().enumerate().filter(|(_, c)| c.is_spoken()) {
            let asked = self.planned.get(&place).map_or(0, BTreeMap::len) as u64;
            metrics.push(MetricValue {
                metric: UNHEARD.to_owned(),
                profile: None,
                condition: condition.name().to_owned(),
                group: Tags::new(),
                value: Some(self.taken.saturating_sub(asked) as f64),
                n: self.taken,
                counts: BTreeMap::new(),
            });
        }
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            warnings: self.same.warning("questions").into_iter().collect(),
            conditions: self.counts,
            metrics,
            ..BenchmarkScores::default()
        }
    }
}
