//! What is typed: the sections and keys of a configuration file.
//!
//! These types are the one list of keys. Their doc comments are the descriptions of the JSON schema
//! (`configs/harness.schema.json`), and the loader checks a file against that same schema, so editors, loader
//! and types cannot disagree. Every key that has a default is an `Option` here; the default itself is filled
//! in when the configuration is resolved, and a test compares it with the `default` of the schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

mod belebele;
mod endpoint;
mod image;

pub use belebele::RawBelebele;
pub use endpoint::{RawEndpoint, RawFlow, RawPrice, RawServer, RawTranscription};
pub use image::RawImage;

use super::cascade::{AsrLanguage, TranscribeBy};
use super::endpoint::{AudioForm, Transcode};
use super::resolved::{LimitBy, ModelKind, Variant, WindowRule};
use super::temperature::RawTemperature;
use crate::benchmark::judging::{JudgeKind, JudgeMode, OnJudgeError, RatingRead};
use crate::model::replay::{MatchBy, Preset};
use crate::types::{Profile, Window};

/// The architectures of local models, each with the longest clip in seconds that it takes; 0 for those that
/// hear nothing.
pub const ARCHITECTURES: [(&str, f64); 7] = [
    ("qwen2_audio", 30.0),
    ("whisper", 3600.0),
    ("qwen2_5_vl", 0.0),
    ("llama", 0.0),
    ("qwen2", 0.0),
    ("qwen3", 0.0),
    ("gemma3", 0.0),
];

/// A configuration of harness: which model answers which benchmarks, and how.
// `model` and `benchmark` may be missing where a judge alone is read.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "harness configuration")]
pub struct RawConfig {
    /// The run: its name, its seed and where its files go.
    pub run: Option<RawRun>,
    /// The model that answers.
    #[schemars(required)]
    pub model: Option<RawModel>,
    /// How answers are generated.
    pub generation: Option<RawGeneration>,
    /// Who judges the answers, for benchmarks whose figures are a judge's.
    pub judge: Option<RawJudge>,
    /// The benchmarks to run, one `[[benchmark]]` section each.
    #[schemars(required, length(min = 1))]
    pub benchmark: Option<Vec<RawBenchmark>>,
}

/// The run: its name, its seed and where its files go.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawRun {
    /// The run's name: the folder under `results` that its files go to. The name of the configuration file,
    /// without `.toml`, by default.
    #[schemars(length(min = 1), example = &"qwen2audio")]
    pub name: Option<String>,
    /// The seed of every random choice: sampling, and the draw of samples with `limit_by = "seeded"`.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_i64), extend("default" = 443), example = 443)]
    pub seed: Option<u64>,
    /// The folder that runs are kept in. Relative to the current folder; every other path in a configuration
    /// file is relative to that file.
    #[schemars(length(min = 1), extend("default" = "results"), example = &"results")]
    pub results: Option<String>,
    /// A sentence to stand under every table of the run: what a reader of the tables has to know.
    #[schemars(length(min = 1), example = &"a trial with half of the recordings")]
    pub note: Option<String>,
}

