//! Scoring of a manifest: every answer as it is, in percent, overall and by group.
//!
//! As everywhere, failed and missing requests are in no score, and answers that are cut, empty or withheld by a
//! filter are scored as the text that came. With several references the best one counts.

use std::collections::BTreeMap;

use super::{CONDITION, NAME};
use crate::benchmark::watch::SameAnswer;
use crate::benchmark::{BenchmarkScores, ConditionCounts, JudgeCall, MetricValue, Scorer};
use crate::metric::edit::{Edits, ErrorRate, Normaliser, best_edits, char_edits, word_edits};
use crate::metric::text::{contains, contains_norm, exact_match, exact_match_norm, thinks_to_the_end};
use crate::metric::{Mean, best, f1};
use crate::types::{Planned, Profile, Response, Tags};

/// The tags that make groups.
pub(super) const GROUPS: [&str; 3] = ["category", "set", "language"];
/// More values than this make no groups.
const MOST_GROUPS: usize = 20;

/// A metric, as configs name it. Some give two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    ExactMatch,
    Contains,
    F1TokenSet,
    F1CharSet,
    Wer,
    WerRaw,
    Cer,
    CerRaw,
}

impl Metric {
    pub(super) const ALL: [Self; 8] = [
        Self::ExactMatch,
        Self::Contains,
        Self::F1TokenSet,
        Self::F1CharSet,
        Self::Wer,
        Self::WerRaw,
        Self::Cer,
        Self::CerRaw,
    ];
    pub(super) const DEFAULT: [Self; 2] = [Self::ExactMatch, Self::F1TokenSet];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ExactMatch => "exact_match",
            Self::Contains => "contains",
            Self::F1TokenSet => "f1_token_set",
            Self::F1CharSet => "f1_char_set",
            Self::Wer => "wer",
            Self::WerRaw => "wer_raw",
            Self::Cer => "cer",
            Self::CerRaw => "cer_raw",
        }
    }

    /// The figures that it gives, each with what it is.
    pub(super) fn figures(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ExactMatch => &[
                ("exact_match", "share of answers that are a reference, byte for byte"),
                (
                    "exact_match_norm",
                    "the same after NFKC and lower-casing, punctuation and symbols to blanks, white space collapsed",
                ),
            ],
            Self::Contains => &[
                ("contains", "share of answers that hold a reference, byte for byte, inside words too"),
                (
                    "contains_norm",
                    "the same as whole words and numbers, after NFKC and lower-casing, punctuation and symbols to blanks, \
                     white space collapsed",
                ),
            ],
            Self::F1TokenSet => {
                &[("f1_token_set", "F1 on sets of lower-cased words, split at white space; mean of answers")]
            }
            Self::F1CharSet => {
                &[("f1_char_set", "F1 on sets of code points, each rounded to one decimal; mean of answers")]
            }
            Self::Wer => &[
                ("wer_corpus", "all word errors over all reference words, normaliser basic"),
                ("wer_mean", "mean of the answers' own word error rates, normaliser basic"),
            ],
            Self::WerRaw => &[
                ("wer_raw_corpus", "all word errors over all reference words, normaliser none"),
                ("wer_raw_mean", "mean of the answers' own word error rates, normaliser none"),
            ],
            Self::Cer => &[
                ("cer_corpus", "all character errors over all reference characters, normaliser basic"),
                ("cer_mean", "mean of the answers' own character error rates, normaliser basic"),
            ],
            Self::CerRaw => &[
                ("cer_raw_corpus", "all character errors over all reference characters, normaliser none"),
                ("cer_raw_mean", "mean of the answers' own character error rates, normaliser none"),
            ],
        }
    }

    /// The normaliser of an error rate.
    pub(super) fn normaliser(self) -> Option<Normaliser> {
        match self {
            Self::Wer | Self::Cer => Some(Normaliser::Basic),
            Self::WerRaw | Self::CerRaw => Some(Normaliser::None),
            Self::ExactMatch | Self::Contains | Self::F1TokenSet | Self::F1CharSet => None,
        }
    }

    /// The score of an answer; `None` without references.
    fn score(self, answer: &str, gold: &[String]) -> Option<Score> {
        if gold.is_empty() {
            return None;
        }
        let percent = |yes: bool| if yes { 100.0 } else { 0.0 };
        match self {
            Self::ExactMatch => Some(Score::Values(vec![
                percent(exact_match(answer, gold)),
                percent(exact_match_norm(answer, gold)),
            ])),
            Self::Contains => Some(Score::Values(vec![
                percent(contains(answer, gold)),
                percent(contains_norm(answer, gold)),
            ])),
            Self::F1TokenSet => {
                best(gold, |gold| f1::token_set(gold, answer) * 100.0).map(|v| Score::Values(vec![v]))
            }
            Self::F1CharSet => best(gold, |gold| f1::char_set(gold, answer)).map(|v| Score::Values(vec![v])),
            Self::Wer | Self::WerRaw => {
                let normaliser = self.normaliser()?;
                best_edits(gold, |gold| word_edits(gold, answer, normaliser)).map(Score::Edits)
            }
            Self::Cer | Self::CerRaw => {
                let normaliser = self.normaliser()?;
                best_edits(gold, |gold| char_edits(gold, answer, normaliser)).map(Score::Edits)
            }
        }
    }
}

