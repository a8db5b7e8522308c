//! A user's own evaluation: a JSONL file of questions with clips, images and references, and string metrics.
//!
//! There is no paper: nothing is post-processed, nothing is published to compare with.

mod row;
mod score;
mod tables;

use std::collections::BTreeMap;

use super::build::{BuildError, Entry, check_keys, check_names};
use super::{Benchmark, BenchmarkScores, Draft, JudgeSetup, RunFacts, Scorer};
use crate::config::BenchmarkConfig;
use crate::prompt::{PromptInfo, PromptSet, sha256_hex};
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{Message, Profile, Prompt, Role, Sample, Tags, Window};
use score::Metric;

/// The name that configs use.
pub const NAME: &str = "manifest";
/// The only condition.
const CONDITION: &str = "default";

/// What `harness list` says.
pub(super) fn entry() -> Entry {
    Entry {
        name: NAME,
        about: "your own JSONL file: questions with clips or images, references, string metrics",
        paper: "",
        conditions: vec![(CONDITION, "each row as it stands")],
        default_conditions: vec![CONDITION],
        metrics: Metric::ALL.map(Metric::name).to_vec(),
        wording: "",
        published: "",
        data: "",
    }
}

/// The benchmark of one section.
#[derive(Debug)]
pub struct Manifest {
    names: Vec<String>,
    fields: BTreeMap<String, String>,
    system: Option<String>,
    metrics: Vec<Metric>,
    window: Window,
    profile: Profile,
}

impl Manifest {
    /// The benchmark of a section; see [`super::build`].
    pub fn new(config: &BenchmarkConfig, prompts: &PromptSet, window: Window) -> Result<Self, BuildError> {
        check_keys(NAME, config, &["metrics", "fields", "system"])?;
        let useless =
            [("prompt", prompts.names().next().is_some()), ("allow_other_data", config.allow_other_data)];
        if let Some((key, _)) = useless.into_iter().find(|(_, given)| *given) {
            return Err(BuildError::Useless { benchmark: NAME, key });
        }
        check_names("condition", &config.conditions, &[CONDITION])?;
        check_names("field", config.fields.keys(), &row::FIELDS)?;
        check_names("metric", &config.metrics, &Metric::ALL.map(Metric::name))?;
        let asked = |metric: &Metric| config.metrics.iter().any(|name| name == metric.name());
        let metrics = if config.metrics.is_empty() {
            Metric::DEFAULT.to_vec()
        } else {
            Metric::ALL.into_iter().filter(asked).collect()
        };
        Ok(Self {
            names: vec![CONDITION.to_owned()],
            fields: config.fields.clone(),
            system: config.system.clone().filter(|text| !text.is_empty()),
            metrics,
            window,
            profile: config.profile,
        })
    }
}

impl Benchmark for Manifest {
    fn conditions(&self) -> &[String] {
        &self.names
    }

    fn sample(&self, line: u64, row: serde_json::Value) -> Result<Sample, String> {
        let id = row::Row::read(&row, &self.fields, self.window)?.id;
        Ok(Sample { id: id.unwrap_or_else(|| format!("line-{line}")), row })
    }

    fn requests(&self, sample: &Sample) -> Vec<Draft> {
        let Ok(row) = row::Row::read(&sample.row, &self.fields, self.window) else { return Vec::new() };
        let mut messages = row.messages;
        let has_system = messages.first().is_some_and(|message| message.role == Role::System);
        if let Some(system) = self.system.as_ref().filter(|_| !has_system) {
            messages.insert(0, Message::text(Role::System, system));
        }
        let prompt = Prompt::Chat(messages);
        let (tags, gold) = (row.tags, row.references);
        vec![Draft { conditions: self.names.clone(), tags, gold, judging: Tags::new(), prompt }]
    }

    fn prompts(&self) -> Vec<PromptInfo> {
        let info = |text: &String| PromptInfo {
            name: "system".to_owned(),
            status: "config".to_owned(),
            sha256: sha256_hex(text),
        };
        self.system.iter().map(info).collect()
    }

    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String> {
        let mut found = Vec::new();
        if let Some((taken, all)) = facts.subset.filter(|(taken, all)| taken != all) {
            found.push(format!("a subset: {taken} of {all} samples"));
        }
        if self.window != Window::Whole && !facts.replayed() {
            let window = self.window.as_str();
            found.push(format!("clips longer than the model takes are cut to a part (window `{window}`)"));
        }
        found
    }

    fn scorer(&self, _judge: Option<&JudgeSetup>) -> Box<dyn Scorer> {
        Box::new(score::ManifestScorer::new(self.metrics.clone(), self.profile))
    }

    fn tables(&self, scores: &BenchmarkScores, _: &Published, _: Option<&str>) -> Vec<Table> {
        tables::all(&self.metrics, scores)
    }
}

#[cfg(test)]
mod tests;