/// The model that answers.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "if" = { "properties": { "kind": { "const": "local" } } },
    "then" = { "required": ["architecture", "weights"] },
    "else" = unless_local()
))]
pub struct RawModel {
    /// What kind of model it is.
    #[schemars(example = &"local")]
    pub kind: ModelKind,
    /// The architecture of a local model.
    #[schemars(extend("enum" = architectures()), example = &"qwen2_audio")]
    pub architecture: Option<String>,
    /// The folder of a local model: `config.json`, `tokenizer.json`, `*.safetensors` and their companions, as
    /// published on Hugging Face; or a GGUF file of a text model. Or the model's name there, such as `Qwen/Qwen2-Audio-7B-Instruct`: where no such
    /// folder is found, it is fetched into the hub's cache when it is first used.
    #[schemars(length(min = 1), example = &"Qwen/Qwen2-Audio-7B-Instruct")]
    pub weights: Option<String>,
    /// The model that an endpoint is asked for; for Azure the name of the deployment.
    #[schemars(length(min = 1), example = &"Qwen/Qwen2-Audio-7B-Instruct")]
    pub model: Option<String>,
    /// The address of an endpoint's API. The provider's own by default, where the kind is one provider's.
    #[schemars(length(min = 1), example = &"http://localhost:8000/v1")]
    pub base_url: Option<String>,
    /// The addresses of several servers that serve the same model, in place of `base_url`.
    #[schemars(
        length(min = 1),
        inner(length(min = 1)),
        extend("uniqueItems" = true),
        example = ["http://gpu1:8000/v1", "http://gpu2:8000/v1"]
    )]
    pub base_urls: Option<Vec<String>>,
    /// The name of the environment variable that holds an endpoint's key. No key is sent by default.
    #[schemars(length(min = 1), example = &"OPENAI_API_KEY")]
    pub api_key_env: Option<String>,
    /// The version of the API of `azure`, `gemini` and `anthropic`. A known one by default.
    #[schemars(length(min = 1), example = &"2025-01-01-preview")]
    pub api_version: Option<String>,
    /// The name of the version that an endpoint serves: with it, answers stay valid when the server moves. For
    /// weights that are fetched from the hub: the branch, tag or commit, `main` by default.
    #[schemars(length(min = 1), example = &"2024-07-26")]
    pub revision: Option<String>,
    /// The files of answers that exist already, for `replay`: JSON Lines, JSON, CSV, or the logs of another tool.
    #[schemars(
        length(min = 1),
        inner(length(min = 1)),
        extend("uniqueItems" = true),
        example = ["../answers/qwen2_5_omni_xsqa_test_x.jsonl"]
    )]
    pub files: Option<Vec<String>>,
    /// The tool that wrote the files of `replay`: it tells where their fields stand, and what answers are matched by.
    #[schemars(example = &"ccfqa")]
    pub preset: Option<Preset>,
    /// Where the fields of an answer of `replay` stand: our names, each with its path in a row. `answer` and what it is
    /// matched by are needed where there is no preset; names that are not known are tags of the benchmark.
    #[schemars(
        extend("default" = {}, "additionalProperties" = { "type": "string", "minLength": 1 }),
        example = BTreeMap::from([("id", "index"), ("answer", "output.text")])
    )]
    pub fields: Option<BTreeMap<String, String>>,
    /// What answers of `replay` are matched by: the sample's `id`, the text of its `question`, or the place of its `row`
    /// in the data. That of the preset by default, else the id.
    #[schemars(example = &"question")]
    pub match_by: Option<MatchBy>,
    /// The model's name in tables. The name of the weights folder, what the endpoint is asked for, or the name of the
    /// first file of answers, by default.
    #[schemars(length(min = 1), example = &"Qwen2-Audio-7B-Instruct")]
    pub name: Option<String>,
    /// Where a local model runs: `auto` (an accelerator that the program was built for, else the CPU), `cpu`,
    /// `cuda`, `cuda:N` for one of several GPUs, or `metal`.
    #[schemars(pattern("^(auto|cpu|cuda(:[0-9]+)?|metal)$"), extend("default" = "auto"), example = &"cuda:0")]
    pub device: Option<String>,
    /// The number format that a local model computes in. `auto` is `f32` on the CPU and `bf16` elsewhere.
    #[schemars(extend("default" = "auto"), example = &"bf16")]
    pub dtype: Option<RawDtype>,
    /// How many requests go through a local model together. Changes speed and memory, not the requests.
    #[schemars(range(min = 1, max = 4096), extend("default" = 8), example = 8)]
    pub batch_size: Option<u64>,
    /// The name that the paper's tables give this model: the published figures of that row stand beside ours.
    #[schemars(length(min = 1), example = &"Qwen2-Audio")]
    pub published_as: Option<String>,
    /// What the model gets of a clip.
    pub audio: Option<RawAudio>,
    /// What the model gets of an image.
    pub image: Option<RawImage>,
    /// How an endpoint is spoken to: details of the wire form.
    pub endpoint: Option<RawEndpoint>,
    /// What a recogniser of speech is told beside the clip: a `transcription` endpoint, or a local Whisper.
    pub transcription: Option<RawTranscription>,
    /// How many requests go to an endpoint and how long they may take.
    pub flow: Option<RawFlow>,
    /// What an endpoint's tokens cost.
    pub price: Option<RawPrice>,
    /// A server that is started for the stage that asks it, and ended after it.
    pub server: Option<RawServer>,
    /// The recogniser of a cascade: the same keys as in `[model]`. A `transcription` endpoint, a model that hears, or a
    /// local one.
    #[schemars(with = "Option<RawPart>")]
    pub asr: Option<Box<RawModel>>,
    /// The model of a cascade that answers: the same keys as in `[model]`. It gets the transcript in place of the clip.
    #[schemars(with = "Option<RawPart>")]
    pub llm: Option<Box<RawModel>>,
    /// How the recogniser of a cascade is asked.
    pub transcripts: Option<RawTranscripts>,
}

