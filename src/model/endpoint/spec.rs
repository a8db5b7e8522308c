//! What an endpoint is: plain, resolved data, and the defaults of each dialect.
//!
//! It knows no config file and no environment; whoever makes a spec has resolved both.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::secret::ApiKey;

/// The language that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Chat completions as of OpenAI, vLLM, `SGLang`, llama.cpp, mistral.rs, `DashScope` and many more.
    OpenAi,
    /// The same behind the deployment addresses of Azure.
    Azure,
    /// Google's `generateContent`.
    Gemini,
    /// Anthropic's messages.
    Anthropic,
    /// `/v1/audio/transcriptions` as of OpenAI and vLLM: one clip in, its words out.
    Transcription,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::OpenAi, Self::Azure, Self::Gemini, Self::Anthropic, Self::Transcription];

    /// The name used in configs and identities.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Azure => "azure",
            Self::Gemini => "gemini",
            Self::Anthropic => "anthropic",
            Self::Transcription => "transcription",
        }
    }
}

/// What becomes of a system message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemRole {
    /// It is sent as the system's.
    #[default]
    Keep,
    /// Its text is put before the first user message, for models whose template knows no system.
    Fold,
}

/// How a clip stands in a chat completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AudioForm {
    /// `input_audio` with bare base64 and the format: OpenAI, vLLM, `SGLang`, llama.cpp.
    #[default]
    InputAudio,
    /// `audio_url` with a data URL: vLLM, for formats that its `input_audio` doesn't name.
    AudioUrl,
    /// `input_audio` with a data URL where base64 belongs: `DashScope`.
    InputAudioUrl,
}

impl AudioForm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::InputAudio, Self::AudioUrl, Self::InputAudioUrl];

    /// The name used in configs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InputAudio => "input_audio",
            Self::AudioUrl => "audio_url",
            Self::InputAudioUrl => "input_audio_url",
        }
    }
}

/// The name of the field that bounds an answer of a chat completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models ask for.
    MaxCompletionTokens,
}

impl MaxTokensField {
    /// The name of the field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// How closely OpenAI's models look at an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageDetail {
    /// The model decides.
    Auto,
    /// A small version.
    Low,
    /// Tiles.
    High,
}

impl ImageDetail {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

/// Which generation settings are sent. A server that isn't told a setting uses its own default, and vLLM takes
/// that from the model's `generation_config.json`: what is known to the server should be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the wire form that is there or not")]
pub struct Send {
    /// `temperature`; reasoning models refuse it.
    pub temperature: bool,
    /// `top_p`, for drawn answers.
    pub top_p: bool,
    /// `seed`
    pub seed: bool,
    /// `top_k`; OpenAI refuses it.
    pub top_k: bool,
    /// `repetition_penalty`; OpenAI refuses it.
    pub repetition_penalty: bool,
}

/// What an endpoint takes of media.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Formats of clips, by the names that sniffing gives them. Empty: it hears nothing.
    pub audio_formats: Vec<String>,
    /// The longest clip in seconds.
    pub max_seconds: f64,
    /// The largest file of a clip in bytes, before base64.
    pub max_audio_bytes: u64,
    /// Formats of images. Empty: it sees nothing.
    pub image_formats: Vec<String>,
    /// The largest file of an image in bytes, before base64.
    pub max_image_bytes: u64,
}

/// When a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Retries {
    /// The most attempts that may fail by the server's or the network's fault. Attempts that a rate limit
    /// turned away don't count (the deadline bounds those), nor do those that found the server down (patience
    /// bounds those).
    pub max_attempts: u32,
    /// The most that the first wait lasts; it doubles with each further one, and the wait is drawn between
    /// nothing and that.
    pub base_delay: Duration,
    /// The most that a wait lasts, unless the server asks for more.
    pub max_delay: Duration,
}

/// How many requests are under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Concurrency {
    /// The fewest, however often the server says that it is too much.
    pub min: usize,
    /// The most.
    pub max: usize,
    /// Whether the number adapts: less when the server is overloaded, one more for each round that went well.
    pub adaptive: bool,
}

/// What a transcription endpoint does with the text of a request: an instruction is no use to a pure
/// recogniser, and Whisper takes a prompt for words that were said before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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

/// Settings of the `transcription` dialect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transcription {
    /// The language of all clips (ISO 639-1); the server finds it out without.
    pub language: Option<String>,
    /// A prompt that goes with every clip.
    pub prompt: Option<String>,
    /// What becomes of the text of a request.
    pub text: TranscriptionText,
    /// Whether `verbose_json` is asked for, which names the language that was heard.
    // What is not asked for leaves identities as they were before it could be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verbose: bool,
}

