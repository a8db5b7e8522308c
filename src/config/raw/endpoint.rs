//! The keys of models behind endpoints: what is sent, how fast, and what it costs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::endpoint::{ImageDetail, MaxTokensField, SendField, SystemRole, TranscriptionText};

/// How an endpoint is spoken to: details of the wire form.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawEndpoint {
    /// What becomes of a system message.
    #[schemars(extend("default" = "keep"), example = &"fold")]
    pub system_role: Option<SystemRole>,
    /// The name of the field that bounds an answer of a chat completion.
    #[schemars(extend("default" = "max_tokens"), example = &"max_completion_tokens")]
    pub max_tokens_field: Option<MaxTokensField>,
    /// Which generation settings are sent, by name. What the server's kind is known to take by default.
    #[schemars(extend("uniqueItems" = true), example = ["temperature", "seed"])]
    pub send: Option<Vec<SendField>>,
    /// Whether the answer is asked for as a stream, for servers that only stream.
    #[schemars(extend("default" = false), example = true)]
    pub stream: Option<bool>,
    /// Whether prompt strings go to `/completions` in place of chats to `/chat/completions`.
    #[schemars(extend("default" = false), example = true)]
    pub completions: Option<bool>,
    /// How closely OpenAI's models look at an image. The server decides by default.
    #[schemars(example = &"high")]
    pub image_detail: Option<ImageDetail>,
    /// Fields that are put into every body as they are. They are recorded with the run: no secrets here.
    #[schemars(
        with = "Option<BTreeMap<String, serde_json::Value>>",
        extend("default" = {}),
        example = BTreeMap::from([("reasoning_effort", "low")])
    )]
    pub extra_body: Option<serde_json::Map<String, serde_json::Value>>,
    /// Headers that go with every request. `$NAME` in a value is replaced by that environment variable, and
    /// `$$` is a dollar.
    #[schemars(
        extend("default" = {}, "additionalProperties" = { "type": "string", "minLength": 1 }),
        example = BTreeMap::from([("x-gateway-key", "$GATEWAY_KEY")])
    )]
    pub headers: Option<BTreeMap<String, String>>,
    /// An HTTP proxy. `$NAME` is replaced by that environment variable. None by default: the environment's
    /// proxy variables are not looked at.
    #[schemars(length(min = 1), example = &"http://proxy:3128")]
    pub proxy: Option<String>,
    /// A file of PEM certificates to trust in place of the system's.
    #[schemars(length(min = 1), example = &"ca.pem")]
    pub ca_bundle: Option<String>,
}

/// What a recogniser of speech is told beside the clip: a `transcription` endpoint, or a local Whisper.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawTranscription {
    /// The language of all clips (ISO 639-1). The model finds it out by default.
    #[schemars(length(min = 1), example = &"en")]
    pub language: Option<String>,
    /// A prompt that goes with every clip.
    #[schemars(length(min = 1), example = &"Names: Ada, Grace.")]
    pub prompt: Option<String>,
    /// What becomes of the text of a request, of which a pure recogniser has no use.
    #[schemars(extend("default" = "refuse"), example = &"drop")]
    pub text: Option<TranscriptionText>,
    /// Whether a local Whisper decodes a window again, by drawing, where its text repeats itself or was unlikely.
    #[schemars(extend("default" = false), example = true)]
    pub fallback: Option<bool>,
    /// Whether a server is asked for `response_format = verbose_json`, in which it names the language that it heard. Whisper
    /// behind OpenAI and most servers have it, `gpt-4o-transcribe` has not.
    #[schemars(extend("default" = false), example = true)]
    pub verbose: Option<bool>,
}

