//! What a configuration means: every default filled in, every path resolved. The run is written against these
//! types; they hold no spans and no options that a default would answer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::belebele::BelebeleConfig;
use super::cascade::CascadeConfig;
use super::categories::Categories;
use super::endpoint::{EndpointConfig, Transcode, TranscriptionConfig};
use super::image::ImageConfig;
use super::temperature::ChosenTemperature;
use crate::benchmark::judging::{JudgeKind, JudgeMode, OnJudgeError, RatingRead};
use crate::model::replay::{FieldMap, MatchBy, Preset};
use crate::types::{Generation, Profile, Window};

/// A configuration, resolved: every path absolute or relative to the current folder, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunConfig {
    /// The file that it was read from.
    pub path: PathBuf,
    /// `[run]`
    pub run: RunSection,
    /// `[model]`
    pub model: ModelConfig,
    /// `[generation]`
    pub generation: Generation,
    /// Where its temperature was given by a word: which, and what it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<ChosenTemperature>,
    /// `[judge]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeConfig>,
    /// `[[benchmark]]`, in file order; labels are unique.
    pub benchmarks: Vec<BenchmarkConfig>,
}

/// `[run]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSection {
    /// The run's name: its folder under the results folder.
    pub name: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The results folder, relative to the current folder.
    pub results: PathBuf,
    /// A sentence to stand under every table of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// `[judge]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgeConfig {
    /// Its name: that of its files, and in tables.
    pub name: String,
    /// Who judges.
    pub kind: JudgeKind,
    /// How often each answer is judged, where the configuration says it.
    pub runs: Option<u32>,
    /// How it is asked.
    pub mode: JudgeMode,
    /// How ratings are read.
    pub rating: RatingRead,
    /// What becomes of answers whose judging failed.
    pub on_error: OnJudgeError,
    /// How often it is asked again for a reply that cannot be read.
    #[serde(default)]
    pub retries: u32,
    /// The most tokens that prompt and reply take together.
    pub max_context: Option<u64>,
    /// Its tokenizer: a `tokenizer.json`, or the folder that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    /// A file of prompt texts for it.
    pub prompt: Option<PathBuf>,
    /// `[judge.model]`; there for `kind = "model"`.
    pub model: Option<ModelConfig>,
    /// `[judge.generation]`
    pub generation: Generation,
    /// Where its temperature was given by a word: which, and what it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<ChosenTemperature>,
}

/// Which parts of long clips a benchmark asks about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowRule {
    /// The one of `[model.audio]`.
    #[default]
    Model,
    /// The first and the last, each by itself.
    FirstAndLast,
}

/// How a question about an image is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// For a named entity.
    #[default]
    NamedEntity,
    /// For a named entity and how sure the model is, as JSON.
    WithConfidence,
    /// The question alone.
    Bare,
}

/// Kinds of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// A local model in candle.
    Local,
    /// Chat completions as of OpenAI, vLLM, `SGLang`, llama.cpp and many more.
    OpenAi,
    /// The same behind the deployment addresses of Azure.
    Azure,
    /// Google's `generateContent`.
    Gemini,
    /// Anthropic's messages.
    Anthropic,
    /// Audio transcriptions as of OpenAI and vLLM: one clip in, its words out.
    Transcription,
    /// A recogniser of speech, and a model that answers by its transcripts.
    Cascade,
    /// Answers that exist already, in files of another tool.
    Replay,
}

impl ModelKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Local,
        Self::OpenAi,
        Self::Azure,
        Self::Gemini,
        Self::Anthropic,
        Self::Transcription,
        Self::Cascade,
        Self::Replay,
    ];

    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
            Self::Transcription => "transcription",
            Self::Cascade => "cascade",
            Self::Replay => "replay",
        }
    }
}

/// `[model]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// What kind of model it is.
    pub kind: ModelKind,
    /// The name for tables.
    pub name: String,
    /// `[model.audio]`
    pub audio: AudioConfig,
    /// `[model.image]`
    #[serde(default)]
    pub image: ImageConfig,
    /// The paper's name of this model: its published figures stand beside ours.
    pub published_as: Option<String>,
    /// What only a local model has; there for `kind = "local"` and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalConfig>,
    /// What only an endpoint has; there for every kind but `local`, `replay` and `cascade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// What only answers that exist already have; there for `kind = "replay"` and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayConfig>,
    /// The halves of a cascade; there for `kind = "cascade"` and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cascade: Option<Box<CascadeConfig>>,
}

impl ModelConfig {
    /// The model that gives the answers: of a cascade the one that reads.
    pub fn answering(&self) -> &Self {
        self.cascade.as_ref().map_or(self, |cascade| &cascade.llm)
    }

    /// The model that hears: of a cascade the recogniser.
    pub fn hearing(&self) -> &Self {
        self.cascade.as_ref().map_or(self, |cascade| &cascade.asr)
    }
}

