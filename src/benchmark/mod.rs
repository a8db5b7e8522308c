//! The protocols of the papers: conditions, prompts, gold, scoring recipe, tables.
//!
//! A benchmark turns dataset rows into requests and planned requests with their responses into scores and
//! tables. It never opens a file, a socket or a codec: rows and prompt texts are given to it, and it names
//! media without touching them.

pub mod belebele;
mod build;
pub mod ccfqa;
pub mod cfever;
mod conditions;
pub mod cp_bench;
mod data_check;
pub mod judging;
pub mod manifest;
mod notes;
pub mod scores;
pub mod simplevqa;
pub mod sources;
pub mod temperature;
mod watch;

use std::path::Path;

use thiserror::Error;

use crate::model::{ModelIdentity, replay};
use crate::prompt::PromptInfo;
use crate::report::figure::Figure;
use crate::report::published::Published;
use crate::report::table::Table;
use crate::types::{Digest, Generation, Planned, Prompt, Response, Sample, Tags};
#[cfg(test)]
pub(crate) use build::tests::section as section_with_defaults;
pub use build::{
    BuildError, Entry, PromptText, build, catalogue, entry, expected, harness_wording, known_texts,
    prompt_texts, published, submission_scorer, with_prompts,
};
pub use data_check::{DataCheck, LookAtMedia};
pub use judging::{Finding, JudgeCall, JudgeKind, JudgeScores, JudgeSetup, Judging};
pub use scores::{BenchmarkScores, ConditionCounts, MetricValue, TranscribingScores, UsageScores};

/// A request as a benchmark makes it: the run adds model, settings, seed and media.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The conditions that it serves, in the order of [`Benchmark::conditions`].
    pub conditions: Vec<String>,
    /// What tables group by.
    pub tags: Tags,
    /// The reference answers.
    pub gold: Vec<String>,
    /// What a judge is told beside answer and references.
    pub judging: Tags,
    /// What is asked.
    pub prompt: Prompt,
}

impl Draft {
    /// The request as a plan holds it, and what is asked. `request` is its id, `benchmark` the label of its section.
    pub fn planned(self, request: Digest, benchmark: &str, sample: &str) -> (Planned, Prompt) {
        let Self { conditions, tags, gold, judging, prompt } = self;
        let (benchmark, sample) = (benchmark.to_owned(), sample.to_owned());
        (Planned { request, benchmark, conditions, sample, tags, gold, judging }, prompt)
    }
}

/// What a benchmark may look at to say how a run departs from its paper.
#[derive(Clone, Debug)]
pub struct RunFacts<'a> {
    /// The model.
    pub model: &'a ModelIdentity,
    /// How answers were generated.
    pub generation: &'a Generation,
    /// The run's seed.
    pub seed: u64,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that were taken, of those in the data; `None` when all.
    pub subset: Option<(u64, u64)>,
    /// How the data differ from the published ones, as [`DataCheck`] found.
    pub data_differs: &'a [String],
    /// The judge whose verdicts are scored.
    pub judge: Option<JudgeFacts<'a>>,
}

impl RunFacts<'_> {
    /// Whether answers were not asked for but come from files of another tool. What was asked, and how they were
    /// generated, is not known then: nothing is to be said of prompts and settings.
    pub fn replayed(&self) -> bool {
        self.model.kind == replay::KIND
    }
}

/// What a benchmark may look at of a judge.
#[derive(Clone, Debug)]
pub struct JudgeFacts<'a> {
    /// The judge as protocols see it.
    pub setup: &'a JudgeSetup,
    /// Its model's name; empty where it is none.
    pub model: &'a str,
    /// How its replies were generated.
    pub generation: &'a Generation,
}

/// One paper's evaluation, set up by one `[[benchmark]]` section.
pub trait Benchmark: Send + Sync {
    /// The conditions of this section, in the order of its tables.
    fn conditions(&self) -> &[String];

    /// A sample from a row of the published format, which stands in that line of its file (the first is 1). The
    /// error says what is wrong with the row; the dataset adds file and line.
    fn sample(&self, line: u64, row: serde_json::Value) -> Result<Sample, String>;

    /// Told before anything is asked of it: the file that its rows are read from, the first of several. A config may name
    /// a folder.
    fn rows_in(&mut self, _file: &Path) {}

    /// Whether a sample is one of those that the section asks about; others are passed over as if they were not there.
    fn wants(&self, _sample: &Sample) -> bool {
        true
    }

