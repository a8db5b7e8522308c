//! Scores as plain data: what `scores.json` holds for one benchmark.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judging::JudgeScores;
use crate::prompt::PromptInfo;
use crate::types::{Outcome, Profile, Tags, Usage};

/// The scores of one `[[benchmark]]` section.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkScores {
    /// The label of the section.
    pub label: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// The profile whose figures are the headline.
    pub profile: Profile,
    /// The prompt texts in use.
    pub prompts: Vec<PromptInfo>,
    /// What came of the requests, by condition.
    pub conditions: Vec<ConditionCounts>,
    /// Rows of the dataset that could not be read.
    pub unreadable_rows: u64,
    /// The figures.
    pub metrics: Vec<MetricValue>,
    /// How the run departs from the paper's protocol.
    pub deviations: Vec<String>,
    /// Typed warnings: suspicious results.
    pub warnings: Vec<String>,
    /// Whether the benchmark's own notes say how answers are scored that a filter withheld.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tells_withheld: bool,
    /// What judging came to, where a model judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeScores>,
    /// Tokens, and what they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageScores>,
    /// What the transcripts of a cascade took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transcribing: Option<TranscribingScores>,
    /// Answers by the model that the endpoint says they are of, where that is not the one that it was asked for alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answered_as: BTreeMap<String, u64>,
}

/// What the responses of a section took. Answers that were reused from an earlier request took nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageScores {
    /// Requests that the model answered.
    pub requests: u64,
    /// Tokens, as the model counted them.
    #[serde(flatten)]
    pub tokens: Usage,
    /// What they cost, where prices are configured, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// What the transcripts took that a section was asked with. One that several sections share counts in the first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscribingScores {
    /// Clips that the recogniser has written down.
    pub requests: u64,
    /// Those of them that were written down before the run began, for another one: they cost this one nothing.
    pub earlier: u64,
    /// Seconds of sound in the clips, as far as their lengths are known.
    pub audio_seconds: f64,
    /// Tokens, as the recogniser counted them; earlier ones included.
    #[serde(flatten)]
    pub tokens: Usage,
    /// What they cost, where prices are configured, in the currency of the prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl BenchmarkScores {
    /// The figure of a metric for a condition and a group, if it is there.
    pub fn find(&self, metric: &str, condition: &str, group: &[(&str, &str)]) -> Option<&MetricValue> {
        self.metrics.iter().find(|value| {
            value.metric == metric
                && value.condition == condition
                && value.group.len() == group.len()
                && group
                    .iter()
                    .all(|(key, wanted)| value.group.get(*key).is_some_and(|found| found == wanted))
        })
    }
}

/// What came of the requests of one condition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionCounts {
    /// The condition.
    pub condition: String,
    /// Requests that the plan holds.
    pub planned: u64,
    /// Requests by outcome; absent is zero.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Requests without any response yet.
    pub missing: u64,
}

impl ConditionCounts {
    /// No requests yet.
    pub fn new(condition: impl Into<String>) -> Self {
        Self { condition: condition.into(), ..Self::default() }
    }

    /// Counts a planned request by its outcome, or as missing.
    pub fn count(&mut self, outcome: Option<Outcome>) {
        self.planned += 1;
        match outcome {
            Some(outcome) => *self.outcomes.entry(outcome).or_default() += 1,
            None => self.missing += 1,
        }
    }

    /// Requests of an outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes.get(&outcome).copied().unwrap_or_default()
    }

    /// Requests that failed or were never answered: they are in no score.
    pub fn unanswered(&self) -> u64 {
        self.missing + Outcome::ALL.into_iter().filter(|o| !o.is_answer()).map(|o| self.of(o)).sum::<u64>()
    }
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricValue {
    /// The metric's name: `f1_char_set`, `wer_corpus`…
    pub metric: String,
    /// The profile that defines it, where the profiles differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The condition.
    pub condition: String,
    /// What it is for: empty for the condition as a whole, else `src`, `tgt`, `category`…
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub group: Tags,
    /// The figure; absent where nothing was answered.
    pub value: Option<f64>,
    /// Answers that it is made of.
    pub n: u64,
    /// Counts behind it, by name: `substitutions`, `deletions`…
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}
