//! `config.json`, `generation_config.json` and `preprocessor_config.json` of a Qwen2-Audio checkpoint.
//!
//! Published configs leave fields out that equal the defaults of the reference implementation's classes
//! (transformers 5.24.0: `Qwen2AudioConfig`, `Qwen2AudioEncoderConfig`, `Qwen2Config`), so absent fields get
//! those defaults here too. What would change the arithmetic in a way that is not built is refused.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::decoder::{Biases, DecoderConfig, LayerConfig};
use super::error::LoadError;
use super::nn::rope::Rope;
use crate::types::Generation;

/// The architecture of this config, as `model_type` names it.
pub const QWEN2_AUDIO: &str = "qwen2_audio";

/// What is needed of a checkpoint, for error sentences.
pub(super) const NEEDED: &str = "a checkpoint folder needs config.json, tokenizer.json, tokenizer_config.json, a chat \
     template (chat_template.json, chat_template.jinja or in tokenizer_config.json), preprocessor_config.json and the \
     weights (model.safetensors, or model.safetensors.index.json with its shards); download the missing ones \
     from the model's page, for example with `hf download <repository> --local-dir <folder>`";

/// `config.json`, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The audio encoder.
    pub audio: AudioConfig,
    /// The text model.
    pub text: TextConfig,
    /// The id of the placeholder that stands for a clip.
    pub audio_token: u32,
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(default)]
    audio_config: AudioConfig,
    #[serde(default)]
    text_config: TextConfig,
    #[serde(default = "default_audio_token", alias = "audio_token_id")]
    audio_token_index: u32,
}

fn default_audio_token() -> u32 {
    151_646
}

/// The audio encoder: a Whisper encoder with pooling.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct AudioConfig {
    /// Mel bands of the input.
    pub num_mel_bins: usize,
    /// Layers.
    pub encoder_layers: usize,
    /// Attention heads.
    pub encoder_attention_heads: usize,
    /// Width of the feed-forward part.
    pub encoder_ffn_dim: usize,
    /// Width.
    pub d_model: usize,
    /// Positions after the convolutions: half the frames.
    pub max_source_positions: usize,
    /// Must be `gelu`.
    pub activation_function: String,
}

impl Default for AudioConfig {
    fn default() -> Self {
        Self {
            num_mel_bins: 128,
            encoder_layers: 32,
            encoder_attention_heads: 20,
            encoder_ffn_dim: 5120,
            d_model: 1280,
            max_source_positions: 1500,
            activation_function: "gelu".to_owned(),
        }
    }
}

/// The text model: Qwen2.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default)]
pub struct TextConfig {
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Width of the feed-forward part.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; absent in a config that writes `null`, which means one for each query head.
    pub num_key_value_heads: Option<usize>,
    /// Width of a head, where it is not `hidden_size / num_attention_heads`.
    pub head_dim: Option<usize>,
    /// Must be `silu`.
    pub hidden_act: String,
    /// The most positions.
    pub max_position_embeddings: usize,
    /// Added to the mean square in norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary embedding, if it is written here.
    pub rope_theta: Option<f64>,
    /// Base and kind of the rotary embedding, in newer configs.
    pub rope_parameters: Option<RopeParameters>,
    /// The same under its older name.
    pub rope_scaling: Option<RopeParameters>,
    /// Whether the output layer is the embedding.
    pub tie_word_embeddings: bool,
    /// Must be false, or the window must be as long as the context.
    pub use_sliding_window: bool,
    /// The window's length.
    pub sliding_window: Option<usize>,
}

impl Default for TextConfig {
    fn default() -> Self {
        Self {
            vocab_size: 151_936,
            hidden_size: 4096,
            intermediate_size: 22_016,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: Some(32),
            head_dim: None,
            hidden_act: "silu".to_owned(),
            max_position_embeddings: 32_768,
            rms_norm_eps: 1e-6,
            rope_theta: None,
            rope_parameters: None,
            rope_scaling: None,
            tie_word_embeddings: false,
            use_sliding_window: false,
            sliding_window: None,
        }
    }
}

/// The rotary embedding in newer configs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct RopeParameters {
    /// Base of the frequencies.
    pub rope_theta: Option<f64>,
    /// Must be `default` where it is written.
    #[serde(alias = "type")]
    pub rope_type: Option<String>,
}

impl TextConfig {
    /// Key and value heads.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Width of a head; a zero number of heads is refused when the config is read.
    pub fn head_width(&self) -> usize {
        self.head_dim.unwrap_or_else(|| self.hidden_size.checked_div(self.num_attention_heads).unwrap_or(0))
    }