/// The score of one answer by one metric.
#[derive(Debug)]
enum Score {
    /// One value for each figure, in percent.
    Values(Vec<f64>),
    Edits(Edits),
}

/// Scores by one metric, added up: means for the figures, or errors.
#[derive(Clone, Debug, Default)]
struct Tally {
    means: [Mean; 2],
    errors: ErrorRate,
}

impl Tally {
    fn add(&mut self, score: &Score) {
        match score {
            Score::Values(values) => {
                self.means.iter_mut().zip(values).for_each(|(mean, value)| mean.add(*value));
            }
            Score::Edits(edits) => self.errors.add(*edits),
        }
    }

    fn figures(&self, metric: Metric, group: &Tags) -> Vec<MetricValue> {
        let percent = |rate: Option<f64>| rate.map(|rate| rate * 100.0);
        let values = if metric.normaliser().is_some() {
            let all = self.errors.samples();
            [
                (percent(self.errors.corpus()), all),
                (percent(self.errors.mean()), all - self.errors.empty_references()),
            ]
        } else {
            self.means.map(|mean| (mean.value(), mean.n()))
        };
        metric
            .figures()
            .iter()
            .zip(values)
            .map(|(&(name, _), (value, n))| MetricValue {
                metric: name.to_owned(),
                profile: None,
                condition: CONDITION.to_owned(),
                group: group.clone(),
                value,
                n,
                counts: metric.normaliser().map(|_| self.counts()).unwrap_or_default(),
            })
            .collect()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let total = self.errors.total();
        [
            ("substitutions", total.substitutions),
            ("insertions", total.insertions),
            ("deletions", total.deletions),
            ("reference", total.reference),
            ("empty_references", self.errors.empty_references()),
        ]
        .map(|(name, count)| (name.to_owned(), count))
        .into()
    }
}

/// The groups of one tag, until there are too many.
#[derive(Debug)]
enum Groups {
    Few(BTreeMap<String, Vec<Tally>>),
    TooMany,
}

/// Scores of one section.
#[derive(Debug)]
pub(super) struct ManifestScorer {
    metrics: Vec<Metric>,
    profile: Profile,
    counts: ConditionCounts,
    all: Vec<Tally>,
    groups: Vec<(&'static str, Groups)>,
    same: SameAnswer,
    unfinished: u64,
}

impl ManifestScorer {
    pub(super) fn new(metrics: Vec<Metric>, profile: Profile) -> Self {
        Self {
            all: vec![Tally::default(); metrics.len()],
            metrics,
            profile,
            counts: ConditionCounts::new(CONDITION),
            groups: GROUPS.map(|key| (key, Groups::Few(BTreeMap::new()))).into(),
            same: SameAnswer::default(),
            unfinished: 0,
        }
    }
}

impl Scorer for ManifestScorer {
    fn add(&mut self, planned: &Planned, response: Option<&Response>, _calls: &[JudgeCall]) {
        self.counts.count(response.map(|response| response.outcome));
        let Some(response) = response.filter(|response| response.outcome.is_answer()) else { return };
        let score = |metric: &Metric| metric.score(&response.text, &planned.gold);
        let Some(scores) = self.metrics.iter().map(score).collect::<Option<Vec<Score>>>() else { return };
        self.all.iter_mut().zip(&scores).for_each(|(tally, score)| tally.add(score));
        self.same.add(&response.text, &planned.sample, &planned.gold);
        self.unfinished += u64::from(thinks_to_the_end(&response.text));
        for (key, groups) in &mut self.groups {
            let (Some(value), Groups::Few(few)) = (planned.tags.get(*key), &mut *groups) else { continue };
            if !few.contains_key(value) && few.len() == MOST_GROUPS {
                *groups = Groups::TooMany;
                continue;
            }
            let empty = || vec![Tally::default(); scores.len()];
            let tallies = few.entry(value.clone()).or_insert_with(empty);
            tallies.iter_mut().zip(&scores).for_each(|(tally, score)| tally.add(score));
        }
    }

    fn finish(self: Box<Self>) -> BenchmarkScores {
        let figures = |tallies: &[Tally], group: &Tags| -> Vec<MetricValue> {
            self.metrics
                .iter()
                .zip(tallies)
                .flat_map(|(&metric, tally)| tally.figures(metric, group))
                .collect()
        };
        let mut metrics = figures(&self.all, &Tags::new());
        for (key, groups) in &self.groups {
            let Groups::Few(few) = groups else { continue };
            if few.len() < 2 {
                continue;
            }
            for (value, tallies) in few {
                metrics.extend(figures(tallies, &[((*key).to_owned(), value.clone())].into()));
            }
        }
        let mut warnings: Vec<String> = self.same.warning("questions").into_iter().collect();
        if self.unfinished > 0 {
            warnings.push(format!(
                "{} answers end inside `<think>` and are scored as they are: allow more new tokens",
                self.unfinished
            ));
        }
        BenchmarkScores {
            label: NAME.to_owned(),
            benchmark: NAME.to_owned(),
            profile: self.profile,
            conditions: vec![self.counts],
            metrics,
            warnings,
            ..BenchmarkScores::default()
        }
    }
}