/// A part of a cascade: in the schema the keys of `[model]` are put in.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
struct RawPart {}

/// How the recogniser of a cascade is asked.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawTranscripts {
    /// Who settles the language: `forced` tells the recogniser that of the data, where it has a name for it, and `auto`
    /// leaves it to the recogniser.
    #[schemars(extend("default" = "forced"), example = &"auto")]
    pub language: Option<AsrLanguage>,
    /// What is transcribed at a time: each recording of a sentence, where the data have such, or the whole clip.
    #[schemars(extend("default" = "sentence"), example = &"clip")]
    pub by: Option<TranscribeBy>,
    /// What a chat model that hears is asked; `{language}` is the English name of the language. Our own wording by
    /// default. Recognisers that take a clip alone are asked nothing.
    #[schemars(length(min = 1), example = &"Transcribe the speech.")]
    pub prompt: Option<String>,
    /// The most tokens of a transcript. One that reaches it is used as it is, and counted in the tables.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 448), example = 448)]
    pub max_new_tokens: Option<u64>,
}

/// The keys that models of other kinds than `local` cannot do without.
fn unless_local() -> serde_json::Value {
    serde_json::json!({
        "if": { "properties": { "kind": { "const": "cascade" } } },
        "then": { "required": ["asr", "llm"] },
        "else": { "required": ["model"] }
    })
}

/// The names of [`ARCHITECTURES`].
fn architectures() -> Vec<&'static str> {
    ARCHITECTURES.iter().map(|(name, _)| *name).collect()
}

/// Number formats that a model can compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RawDtype {
    /// `f32` on the CPU, `bf16` on an accelerator.
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit brain floats: the range of `f32`, fewer digits.
    Bf16,
    /// 16-bit IEEE floats.
    F16,
}

impl RawDtype {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }
}

/// What the model gets of a clip.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawAudio {
    /// The longest clip that the model gets, in seconds. What the architecture or the kind of endpoint takes by
    /// default.
    #[schemars(range(max = 1_000_000), extend("exclusiveMinimum" = 0), example = 30.0)]
    pub max_seconds: Option<f64>,
    /// Which part of a clip the model gets. No clip is ever cut without being asked for here.
    #[schemars(extend("default" = "whole"), example = &"first")]
    pub window: Option<Window>,
    /// What may be done to a clip that an endpoint does not take as it is, or of which it gets a window.
    #[schemars(extend("default" = "never"), example = &"wav")]
    pub transcode: Option<Transcode>,
    /// The sample rate of transcoded clips in Hz. 0 keeps the clip's own.
    #[schemars(range(min = 0, max = 384_000), extend("default" = 0), example = 16_000)]
    pub rate: Option<u64>,
    /// How a clip stands in a chat completion.
    #[schemars(extend("default" = "input_audio"), example = &"audio_url")]
    pub form: Option<AudioForm>,
    /// The formats that an endpoint takes. Those of its kind by default.
    #[schemars(extend("uniqueItems" = true), inner(length(min = 1)), example = ["wav", "mp3"])]
    pub formats: Option<Vec<String>>,
    /// The largest file of a clip that an endpoint takes, in bytes before base64. That of its kind by default.
    #[schemars(range(min = 1, max = 1_000_000_000_000_i64), example = 20_000_000)]
    pub max_bytes: Option<u64>,
}

/// How answers are generated.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawGeneration {
    /// 0 is greedy decoding, the same answer every time; above 0 tokens are drawn, and higher is wilder. `paper` is what
    /// the benchmark's paper has for the model, `model_default` what the model has by itself: an endpoint is told none, of a
    /// local model it stands in `generation_config.json`.
    #[schemars(extend("default" = 0.0), example = 0.7)]
    pub temperature: Option<RawTemperature>,
    /// Nucleus sampling: draw from the smallest set of tokens that together have this probability. 1 is off.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), extend("default" = 1.0), example = 0.9)]
    pub top_p: Option<f64>,
    /// Draw from this many of the most likely tokens only. 0 is off, and so is -1.
    #[schemars(range(min = -1, max = 1_000_000), extend("default" = 0), example = 50)]
    pub top_k: Option<i64>,
    /// Makes tokens that were seen before less likely (above 1) or more likely (below 1). 1 is off.
    #[schemars(extend("exclusiveMinimum" = 0), extend("default" = 1.0), example = 1.1)]
    pub repetition_penalty: Option<f64>,
    /// The most tokens that an answer may have; one that reaches it has the outcome `length`.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 256), example = 256)]
    pub max_new_tokens: Option<u64>,
    /// Strings that end an answer; they are not part of it.
    #[schemars(inner(length(min = 1)), extend("default" = [] as [&str; 0], "uniqueItems" = true), example = ["\n"])]
    pub stop: Option<Vec<String>>,
}