    /// Base of the rotary frequencies. A config without it means 10000: the class default of the time when
    /// such configs were written.
    pub fn theta(&self) -> f64 {
        let nested = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        nested.and_then(|rope| rope.rope_theta).or(self.rope_theta).unwrap_or(10_000.0)
    }
}

impl AudioConfig {
    /// The first thing that this program cannot compute; `prefix` stands before the fields' names.
    pub(super) fn fault(&self, prefix: &str) -> Option<String> {
        let counts = [
            ("num_mel_bins", self.num_mel_bins, 4096),
            ("encoder_layers", self.encoder_layers, 4096),
            ("encoder_attention_heads", self.encoder_attention_heads, 4096),
            ("encoder_ffn_dim", self.encoder_ffn_dim, 1 << 20),
            ("d_model", self.d_model, 1 << 20),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Some(format!("{prefix}{name} is {value}; expected 1 to {most}"));
            }
        }
        if self.max_source_positions != 1500 {
            return Some(format!(
                "{prefix}max_source_positions is {}; the 30-second window needs 1500",
                self.max_source_positions
            ));
        }
        if !self.d_model.is_multiple_of(self.encoder_attention_heads) {
            return Some(format!(
                "{prefix}d_model {} is no multiple of encoder_attention_heads {}",
                self.d_model, self.encoder_attention_heads
            ));
        }
        (self.activation_function != "gelu").then(|| {
            format!("{prefix}activation_function is `{}`; only `gelu` is built in", self.activation_function)
        })
    }
}

impl TextConfig {
    /// The decoder that it describes.
    pub(super) fn decoder(&self) -> DecoderConfig {
        let width = self.head_width();
        DecoderConfig {
            prefix: "language_model.",
            vocabulary: self.vocab_size,
            hidden: self.hidden_size,
            ffn: self.intermediate_size,
            heads: self.num_attention_heads,
            kv_heads: self.kv_heads(),
            width,
            positions: self.max_position_embeddings,
            epsilon: self.rms_norm_eps,
            scale: 1.0 / (width as f64).sqrt(),
            tied: self.tie_word_embeddings,
            biases: Biases { qkv: true, ..Biases::default() },
            head_norms: false,
            gemma: false,
            norms_less_one: false,
            frequencies: vec![Rope::frequencies(width, self.theta())],
            axes: Vec::new(),
            layers: vec![LayerConfig { rope: 0, window: None }; self.num_hidden_layers],
        }
    }
}

impl Config {
    /// Reads and checks `config.json`.
    pub fn read(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join("config.json");
        let value: Value = read_json(folder, "config.json")?;
        let kind = value.get("model_type").and_then(Value::as_str).unwrap_or("");
        if kind != QWEN2_AUDIO {
            return Err(LoadError::Malformed {
                path,
                problem: format!(
                    "model_type is `{kind}`, and the local model that is built in is `{QWEN2_AUDIO}`; serve other \
                     models with an inference server and use an endpoint"
                ),
            });
        }
        let raw: RawConfig = serde_json::from_value(value)
            .map_err(|error| LoadError::Malformed { path: path.clone(), problem: error.to_string() })?;
        let config =
            Self { audio: raw.audio_config, text: raw.text_config, audio_token: raw.audio_token_index };
        match config.fault() {
            None => Ok(config),
            Some(problem) => Err(LoadError::Malformed { path, problem }),
        }
    }

