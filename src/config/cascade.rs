//! What the keys of a cascade mean: a recogniser of speech, and the model that answers by what it wrote down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::ModelConfig;

/// Who settles the language that a recogniser writes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AsrLanguage {
    /// The data: the recogniser is told the language of each clip where it has a name for it.
    #[default]
    Forced,
    /// The recogniser, by what it hears.
    Auto,
}

impl AsrLanguage {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forced => "forced",
            Self::Auto => "auto",
        }
    }
}

/// What is transcribed at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TranscribeBy {
    /// Each recording of a sentence by itself, where the data have such.
    #[default]
    Sentence,
    /// The clip as a whole.
    Clip,
}

impl TranscribeBy {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sentence => "sentence",
            Self::Clip => "clip",
        }
    }
}

/// The folder of transcripts, among the results of runs.
pub const TRANSCRIPTS: &str = "transcripts";

/// The two halves of a cascade.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CascadeConfig {
    /// `[model.asr]`
    pub asr: ModelConfig,
    /// `[model.llm]`
    pub llm: ModelConfig,
    /// `[model.transcripts]`
    pub transcripts: TranscriptsConfig,
}

/// `[model.transcripts]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptsConfig {
    /// Who settles the language.
    pub language: AsrLanguage,
    /// What is transcribed at a time.
    pub by: TranscribeBy,
    /// What a chat model is asked, with `{language}` for the English name of the language.
    pub prompt: String,
    /// The most tokens of a transcript.
    pub max_new_tokens: usize,
}

/// Where a language stands in what a chat model is asked.
pub const LANGUAGE_PLACE: &str = "{language}";
/// What a chat model is asked where the language is settled; our own wording.
pub const FORCED_PROMPT: &str =
    "Write down word for word what is said in the recording. It is in {language}. Give the words only.";
/// What it is asked else.
pub const AUTO_PROMPT: &str =
    "Write down word for word what is said in the recording, in its own language. Give the words only.";
