//! `config.json` and `generation_config.json` of a Whisper checkpoint, and the control tokens that they and the tokenizer
//! name.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::model::local::config::{AudioConfig, read_json};
use crate::model::local::error::LoadError;
use crate::model::local::tokenizer::TextTokenizer;

/// The architecture, as `model_type` names it.
pub const WHISPER: &str = "whisper";

/// `config.json`, checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WhisperConfig {
    /// The encoder.
    pub encoder: AudioConfig,
    /// Layers of the decoder.
    pub layers: usize,
    /// Attention heads of the decoder.
    pub heads: usize,
    /// Width of the decoder's feed-forward part.
    pub ffn: usize,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// The most tokens of the decoder, control tokens included.
    pub positions: usize,
}

#[derive(Deserialize)]
struct Raw {
    decoder_layers: usize,
    decoder_attention_heads: usize,
    decoder_ffn_dim: usize,
    vocab_size: usize,
    max_target_positions: usize,
    #[serde(default)]
    scale_embedding: bool,
}

impl WhisperConfig {
    /// Reads and checks `config.json`.
    pub(super) fn read(folder: &Path) -> Result<Self, LoadError> {
        let malformed = |problem: String| LoadError::Malformed { path: folder.join("config.json"), problem };
        let value: Value = read_json(folder, "config.json")?;
        let encoder: AudioConfig =
            serde_json::from_value(value.clone()).map_err(|error| malformed(error.to_string()))?;
        let raw: Raw = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        if raw.scale_embedding {
            return Err(malformed("scale_embedding is true, which is not built in".to_owned()));
        }
        let config = Self {
            encoder,
            layers: raw.decoder_layers,
            heads: raw.decoder_attention_heads,
            ffn: raw.decoder_ffn_dim,
            vocabulary: raw.vocab_size,
            positions: raw.max_target_positions,
        };
        config.fault().map_or(Ok(config), |problem| Err(malformed(problem)))
    }

    fn fault(&self) -> Option<String> {
        let counts = [
            ("d_model", self.encoder.d_model, 1 << 20),
            ("decoder_layers", self.layers, 4096),
            ("decoder_attention_heads", self.heads, 4096),
            ("decoder_ffn_dim", self.ffn, 1 << 20),
            ("vocab_size", self.vocabulary, 1 << 26),
            ("max_target_positions", self.positions, 1 << 16),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Some(format!("{name} is {value}; expected 1 to {most}"));
            }
        }
        if let Some(fault) = self.encoder.fault("") {
            return Some(fault);
        }
        (!self.encoder.d_model.is_multiple_of(self.heads)).then(|| {
            format!(
                "d_model {} is no multiple of decoder_attention_heads {}",
                self.encoder.d_model, self.heads
            )
        })
    }
}

/// What a model is to do with speech.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Task {
    /// Write it down.
    #[default]
    Transcribe,
    /// Write it down in English.
    Translate,
}

/// The control tokens and the tokens that are never written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Control {
    /// Begins every sequence.
    pub start: u32,
    /// Ends it.
    pub end: u32,
    /// Says that no times are to be written.
    pub no_timestamps: u32,
    /// The first of the tokens that are times, where there are any.
    pub first_time: u32,
    /// Its likelihood at the start is that of silence.
    pub no_speech: Option<u32>,
    /// The token of each language by its code: `en`, `de`… None in English-only models.
    pub languages: BTreeMap<String, u32>,
    /// The tokens of the tasks; none in English-only models.
    pub tasks: Option<(u32, u32)>,
    /// Tokens that are never written.
    pub suppressed: Vec<u32>,
    /// Tokens that are not written first.
    pub suppressed_first: Vec<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawGeneration {
    decoder_start_token_id: Option<u32>,
    eos_token_id: Option<u32>,
    no_timestamps_token_id: Option<u32>,
    suppress_tokens: Option<Vec<i64>>,
    begin_suppress_tokens: Option<Vec<i64>>,
    lang_to_id: Option<BTreeMap<String, u32>>,
    task_to_id: Option<BTreeMap<String, u32>>,
}