/// An endpoint, resolved: every default filled in. Durations and limits change when and how fast answers come,
/// never the answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EndpointSpec {
    /// The language that it speaks.
    pub dialect: Dialect,
    /// The addresses of servers that serve the same model: `http://host:8000/v1`.
    pub base_urls: Vec<String>,
    /// The model (for Azure the deployment) that is asked for.
    pub model: String,
    /// The name for tables.
    pub name: String,
    /// The name of the served version. It stands in the identity in place of the addresses, so that answers
    /// stay valid when the server moves.
    pub revision: Option<String>,
    /// The key, where the server wants one.
    pub key: Option<ApiKey>,
    /// `api-version` of Azure, `anthropic-version` of Anthropic, `v1beta` of Gemini.
    pub api_version: Option<String>,
    /// What becomes of a system message.
    pub system_role: SystemRole,
    /// How a clip stands in a chat completion.
    pub audio_form: AudioForm,
    /// The field that bounds an answer.
    pub max_tokens_field: MaxTokensField,
    /// Which generation settings are sent.
    pub send: Send,
    /// Fields that are put into every body as they are, over the program's own.
    pub extra_body: Map<String, Value>,
    /// Headers that go with every request. Their values may be secrets.
    pub extra_headers: Vec<(String, ApiKey)>,
    /// What else must be shown nowhere: values that stand within headers and the proxy's address.
    pub secrets: Vec<ApiKey>,
    /// Whether the answer is asked for as a stream, for servers that only stream.
    pub stream: bool,
    /// Whether prompt strings go to `/completions` instead of chats to `/chat/completions`.
    pub completions: bool,
    /// `detail` of images.
    pub image_detail: Option<ImageDetail>,
    /// Settings of the `transcription` dialect.
    pub transcription: Transcription,
    /// What it takes of media.
    pub limits: Limits,
    /// The most that one attempt lasts, from the moment it is sent.
    pub timeout: Duration,
    /// The most that a request lasts: all attempts and the waits between them, without the time in the queue
    /// and without pauses.
    pub deadline: Duration,
    /// When a request is tried again.
    pub retries: Retries,
    /// How many requests are under way at once, over all addresses.
    pub concurrency: Concurrency,
    /// The most requests a minute, over all addresses.
    pub rpm: Option<u32>,
    /// The most tokens a minute, over all addresses.
    pub tpm: Option<u32>,
    /// How long everything waits for a server that is down before requests fail.
    pub patience: Duration,
    /// A file of PEM certificates to trust in place of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// An HTTP proxy (`http://host:port`). The environment's proxy variables are not looked at here.
    pub proxy: Option<ApiKey>,
}

impl EndpointSpec {
    /// A spec with the defaults of a dialect.
    pub fn new(dialect: Dialect, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let base_url = base_url.into();
        let model = model.into();
        let open = matches!(dialect, Dialect::OpenAi | Dialect::Transcription)
            && !base_url.contains("//api.openai.com");
        Self {
            dialect,
            base_urls: vec![base_url],
            name: model.clone(),
            model,
            revision: None,
            key: None,
            api_version: match dialect {
                Dialect::Azure => Some("2025-01-01-preview".to_owned()),
                Dialect::Anthropic => Some("2023-06-01".to_owned()),
                Dialect::Gemini => Some("v1beta".to_owned()),
                Dialect::OpenAi | Dialect::Transcription => None,
            },
            system_role: SystemRole::default(),
            audio_form: AudioForm::default(),
            max_tokens_field: MaxTokensField::default(),
            send: Send {
                temperature: true,
                top_p: true,
                seed: matches!(dialect, Dialect::OpenAi | Dialect::Azure | Dialect::Gemini),
                top_k: (open && dialect == Dialect::OpenAi)
                    || matches!(dialect, Dialect::Gemini | Dialect::Anthropic),
                repetition_penalty: open && dialect == Dialect::OpenAi,
            },
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            secrets: Vec::new(),
            stream: false,
            completions: false,
            image_detail: None,
            transcription: Transcription::default(),
            limits: Limits::of(dialect),
            timeout: Duration::from_mins(5),
            deadline: Duration::from_mins(30),
            retries: Retries {
                max_attempts: 30,
                base_delay: Duration::from_millis(500),
                max_delay: Duration::from_secs(30),
            },
            concurrency: Concurrency { min: 1, max: 16, adaptive: true },
            rpm: None,
            tpm: None,
            patience: Duration::from_mins(10),
            ca_bundle: None,
            proxy: None,
        }
    }
}

impl Limits {
    /// What the servers of a dialect take by their makers' documentation. The bytes leave room for base64 and
    /// the rest of the body under the limit of the whole.
    pub fn of(dialect: Dialect) -> Self {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mega = 1 << 20;
        match dialect {
            // OpenAI and Azure name wav and mp3 for `input_audio`; vLLM refuses a clip above 25 MB.
            Dialect::OpenAi | Dialect::Azure => Self {
                audio_formats: names(&["wav", "mp3"]),
                max_seconds: f64::INFINITY,
                max_audio_bytes: if dialect == Dialect::Azure { 15 * mega } else { 25 * mega },
                image_formats: names(&["png", "jpeg", "gif", "webp"]),
                max_image_bytes: 20 * mega,
            },
            // A request with inline data may have 20 MB, base64 included; a clip up to 9.5 hours.
            Dialect::Gemini => Self {
                audio_formats: names(&["wav", "mp3", "aiff", "aac", "ogg", "flac"]),
                max_seconds: 9.5 * 3600.0,
                max_audio_bytes: 14 * mega,
                image_formats: names(&["png", "jpeg", "webp", "heic", "heif"]),
                max_image_bytes: 14 * mega,
            },
            // 5 MB an image, counted in base64.
            Dialect::Anthropic => Self {
                audio_formats: Vec::new(),
                max_seconds: f64::INFINITY,
                max_audio_bytes: 0,
                image_formats: names(&["png", "jpeg", "gif", "webp"]),
                max_image_bytes: 5 * mega / 4 * 3,
            },
            Dialect::Transcription => Self {
                audio_formats: names(&["wav", "mp3", "flac", "ogg", "mp4", "m4a", "webm"]),
                max_seconds: f64::INFINITY,
                max_audio_bytes: 25 * mega,
                image_formats: Vec::new(),
                max_image_bytes: 0,
            },
        }
    }
}
