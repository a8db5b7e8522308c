//! What the keys of `2m-belebele` mean.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where examples stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShotsAs {
    /// In the message of the question, before it.
    #[default]
    SingleMessage,
    /// As turns: each example a user's message, its letter the model's.
    Turns,
}

impl ShotsAs {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SingleMessage => "single_message",
            Self::Turns => "turns",
        }
    }
}

/// How a question is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Headings behind `###`.
    #[default]
    Hash,
    /// `P:` and `Q:`.
    Pq,
}

/// Which of several speakers is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The first of the data.
    #[default]
    First,
    /// One that is drawn by seed and sentence.
    Seeded,
}

/// What becomes of a passage of which a sentence has no recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingSentence {
    /// The sentence is left out.
    #[default]
    Skip,
    /// The question is left out.
    DropRow,
    /// The sentence is given as text.
    Text,
}

impl MissingSentence {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::DropRow => "drop_row",
            Self::Text => "text",
        }
    }
}

/// `[benchmark.belebele]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BelebeleConfig {
    /// Examples before the question: `shots` of the section.
    pub shots: usize,
    /// The file that they are drawn from.
    pub shots_file: PathBuf,
    /// Where they stand.
    pub shots_as: ShotsAs,
    /// The seeds, one run each. Never empty.
    pub seeds: Vec<u64>,
    /// The layout of questions.
    pub template: Layout,
    /// Which speaker is heard.
    pub speaker: Speaker,
    /// Milliseconds between sentences.
    pub gap_ms: u32,
    /// What becomes of sentences without a recording.
    pub missing: MissingSentence,
    /// Whether the official reading takes off a prefix.
    pub strip_prefix: bool,
    /// Whether nothing depends on the seeds: then the first one alone is run.
    pub deterministic: bool,
}