    /// The first thing in the config that this program cannot compute.
    fn fault(&self) -> Option<String> {
        let text = &self.text;
        if let Some(fault) = self.audio.fault("audio_config.") {
            return Some(fault);
        }
        let counts = [
            ("text_config.vocab_size", text.vocab_size, 1 << 26),
            ("text_config.hidden_size", text.hidden_size, 1 << 20),
            ("text_config.intermediate_size", text.intermediate_size, 1 << 22),
            ("text_config.num_hidden_layers", text.num_hidden_layers, 4096),
            ("text_config.num_attention_heads", text.num_attention_heads, 4096),
            ("text_config.num_key_value_heads", text.kv_heads(), 4096),
            ("text_config.max_position_embeddings", text.max_position_embeddings, 1 << 20),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Some(format!("{name} is {value}; expected 1 to {most}"));
            }
        }
        if !text.num_attention_heads.is_multiple_of(text.kv_heads()) {
            return Some(format!(
                "text_config.num_attention_heads {} is no multiple of num_key_value_heads {}",
                text.num_attention_heads,
                text.kv_heads()
            ));
        }
        let width = text.head_width();
        if width == 0 || width % 2 == 1 || width > 4096 {
            return Some(format!("the text model's head width is {width}; expected an even number"));
        }
        if text.head_dim.is_none() && !text.hidden_size.is_multiple_of(text.num_attention_heads) {
            return Some(format!(
                "text_config.hidden_size {} is no multiple of num_attention_heads {}",
                text.hidden_size, text.num_attention_heads
            ));
        }
        if text.hidden_act != "silu" {
            return Some(format!("text_config.hidden_act is `{}`; only `silu` is built in", text.hidden_act));
        }
        for rope in [&text.rope_parameters, &text.rope_scaling].into_iter().flatten() {
            if rope.rope_type.as_deref().is_some_and(|kind| kind != "default") {
                return Some(format!(
                    "rope_type is `{}`; only `default` is built in",
                    rope.rope_type.as_deref().unwrap_or_default()
                ));
            }
        }
        if !(text.theta().is_finite() && text.theta() > 0.0) {
            return Some(format!("rope_theta is {}; expected a positive number", text.theta()));
        }
        if !(text.rms_norm_eps.is_finite() && text.rms_norm_eps > 0.0) {
            return Some(format!("rms_norm_eps is {}; expected a positive number", text.rms_norm_eps));
        }
        if text.use_sliding_window
            && text.sliding_window.is_some_and(|window| window < text.max_position_embeddings)
        {
            return Some("use_sliding_window is true; sliding windows are not built in".to_owned());
        }
        if self.audio_token as usize >= text.vocab_size {
            return Some(format!(
                "audio_token_index {} lies outside the vocabulary of {}",
                self.audio_token, text.vocab_size
            ));
        }
        None
    }
}

/// The `model_type` of a checkpoint's `config.json`.
pub(super) fn model_type(folder: &Path) -> Result<String, LoadError> {
    let value: Value = read_json(folder, "config.json")?;
    Ok(value.get("model_type").and_then(Value::as_str).unwrap_or_default().to_owned())
}

/// The ids that end a response: those of `generation_config.json` and the tokenizer's own. There must be one.
pub(super) fn all_stop_ids(folder: &Path, eos_id: Option<u32>) -> Result<Vec<u32>, LoadError> {
    let mut ids = stop_ids(folder)?;
    ids.extend(eos_id);
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Err(LoadError::Unfit {
            folder: folder.to_path_buf(),
            problem: "neither generation_config.json (eos_token_id) nor tokenizer_config.json (eos_token) says which \
                      token ends a response"
                .to_owned(),
        });
    }
    Ok(ids)
}

/// The ids that end a response, from `generation_config.json` (one id or a list; the file may be absent).
pub fn stop_ids(folder: &Path) -> Result<Vec<u32>, LoadError> {
    let path = folder.join("generation_config.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let value: Value = read_json(folder, "generation_config.json")?;
    let problem = || LoadError::Malformed {
        path: path.clone(),
        problem: "eos_token_id must be a token id or a list of them".to_owned(),
    };
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(problem);
    match value.get("eos_token_id") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => Ok(vec![id(one)?]),
    }
}

/// How a checkpoint draws by itself: what its `generation_config.json` says, read as transformers reads it, where it is
/// greedy unless `do_sample` is true. What the file does not say is off, and the temperature 1. Of the settings only those
/// of the draw are meant.
pub fn own_sampling(folder: &Path) -> Result<Generation, LoadError> {
    const FILE: &str = "generation_config.json";
    let path = folder.join(FILE);
    if !path.exists() {
        return Err(LoadError::FileMissing {
            folder: folder.to_path_buf(),
            file: FILE.to_owned(),
            remedy: "without it nothing says which temperature is the model's own: give a number".to_owned(),
        });
    }
    let value: Value = read_json(folder, FILE)?;
    let number = |key: &str, off: f64, fits: fn(f64) -> bool, wanted: &str| {
        let found = value.get(key).filter(|found| !found.is_null());
        let Some(found) = found else { return Ok(off) };
        found.as_f64().filter(|number| fits(*number)).ok_or_else(|| LoadError::Malformed {
            path: path.clone(),
            problem: format!("{key} is {found}; expected {wanted}"),
        })
    };
    let repetition_penalty =
        number("repetition_penalty", 1.0, |n| n > 0.0 && n.is_finite(), "a positive number")?;
    let off = Generation { repetition_penalty, ..Generation::default() };
    if value.get("do_sample").and_then(Value::as_bool) != Some(true) {
        return Ok(off);
    }
    Ok(Generation {
        temperature: Some(number(
            "temperature",
            1.0,
            |n| n >= 0.0 && n.is_finite(),
            "0 or a positive number",
        )?),
        top_p: number("top_p", 1.0, |n| n > 0.0 && n <= 1.0, "a number above 0 and at most 1")?,
        top_k: number("top_k", 0.0, |n| n >= 0.0 && n.fract() == 0.0 && n <= 1e6, "a whole number from 0 on")?
            as usize,
        ..off
    })
}