/// Who judges the answers, for benchmarks whose figures are a judge's.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawJudge {
    /// Who judges: `model` (a model of its own, in `[judge.model]`), or `match` (no model: an answer is right that
    /// holds a reference, once both are normalised; every table says so).
    #[schemars(extend("default" = "model"), example = &"model")]
    pub kind: Option<JudgeKind>,
    /// The judge's name: its replies are kept under it, in `verdicts/NAME.jsonl`, and tables show it.
    #[schemars(length(min = 1), extend("default" = "judge"), example = &"gemma-3-27b")]
    pub name: Option<String>,
    /// How often each answer is judged. The paper's number by default: 5 for `cp-bench`, 1 for `ccfqa` and `simplevqa`.
    #[schemars(range(min = 1, max = 1000), example = 5)]
    pub runs: Option<u64>,
    /// How it is asked: in a `chat`, or with a finished prompt string (`raw`), for endpoints with
    /// `completions = true` and for local models.
    #[schemars(extend("default" = "chat"), example = &"raw")]
    pub mode: Option<JudgeMode>,
    /// How ratings are read: `lenient` takes the number behind the last `Rating`, `strict_audiobench` the last word.
    #[schemars(extend("default" = "lenient"), example = &"lenient")]
    pub rating: Option<RatingRead>,
    /// What becomes of answers whose judging failed: `fail` (in no score, and the run is incomplete), `exclude` (in no
    /// score), `wrong`, or `na` (not attempted, for `simplevqa`; wrong elsewhere).
    #[schemars(extend("default" = "fail"), example = &"fail")]
    pub on_error: Option<OnJudgeError>,
    /// How often the judge is asked again, with another seed, for a reply that cannot be read. The papers ask once.
    #[schemars(range(min = 0, max = 10), extend("default" = 0), example = 2)]
    pub retries: Option<u64>,
    /// The most tokens that prompt and reply take together: longer answers are shortened for the judge, and counted.
    /// Tokens are counted with `tokenizer`, else estimated, one for three bytes. No limit by default.
    #[schemars(range(min = 16, max = 100_000_000), example = 4096)]
    pub max_context: Option<u64>,
    /// The judge's tokenizer, to count tokens for `max_context`: a `tokenizer.json`, or the folder that it is in.
    #[schemars(length(min = 1), example = &"../models/gemma-3-27b-it/tokenizer.json")]
    pub tokenizer: Option<String>,
    /// A TOML file of prompt texts for the judge, in place of the benchmark's.
    #[schemars(length(min = 1), example = &"../prompts/my-judge.toml")]
    pub prompt: Option<String>,
    /// The model that judges: the same keys as in `[model]`.
    pub model: Option<RawModel>,
    /// A server that is started for judging, and ended after it: the same keys as in `[model.server]`.
    pub server: Option<RawServer>,
    /// How its replies are generated: the same keys as in `[generation]`.
    pub generation: Option<RawGeneration>,
}