    /// A fresh look at whether the data are the ones that the paper's figures are of; `None` where the benchmark has
    /// no published data, or nothing is known of them.
    fn data_check(&self) -> Option<DataCheck> {
        None
    }

    /// The requests on a sample, those on the same clip next to each other.
    fn requests(&self, sample: &Sample) -> Vec<Draft>;

    /// The question of a request in words, where it is known in words: for answers that are matched by it.
    fn question<'a>(&self, planned: &'a Planned) -> Option<&'a str> {
        planned.judging.get("question").map(String::as_str)
    }

    /// What a sample shares with others that had better be asked next to it, a clip or a long text; and before that what they
    /// are held back within, such as a language. `None` where the order of the rows will do.
    fn shares<'a>(&self, _sample: &'a Sample) -> Option<(&'a str, &'a str)> {
        None
    }

    /// What is said in a clip of a request, where the data say it: what transcripts are measured by.
    fn said<'a>(&self, _planned: &'a Planned, _clip: &str) -> Option<&'a str> {
        None
    }

    /// Whether a request wants nothing but what is said in its clip: a cascade answers it with the transcript that it has.
    fn wants_transcript(&self, _planned: &Planned) -> bool {
        false
    }

    /// Whether its requests can hold clips: without any, tables do not say how clips are cut.
    fn has_clips(&self) -> bool {
        true
    }

    /// The prompt texts in use: for manifest and tables.
    fn prompts(&self) -> Vec<PromptInfo>;

    /// Sentences on how the run departs from the paper's protocol, for the foot of every table.
    fn deviations(&self, facts: &RunFacts<'_>) -> Vec<String>;

    /// How often the paper's judge judges each answer.
    fn judge_runs(&self) -> u32 {
        1
    }

    /// How answers are judged. `None` where the benchmark has no judge.
    fn judging(&self, _setup: &JudgeSetup) -> Result<Option<Box<dyn Judging + '_>>, BuildError> {
        Ok(None)
    }

    /// A fresh scorer, to be fed every planned request in plan order, and with a judge its calls.
    fn scorer(&self, judge: Option<&JudgeSetup>) -> Box<dyn Scorer>;

    /// The forms that its answers can be written in as a file for the benchmark's authors.
    fn exports(&self) -> &'static [&'static str] {
        &[]
    }

    /// A line of such a file: one planned request and its response. `None` where the benchmark has no such form.
    fn export(&self, _planned: &Planned, _response: Option<&Response>) -> Option<serde_json::Value> {
        None
    }

    /// The tables of the scores, with published figures of `compare_to` beside them where there are any.
    fn tables(&self, scores: &BenchmarkScores, published: &Published, compare_to: Option<&str>)
    -> Vec<Table>;

    /// The diagrams of the scores.
    fn figures(&self, _scores: &BenchmarkScores) -> Vec<Figure> {
        Vec::new()
    }
}

/// Takes planned requests with what came of them, and gives scores. Memory must not grow with the number of
/// requests beyond what the metric needs.
pub trait Scorer {
    /// One planned request and its response, if there is one, with the calls of the judge about it.
    fn add(&mut self, planned: &Planned, response: Option<&Response>, calls: &[JudgeCall]);

    /// How many samples were taken, told once before the end: some may have no request.
    fn taken(&mut self, _samples: u64) {}

    /// The scores: metrics and counts; the run fills in label, prompts and deviations.
    fn finish(self: Box<Self>) -> BenchmarkScores;
}

/// Scores a file of predictions in the form of a benchmark's authors, without a run: gold rows and predictions, line by
/// line. Memory must not grow with the number of lines.
pub trait SubmissionScorer {
    /// The id of a gold row.
    fn gold_id(&self, line: &str) -> Result<i64, String>;

    /// The id of a prediction.
    fn id(&self, line: &str) -> Result<i64, String>;

    /// A gold row and the prediction for it; nothing is scored where their ids differ.
    fn add(&mut self, gold: &str, prediction: &str) -> Result<SubmissionAdded, SubmissionFault>;

    /// The scores.
    fn finish(self: Box<Self>) -> BenchmarkScores;
}

/// What became of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmissionAdded {
    /// It was scored; the id of both.
    Scored(i64),
    /// The prediction is for another row.
    OtherId,
}

/// What is wrong with a pair, by the file that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubmissionFault {
    /// The gold row.
    #[error("{0}")]
    Gold(String),
    /// The prediction.
    #[error("{0}")]
    Prediction(String),
}
