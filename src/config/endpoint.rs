//! What the keys of an endpoint mean. Nothing here is a secret: a resolved configuration is stored with its run,
//! so it holds the names of environment variables and never their values.
//!
//! Defaults that depend on the server's kind (`None` here) are known to those who speak its dialect.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be done to a clip that the endpoint does not take as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transcode {
    /// Nothing: such a clip is a `media_error`.
    #[default]
    Never,
    /// It is sent as 16-bit PCM in a WAV file.
    Wav,
}

impl Transcode {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Wav => "wav",
        }
    }
}

/// How a clip stands in a chat completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AudioForm {
    /// `input_audio` with bare base64: OpenAI, vLLM, `SGLang`, llama.cpp.
    #[default]
    InputAudio,
    /// `audio_url` with a data URL: vLLM, for formats other than wav and mp3.
    AudioUrl,
    /// `input_audio` with a data URL: `DashScope`.
    InputAudioUrl,
}

/// What becomes of a system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// It is sent as the system's.
    #[default]
    Keep,
    /// Its text is put before the first user message.
    Fold,
}

/// The name of the field that bounds an answer of a chat completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models ask for.
    MaxCompletionTokens,
}

/// How closely OpenAI's models look at an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageDetail {
    /// The model decides.
    Auto,
    /// A small version.
    Low,
    /// Tiles.
    High,
}

/// A generation setting that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SendField {
    /// `temperature`; reasoning models refuse it.
    Temperature,
    /// `top_p`
    TopP,
    /// `seed`
    Seed,
    /// `top_k`; OpenAI refuses it.
    TopK,
    /// `repetition_penalty`; OpenAI refuses it.
    RepetitionPenalty,
}

/// What becomes of the text of a request to a transcription endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TranscriptionText {
    /// A request with text fails.
    #[default]
    Refuse,
    /// It is sent as the `prompt`.
    Prompt,
    /// It is left out.
    Drop,
}

/// A model behind an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointConfig {
    /// The model (for Azure the deployment) that is asked for.
    pub model: String,
    /// The addresses of servers that serve it. Never empty.
    pub base_urls: Vec<String>,
    /// The environment variable that holds the key; no key is sent without.
    pub api_key_env: Option<String>,
    /// The version of the API; the kind's own by default.
    pub api_version: Option<String>,
    /// The name of the served version: stands in the identity in place of the addresses.
    pub revision: Option<String>,
    /// How a clip stands in a chat completion.
    pub form: AudioForm,
    /// Formats of clips that it takes; those of its kind by default.
    pub formats: Option<Vec<String>>,
    /// The largest file of a clip in bytes; that of its kind by default.
    pub max_bytes: Option<u64>,
    /// `[model.endpoint]`
    pub wire: WireConfig,
    /// `[model.transcription]`
    pub transcription: TranscriptionConfig,
    /// `[model.flow]`
    pub flow: FlowConfig,
    /// `[model.price]`
    pub price: PriceConfig,
    /// `[model.server]`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
}

/// `[model.endpoint]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireConfig {
    /// What becomes of a system message.
    pub system_role: SystemRole,
    /// The field that bounds an answer.
    pub max_tokens_field: MaxTokensField,
    /// Which generation settings are sent; those that its kind takes by default.
    pub send: Option<Vec<SendField>>,
    /// Whether the answer is asked for as a stream.
    pub stream: bool,
    /// Whether prompt strings go to `/completions`.
    pub completions: bool,
    /// `detail` of images.
    pub image_detail: Option<ImageDetail>,
    /// Fields that are put into every body.
    pub extra_body: serde_json::Map<String, serde_json::Value>,
    /// Headers of every request, with `$NAME` for environment variables.
    pub headers: BTreeMap<String, String>,
    /// An HTTP proxy, with `$NAME` for environment variables.
    pub proxy: Option<String>,
    /// Certificates to trust in place of the system's.
    pub ca_bundle: Option<PathBuf>,
}

/// `[model.transcription]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscriptionConfig {
    /// The language of all clips.
    pub language: Option<String>,
    /// A prompt that goes with every clip.
    pub prompt: Option<String>,
    /// What becomes of the text of a request.
    pub text: TranscriptionText,
    /// Whether a local Whisper decodes again what seems to have failed.
    #[serde(default)]
    pub fallback: bool,
    /// Whether a server is asked which language it heard.
    #[serde(default)]
    pub verbose: bool,
}

/// `[model.flow]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowConfig {
    /// The most requests under way at once. At least `min_concurrency`.
    pub concurrency: usize,
    /// The fewest. At least 1.
    pub min_concurrency: usize,
    /// Whether the number adapts.
    pub adaptive: bool,
    /// The most requests a minute.
    pub rpm: Option<u32>,
    /// The most tokens a minute.
    pub tpm: Option<u32>,
    /// The most seconds of one attempt.
    pub timeout_seconds: f64,
    /// The most seconds of a request.
    pub deadline_seconds: f64,
    /// The most attempts that may fail by the server's or the network's fault.
    pub max_attempts: u32,
    /// The most seconds of the first wait between attempts.
    pub delay_seconds: f64,
    /// The most seconds of any.
    pub max_delay_seconds: f64,
    /// Seconds that the run waits for a server that is down.
    pub patience_seconds: f64,
}

/// `[model.price]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriceConfig {
    /// The price of a million prompt tokens.
    pub input_per_million: f64,
    /// The price of a million answer tokens.
    pub output_per_million: f64,
    /// The cost at which the run stops.
    pub max_cost: Option<f64>,
}

/// `[model.server]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The program and its arguments. Never empty.
    pub command: Vec<String>,
    /// Variables of its environment, with `$NAME` for those of this process.
    pub env: BTreeMap<String, String>,
    /// Its working folder; the current folder by default.
    pub folder: Option<PathBuf>,
    /// The address that answers once it is ready; that of the endpoint's models by default.
    pub ready_url: Option<String>,
    /// The most seconds until it is ready.
    pub ready_seconds: f64,
    /// Seconds that it has to end by itself.
    pub stop_seconds: f64,
    /// How often it is started again when it dies.
    pub restarts: u32,
    /// Whether a server that is there already is used.
    pub reuse: bool,
}