/// Checks that `preprocessor_config.json`, where it is, asks for the features that this program makes.
pub fn check_preprocessor(folder: &Path, bins: usize) -> Result<(), LoadError> {
    let path = folder.join("preprocessor_config.json");
    if !path.exists() {
        return Err(missing(folder, "preprocessor_config.json"));
    }
    let value: Value = read_json(folder, "preprocessor_config.json")?;
    let expected = [
        ("feature_size", bins as u64, "config.json (num_mel_bins)"),
        ("sampling_rate", 16_000, "the Whisper features that are built in"),
        ("hop_length", 160, "the Whisper features that are built in"),
        ("n_fft", 400, "the Whisper features that are built in"),
        ("chunk_length", 30, "the Whisper features that are built in"),
    ];
    for (name, wanted, whose) in expected {
        if let Some(found) = value.get(name)
            && found.as_f64() != Some(wanted as f64)
        {
            return Err(LoadError::Malformed {
                path,
                problem: format!("{name} is {found}, but {whose} asks for {wanted}"),
            });
        }
    }
    Ok(())
}

/// A missing file, with what a folder needs.
pub(super) fn missing(folder: &Path, file: &str) -> LoadError {
    LoadError::FileMissing { folder: folder.to_path_buf(), file: file.to_owned(), remedy: NEEDED.to_owned() }
}

/// The bytes of a file that must be there.
pub(super) fn read_file(folder: &Path, name: &str) -> Result<(PathBuf, Vec<u8>), LoadError> {
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok((path, bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing(folder, name)),
        Err(source) => Err(LoadError::Unreadable { path, source }),
    }
}