/// How many requests go out and how long they may take. Changes when answers come, never the answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawFlow {
    /// The most requests that are under way at once, over all addresses.
    #[schemars(range(min = 1, max = 65_536), extend("default" = 16), example = 64)]
    pub concurrency: Option<u64>,
    /// The fewest, however often the server says that it is too much.
    #[schemars(range(min = 1, max = 65_536), extend("default" = 1), example = 4)]
    pub min_concurrency: Option<u64>,
    /// Whether the number adapts: less when the server is overloaded, more again while all goes well.
    #[schemars(extend("default" = true), example = true)]
    pub adaptive: Option<bool>,
    /// The most requests a minute. No limit by default.
    #[schemars(range(min = 1, max = 4_294_967_295_i64), example = 500)]
    pub rpm: Option<u64>,
    /// The most tokens a minute. No limit by default.
    #[schemars(range(min = 1, max = 4_294_967_295_i64), example = 200_000)]
    pub tpm: Option<u64>,
    /// The most seconds that one attempt lasts.
    #[schemars(range(max = 31_536_000), extend("exclusiveMinimum" = 0), extend("default" = 300.0), example = 300.0)]
    pub timeout_seconds: Option<f64>,
    /// The most seconds that a request lasts: all attempts and the waits between them, without the queue.
    #[schemars(range(max = 31_536_000), extend("exclusiveMinimum" = 0), extend("default" = 1800.0), example = 1800.0)]
    pub deadline_seconds: Option<f64>,
    /// The most attempts that may fail by the server's or the network's fault.
    #[schemars(range(min = 1, max = 10_000), extend("default" = 30), example = 30)]
    pub max_attempts: Option<u64>,
    /// The most seconds that the first wait between attempts lasts; it doubles with each further one.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0), extend("default" = 0.5), example = 0.5)]
    pub delay_seconds: Option<f64>,
    /// The most seconds that any wait between attempts lasts, unless the server asks for more.
    #[schemars(range(max = 86_400), extend("exclusiveMinimum" = 0), extend("default" = 30.0), example = 30.0)]
    pub max_delay_seconds: Option<f64>,
    /// How many seconds the run waits for a server that is down before requests fail.
    #[schemars(range(min = 0, max = 31_536_000), extend("default" = 600.0), example = 600.0)]
    pub patience_seconds: Option<f64>,
}

/// What tokens cost, in any currency: the run shows the sum, and can stop at one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawPrice {
    /// The price of a million prompt tokens.
    #[schemars(range(min = 0), extend("default" = 0.0), example = 0.15)]
    pub input_per_million: Option<f64>,
    /// The price of a million answer tokens.
    #[schemars(range(min = 0), extend("default" = 0.0), example = 0.6)]
    pub output_per_million: Option<f64>,
    /// The cost at which the run stops; the same command goes on from there. No limit by default.
    #[schemars(extend("exclusiveMinimum" = 0), example = 5.0)]
    pub max_cost: Option<f64>,
}

/// A server that is started for the stage that asks it, and ended after it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawServer {
    /// The command: the program and its arguments, each a string. No shell is involved.
    #[schemars(length(min = 1), inner(length(min = 1)), example = ["vllm", "serve", "Qwen/Qwen2-Audio-7B-Instruct", "--port", "8000"])]
    pub command: Vec<String>,
    /// Variables of its environment beside those of this process. `$NAME` in a value is replaced by that environment
    /// variable, and `$$` is a dollar.
    #[schemars(
        extend("default" = {}, "additionalProperties" = { "type": "string" }),
        example = BTreeMap::from([("CUDA_VISIBLE_DEVICES", "0")])
    )]
    pub env: Option<BTreeMap<String, String>>,
    /// Its working folder. The current folder by default.
    #[schemars(length(min = 1), example = &"../servers")]
    pub folder: Option<String>,
    /// The address that answers with success once it is ready. By default the address that lists the models of
    /// `base_url` is asked, and every answer but a fault of the server counts.
    #[schemars(length(min = 1), example = &"http://localhost:8000/health")]
    pub ready_url: Option<String>,
    /// How many seconds it may take until it is ready.
    #[schemars(range(max = 604_800), extend("exclusiveMinimum" = 0), extend("default" = 1800.0), example = 1800.0)]
    pub ready_seconds: Option<f64>,
    /// How many seconds it has to end by itself once it was asked to; then it is killed.
    #[schemars(range(min = 0, max = 86_400), extend("default" = 30.0), example = 30.0)]
    pub stop_seconds: Option<f64>,
    /// How often it is started again when it dies.
    #[schemars(range(min = 0, max = 1000), extend("default" = 2), example = 2)]
    pub restarts: Option<u64>,
    /// Whether a server that is there already is used as it is, and left running. Without it that is an error.
    #[schemars(extend("default" = false), example = true)]
    pub reuse: Option<bool>,
}