/// The keys of `[model]` that belong to answers that exist already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayConfig {
    /// The files.
    pub files: Vec<PathBuf>,
    /// The tool that wrote them.
    pub preset: Option<Preset>,
    /// Where the fields stand.
    pub fields: FieldMap,
    /// What answers are matched by, where it is said.
    pub match_by: Option<MatchBy>,
}

/// The keys of `[model]` that belong to local models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalConfig {
    /// The architecture: `qwen2_audio`, `whisper`, `qwen2_5_vl`, `llama`, `qwen2`, `qwen3` or `gemma3`.
    pub architecture: String,
    /// The folder of its files, or a GGUF file.
    pub weights: PathBuf,
    /// The model of the hub that `weights` names where it may be one. Whoever opens the model takes the folder if it
    /// is there; else this, and then `weights` becomes the folder in the hub's cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubWeights>,
    /// `auto`, `cpu`, `cuda`, `cuda:N` or `metal`.
    pub device: String,
    /// `auto`, `f32`, `bf16` or `f16`.
    pub dtype: String,
    /// Requests that go through the model together.
    pub batch_size: usize,
    /// What a recogniser of speech is told.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transcription: TranscriptionConfig,
}

fn is_default(config: &TranscriptionConfig) -> bool {
    *config == TranscriptionConfig::default()
}

/// A model of the Hugging Face hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubWeights {
    /// `org/name`
    pub repo: String,
    /// The branch, tag or commit.
    pub revision: String,
    /// The commit that the revision was, once the model was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// `[model.audio]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AudioConfig {
    /// The longest clip that the model gets, in seconds.
    pub max_seconds: f64,
    /// Which part of a clip it gets.
    pub window: Window,
    /// What may be done to a clip that an endpoint does not take as it is.
    #[serde(default)]
    pub transcode: Transcode,
    /// The sample rate of transcoded clips in Hz; their own where it is absent.
    #[serde(default)]
    pub rate: Option<u32>,
}

/// How `limit` picks samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitBy {
    /// The first ones of the data.
    #[default]
    First,
    /// A draw that depends on the run's seed and the sample ids only.
    Seeded,
}

/// Which wording of prompts is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub enum Wording {
    /// Official prompts where their upstream files lie in the data folder, the harness wording else.
    #[default]
    Found,
    /// Official prompts, which must be there.
    Official,
    /// The harness wording.
    Harness,
    /// A file of prompt texts.
    File(PathBuf),
}

impl From<Option<String>> for Wording {
    fn from(text: Option<String>) -> Self {
        match text {
            None => Self::Found,
            Some(text) if text == "official" => Self::Official,
            Some(text) if text == "harness" => Self::Harness,
            Some(text) => Self::File(text.into()),
        }
    }
}

impl From<Wording> for Option<String> {
    fn from(wording: Wording) -> Self {
        match wording {
            Wording::Found => None,
            Wording::Official => Some("official".to_owned()),
            Wording::Harness => Some("harness".to_owned()),
            Wording::File(path) => Some(path.to_string_lossy().into_owned()),
        }
    }
}

/// One `[[benchmark]]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkConfig {
    /// How the section is called in journals, tables and files; the name by default.
    pub label: String,
    /// The benchmark: `ccfqa`, `manifest`.
    pub name: String,
    /// The dataset's file or folder.
    pub data: PathBuf,
    /// The folder that media names are relative to; the data's folder by default.
    pub media: Option<PathBuf>,
    /// The conditions to run; empty means the benchmark's default.
    pub conditions: Vec<String>,
    /// The languages to run; empty means all.
    pub languages: Vec<String>,
    /// The profile whose figures are the headline.
    pub profile: Profile,
    /// The most samples to take.
    pub limit: Option<u64>,
    /// How `limit` picks samples.
    pub limit_by: LimitBy,
    /// Which wording of the prompts is used.
    #[serde(default)]
    pub prompt: Wording,
    /// Whether data that are not the published ones are taken.
    #[serde(default)]
    pub allow_other_data: bool,
    /// Whether answers go through the paper's post-processing before scoring.
    pub strip_output: bool,
    /// The metrics of a `manifest` benchmark.
    pub metrics: Vec<String>,
    /// Names of the fields of a `manifest` benchmark's rows, where they differ from the default.
    pub fields: BTreeMap<String, String>,
    /// Which parts of long clips are asked about.
    #[serde(default)]
    pub windows: WindowRule,
    /// The most sentences that a model is shown with a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_candidates: Option<u64>,
    /// Worked examples that stand before each question.
    #[serde(default)]
    pub shots: u64,
    /// The system message of a `manifest` benchmark.
    pub system: Option<String>,
    /// How questions are asked; the benchmark's own way where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// The file of categories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories_file: Option<PathBuf>,
    /// What it says, once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Categories>,
    /// What only `2m-belebele` has; there for it and for no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belebele: Option<BelebeleConfig>,
}