/// A JSON file that must be there.
pub(super) fn read_json<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<T, LoadError> {
    let (path, bytes) = read_file(folder, name)?;
    if bytes.starts_with(super::weights::LFS_MARK) {
        return Err(LoadError::Malformed { path, problem: super::weights::LFS_SENTENCE.to_owned() });
    }
    serde_json::from_slice(&bytes).map_err(|error| LoadError::Malformed {
        path,
        problem: format!("is not the JSON it should be: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, LoadError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), text).unwrap();
        Config::read(folder.path())
    }

    /// The published config: what it leaves out must come from the class defaults.
    #[test]
    fn the_published_config_is_completed_with_class_defaults() {
        let config = read(
            r#"{"model_type":"qwen2_audio","audio_token_index":151646,
                "audio_config":{"num_mel_bins":128,"encoder_layers":32,"encoder_attention_heads":20,
                  "encoder_ffn_dim":5120,"d_model":1280,"scale_embedding":false,"activation_function":"gelu",
                  "max_source_positions":1500,"model_type":"qwen2_audio_encoder"},
                "text_config":{"bos_token_id":151643,"eos_token_id":151645,"intermediate_size":11008,
                  "max_position_embeddings":8192,"model_type":"qwen2","rms_norm_eps":1e-05,"rope_theta":10000,
                  "sliding_window":32768,"torch_dtype":"bfloat16","use_mrope":false,"vocab_size":156032}}"#,
        )
        .unwrap();
        let text = &config.text;
        assert_eq!((text.hidden_size, text.num_hidden_layers), (4096, 32));
        assert_eq!((text.num_attention_heads, text.kv_heads(), text.head_width()), (32, 32, 128));
        assert_eq!((text.intermediate_size, text.vocab_size), (11_008, 156_032));
        assert_eq!((text.theta(), text.rms_norm_eps), (10_000.0, 1e-5));
        assert!(!text.tie_word_embeddings && !text.use_sliding_window);
        assert_eq!(config.audio, AudioConfig::default());
        assert_eq!(config.audio_token, 151_646);
    }

    #[test]
    fn an_empty_config_is_all_defaults_and_rope_is_found_in_either_place() {
        let config = read(r#"{"model_type":"qwen2_audio","text_config":{"vocab_size":160000}}"#).unwrap();
        assert_eq!(config.text.rms_norm_eps, 1e-6);
        assert_eq!(config.text.theta(), 10_000.0);
        let nested = read(
            r#"{"model_type":"qwen2_audio","text_config":{"vocab_size":160000,
                "rope_parameters":{"rope_theta":5e5,"rope_type":"default"}}}"#,
        )
        .unwrap();
        assert_eq!(nested.text.theta(), 5e5);
        let null = read(
            r#"{"model_type":"qwen2_audio","text_config":{"vocab_size":160000,"num_key_value_heads":null,"rope_scaling":null}}"#,
        );
        assert_eq!(null.unwrap().text.kv_heads(), 32);
    }

    #[test]
    fn what_is_not_built_in_is_refused_with_a_sentence() {
        for (text, part) in [
            (r#"{"model_type":"whisper"}"#, "model_type is `whisper`"),
            (r"{}", "model_type is ``"),
            (r"[", "not the JSON"),
            (r#"{"model_type":"qwen2_audio","text_config":{"hidden_act":"gelu"}}"#, "hidden_act is `gelu`"),
            (
                r#"{"model_type":"qwen2_audio","text_config":{"rope_scaling":{"type":"yarn"}}}"#,
                "rope_type is `yarn`",
            ),
            (
                r#"{"model_type":"qwen2_audio","text_config":{"num_attention_heads":0}}"#,
                "num_attention_heads is 0",
            ),
            (r#"{"model_type":"qwen2_audio","text_config":{"num_attention_heads":7}}"#, "no multiple"),
            (r#"{"model_type":"qwen2_audio","text_config":{"vocab_size":"x"}}"#, "invalid type"),
            (r#"{"model_type":"qwen2_audio","audio_token_index":151936}"#, "outside the vocabulary"),
            (
                r#"{"model_type":"qwen2_audio","text_config":{"use_sliding_window":true,"sliding_window":64}}"#,
                "sliding",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_model_s_own_draw_is_what_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let own = |text: &str| {
            std::fs::write(folder.path().join("generation_config.json"), text).unwrap();
            own_sampling(folder.path())
        };
        let absent = own_sampling(folder.path()).unwrap_err().to_string();
        assert!(
            absent.contains("generation_config.json is missing") && absent.contains("number"),
            "{absent}"
        );
        let found = own(
            r#"{"do_sample":true,"temperature":0.7,"top_p":0.5,"top_k":20,"repetition_penalty":1.1,"eos_token_id":1}"#,
        )
        .unwrap();
        let expected = Generation {
            temperature: Some(0.7),
            top_p: 0.5,
            top_k: 20,
            repetition_penalty: 1.1,
            ..Generation::default()
        };
        assert_eq!(found, expected);
        assert_eq!(own(r#"{"do_sample":true,"top_k":null}"#).unwrap().temperature, Some(1.0));
        // Without a word about drawing it is greedy, whatever temperature stands there.
        let greedy = own(r#"{"temperature":0.7,"top_p":0.5,"repetition_penalty":1.05}"#).unwrap();
        assert_eq!(greedy, Generation { repetition_penalty: 1.05, ..Generation::default() });
        for (text, says) in [
            (r#"{"do_sample":true,"temperature":-1}"#, "temperature is -1"),
            (r#"{"do_sample":true,"top_p":"x"}"#, "top_p is \"x\""),
            (r#"{"do_sample":true,"top_k":1.5}"#, "top_k is 1.5"),
            (r#"{"repetition_penalty":0}"#, "repetition_penalty is 0"),
        ] {
            let error = own(text).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("generation_config.json"), "{error}");
        }
    }

    #[test]
    fn stop_ids_are_one_or_many_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(stop_ids(folder.path()).unwrap(), Vec::<u32>::new());
        for (text, ids) in [
            (r#"{"eos_token_id":7}"#, vec![7]),
            (r#"{"eos_token_id":[3,7]}"#, vec![3, 7]),
            (r#"{"eos_token_id":null}"#, vec![]),
            (r"{}", vec![]),
        ] {
            std::fs::write(folder.path().join("generation_config.json"), text).unwrap();
            assert_eq!(stop_ids(folder.path()).unwrap(), ids);
        }
        std::fs::write(folder.path().join("generation_config.json"), r#"{"eos_token_id":"x"}"#).unwrap();
        assert!(stop_ids(folder.path()).unwrap_err().to_string().contains("eos_token_id"));
    }
}