impl RawGeneration {
    /// What this leaves out, from another.
    fn or(self, other: Self) -> Self {
        Self {
            decoder_start_token_id: self.decoder_start_token_id.or(other.decoder_start_token_id),
            eos_token_id: self.eos_token_id.or(other.eos_token_id),
            no_timestamps_token_id: self.no_timestamps_token_id.or(other.no_timestamps_token_id),
            suppress_tokens: self.suppress_tokens.or(other.suppress_tokens),
            begin_suppress_tokens: self.begin_suppress_tokens.or(other.begin_suppress_tokens),
            lang_to_id: self.lang_to_id.or(other.lang_to_id),
            task_to_id: self.task_to_id.or(other.task_to_id),
        }
    }
}

impl Control {
    /// Finds the control tokens: in `generation_config.json`, else in `config.json`, else in the tokenizer by their names.
    pub(super) fn read(
        folder: &Path,
        config: &WhisperConfig,
        tokenizer: &TextTokenizer,
    ) -> Result<Self, LoadError> {
        let mut raw = RawGeneration::default();
        for file in ["generation_config.json", "config.json"] {
            if folder.join(file).exists() {
                raw = raw.or(read_json(folder, file)?);
            }
        }
        let unfit = |problem: String| LoadError::Unfit { folder: folder.to_path_buf(), problem };
        let needed = |id: Option<u32>, token: &str| {
            id.or_else(|| tokenizer.id(token))
                .ok_or_else(|| unfit(format!("neither its configs nor its tokenizer know `{token}`")))
        };
        let start = needed(raw.decoder_start_token_id, "<|startoftranscript|>")?;
        let end = needed(raw.eos_token_id, "<|endoftext|>")?;
        let no_timestamps = needed(raw.no_timestamps_token_id, "<|notimestamps|>")?;
        let tasks = match &raw.task_to_id {
            Some(tasks) => tasks.get("transcribe").copied().zip(tasks.get("translate").copied()),
            None => tokenizer.id("<|transcribe|>").zip(tokenizer.id("<|translate|>")),
        };
        // Languages stand between the start and the tasks.
        let named = |token: &str| Some(token.strip_prefix("<|")?.strip_suffix("|>")?.to_owned());
        let languages: BTreeMap<String, u32> = match (raw.lang_to_id, tasks) {
            (Some(ids), _) => ids.into_iter().filter_map(|(token, id)| Some((named(&token)?, id))).collect(),
            (None, Some((transcribe, translate))) => (start.saturating_add(1)..transcribe.min(translate))
                .filter_map(|id| Some((named(&tokenizer.token(id)?)?, id)))
                .collect(),
            (None, None) => BTreeMap::new(),
        };
        // English-only models have the tokens, but not the use of them.
        let english_only = tokenizer.token(end).is_some() && end == 50_256;
        let (languages, tasks) = if english_only { (BTreeMap::new(), None) } else { (languages, tasks) };
        let ids = |ids: Option<Vec<i64>>| -> Vec<u32> {
            ids.unwrap_or_default().into_iter().filter_map(|id| u32::try_from(id).ok()).collect()
        };
        let control = Self {
            start,
            end,
            no_timestamps,
            first_time: no_timestamps.saturating_add(1),
            no_speech: tokenizer.id("<|nospeech|>").or_else(|| tokenizer.id("<|nocaptions|>")),
            languages,
            tasks,
            suppressed: ids(raw.suppress_tokens),
            suppressed_first: ids(raw.begin_suppress_tokens),
        };
        let mut used = vec![start, end, no_timestamps];
        used.extend(control.languages.values());
        used.extend(control.tasks.iter().flat_map(|&(a, b)| [a, b]));
        match used.into_iter().find(|&id| id as usize >= config.vocabulary) {
            Some(id) => {
                Err(unfit(format!("control token {id} lies outside the vocabulary of {}", config.vocabulary)))
            }
            None => Ok(control),
        }
    }

    /// The tokens that a transcript begins with.
    pub(super) fn prompt(&self, language: Option<u32>, task: Task) -> Vec<u32> {
        let mut ids = vec![self.start];
        ids.extend(language);
        if let Some((transcribe, translate)) = self.tasks {
            ids.push(if task == Task::Transcribe { transcribe } else { translate });
        }
        ids.push(self.no_timestamps);
        ids
    }

    /// The code of a language's token.
    pub(super) fn language(&self, id: u32) -> Option<&str> {
        self.languages.iter().find(|(_, known)| **known == id).map(|(code, _)| code.as_str())
    }
}