/// One benchmark to run.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawBenchmark {
    /// The benchmark: `ccfqa`, `cfever`, `cp-bench`, `2m-belebele`, `simplevqa`, or `manifest` for rows of your own.
    #[schemars(length(min = 1), example = &"ccfqa")]
    pub name: String,
    /// How the section is called in journals, tables and files. The benchmark's name by default; two sections
    /// need two labels.
    #[schemars(length(min = 1), example = &"ccfqa-hard")]
    pub label: Option<String>,
    /// The dataset's file, or its folder where the benchmark takes one.
    #[schemars(length(min = 1), example = &"../data/ccfqa/test.jsonl")]
    pub data: String,
    /// The folder that the dataset's media names are relative to. The folder that `data` is in (or `data`
    /// itself where it is a folder) by default.
    #[schemars(length(min = 1), example = &"../data/ccfqa")]
    pub media: Option<String>,
    /// The conditions to run, by name. All that the benchmark runs by default when empty.
    #[schemars(
        inner(length(min = 1)),
        extend("default" = [] as [&str; 0], "uniqueItems" = true),
        example = ["sqa", "xsqa"]
    )]
    pub conditions: Option<Vec<String>>,
    /// The languages to run, by the dataset's codes. All when empty.
    #[schemars(
        inner(length(min = 1)),
        extend("default" = [] as [&str; 0], "uniqueItems" = true),
        example = ["eng", "cmn"]
    )]
    pub languages: Option<Vec<String>>,
    /// The reading of the paper's scoring whose figures are the headline. For `2m-belebele` it is `recipe` by default.
    #[schemars(extend("default" = "official"), example = &"official")]
    pub profile: Option<Profile>,
    /// The most samples to take. All by default. Tables say when a run is a subset.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_i64), example = 100)]
    pub limit: Option<u64>,
    /// How `limit` picks samples.
    #[schemars(extend("default" = "first"), example = &"seeded")]
    pub limit_by: Option<LimitBy>,
    /// The wording of the prompts: `official` (the authors', out of the files that `harness fetch` gets), `harness`
    /// (ours), or a TOML file of prompt texts. By default the official wording where its files are in the data
    /// folder, and ours else.
    #[schemars(length(min = 1), example = &"official")]
    pub prompt: Option<String>,
    /// Whether data are taken that are not the ones the paper's figures are of: another number of rows, other counts,
    /// copies. Every table then says how they differ.
    #[schemars(extend("default" = false), example = true)]
    pub allow_other_data: Option<bool>,
    /// Whether answers go through the paper's post-processing before they are scored.
    #[schemars(extend("default" = true), example = true)]
    pub strip_output: Option<bool>,
    /// The metrics of a `manifest` benchmark, by name. The benchmark's default when empty.
    #[schemars(
        inner(length(min = 1)),
        extend("default" = [] as [&str; 0], "uniqueItems" = true),
        example = ["exact_match", "contains"]
    )]
    pub metrics: Option<Vec<String>>,
    /// For `cp-bench`: which parts of long clips are asked about. `model` as `[model.audio]` says, `first_and_last` both
    /// the first and the last `max_seconds`, of which the better score counts.
    #[schemars(extend("default" = "model"), example = &"first_and_last")]
    pub windows: Option<WindowRule>,
    /// For `cfever`: the most sentences that a model is shown with a claim. 20 by default.
    #[schemars(range(min = 1, max = 1000), example = 20)]
    pub max_candidates: Option<u64>,
    /// For `cfever` and `2m-belebele`: how many worked examples stand before each question. Of `cfever` they are claims of
    /// the train split, and `harness prepare cfever --shots N` must have drawn as many. Of `2m-belebele`, whose paper has
    /// 0 and 5, they are drawn by seed from the English training set: `[benchmark.belebele]` says where that is.
    #[schemars(range(min = 0, max = 32), extend("default" = 0), example = 3)]
    pub shots: Option<u64>,
    /// The names that the rows of a `manifest` benchmark give their fields, where they differ from the
    /// default: `{ audio = "path" }` reads the clip's name from `path`.
    #[schemars(
        extend("default" = {}, "additionalProperties" = { "type": "string", "minLength": 1 }),
        example = BTreeMap::from([("audio", "path")])
    )]
    pub fields: Option<BTreeMap<String, String>>,
    /// The system message of a `manifest` benchmark.
    #[schemars(example = &"You are a helpful assistant.")]
    pub system: Option<String>,
    /// What only `2m-belebele` has.
    pub belebele: Option<RawBelebele>,
    /// For `simplevqa`: how questions are asked. `named_entity` (the benchmark's default), `with_confidence` (the answer
    /// as JSON with a confidence from 0 to 100: calibration is computed), or `bare` (the question alone).
    #[schemars(example = &"with_confidence")]
    pub variant: Option<Variant>,
    /// For `simplevqa`: a TOML file with the paper's task and domain of the categories in the rows, `[task]` and
    /// `[domain]`, and the ids of its composite questions, `cfq`. None of these is published; without them there are no
    /// figures by task and domain.
    #[schemars(length(min = 1), example = &"../data/simplevqa/categories.toml")]
    pub categories: Option<String>,
}
