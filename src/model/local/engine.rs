//! What all architectures are to those who check, load and run them.

use std::path::Path;

use candle_core::{DType, Device};

use super::error::LoadError;
use super::generate::Generated;
use super::weights::Checkpoint;
use super::{config, qwen2_5_vl, qwen2_audio, text, whisper};
use crate::model::{AudioNeed, ImageNeed, Prepared};
use crate::types::Digest;

/// What a folder or file holds, found out from the headers and small files alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Inventory {
    /// The architecture: `qwen2_audio`, `llama`…
    pub architecture: String,
    /// Numbers in all tensors.
    pub parameters: u64,
    /// Number formats on disk, the commonest first.
    pub dtypes: Vec<String>,
    /// Bytes of the weights files.
    pub bytes: u64,
    /// The weights files.
    pub files: Vec<String>,
    /// Mel bands of the audio features; nothing where the model hears nothing.
    pub bins: Option<usize>,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// The most tokens of prompt and response together.
    pub max_positions: usize,
    /// Digest of the model's files; see `weights.rs` for what it covers.
    pub digest: Digest,
}

impl Inventory {
    /// The inventory of safetensors files.
    pub(super) fn of(
        checkpoint: &Checkpoint,
        architecture: &str,
        bins: Option<usize>,
        (vocabulary, max_positions): (usize, usize),
    ) -> Result<Self, LoadError> {
        let dtypes = checkpoint.dtypes().into_iter().map(|dtype| super::device::dtype_name(dtype).to_owned());
        Ok(Self {
            architecture: architecture.to_owned(),
            parameters: checkpoint.parameters(),
            dtypes: dtypes.collect(),
            bytes: checkpoint.bytes(),
            files: checkpoint.files(),
            bins,
            vocabulary,
            max_positions,
            digest: checkpoint.digest()?,
        })
    }
}

/// What a recogniser of speech is told for all clips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpeechSpec {
    /// The language of all clips by its code; found out clip by clip without.
    pub language: Option<String>,
    /// Whether the text of requests is left away; else requests with text fail.
    pub drop_text: bool,
    /// Whether windows that seem to have failed are tried again.
    pub fallback: bool,
}

impl SpeechSpec {
    /// What of it can change answers, for the model's identity; empty where nothing was said.
    pub(super) fn words(&self) -> String {
        let mut words = String::new();
        if let Some(language) = &self.language {
            words.push_str(", language ");
            words.push_str(language);
        }
        if self.fallback {
            words.push_str(", fallback");
        }
        words
    }
}

/// A model whose files were checked and whose weights were not read.
pub(super) trait Checked: Send {
    /// What was found.
    fn inventory(&self) -> &Inventory;

    /// The audio that it wants, and the longest clip in seconds.
    fn audio(&self) -> (AudioNeed, f64);

    /// The images that it wants.
    fn images(&self) -> ImageNeed {
        ImageNeed::None
    }

    /// The commonest number format on disk.
    fn on_disk(&self) -> DType;

    /// Takes what a recogniser is told; refuses what makes no sense to the model.
    fn listen(&mut self, spec: &SpeechSpec) -> Result<(), String> {
        if *spec == SpeechSpec::default() {
            return Ok(());
        }
        Err(format!(
            "[model.transcription] belongs to `whisper`; this model is `{}`",
            self.inventory().architecture
        ))
    }

    /// Brings the weights to the device.
    fn load(self: Box<Self>, dtype: DType, device: &Device) -> Result<Box<dyn Engine>, LoadError>;
}

/// A loaded model.
pub(super) trait Engine: Send {
    /// Answers requests together, in order. A request that is wrong in itself fails alone; an error of the device fails
    /// all.
    fn answer(&mut self, requests: &[Prepared]) -> candle_core::Result<Vec<Result<Reply, String>>>;
}

/// An answer with what was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Tokens of the prompt, those of audio included.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that stand for audio.
    pub audio_tokens: usize,
    /// Tokens of the response.
    pub completion_tokens: usize,
    /// The language that was heard, where it was to be found out.
    pub language: Option<String>,
    /// What was generated.
    pub generated: Generated,
}

/// Checks everything of a model but the values of its weights. `path` is a folder in the layout of Hugging Face, a GGUF
/// file, or a folder that holds one; `wanted` is the architecture that it has to be, if that is known.
pub(super) fn read(path: &Path, wanted: Option<&str>) -> Result<Box<dyn Checked>, LoadError> {
    if let Some(file) = text::find_gguf(path)? {
        let checked = text::CheckedText::read_gguf(&file)?;
        return fits(Box::new(checked), path, wanted);
    }
    if !path.is_dir() {
        return Err(LoadError::NoFolder(path.to_path_buf()));
    }
    let kind = config::model_type(path)?;
    let checked: Box<dyn Checked> = match kind.as_str() {
        config::QWEN2_AUDIO => Box::new(qwen2_audio::Checked::read(path)?),
        qwen2_5_vl::QWEN2_5_VL => Box::new(qwen2_5_vl::CheckedVl::read(path)?),
        whisper::WHISPER => Box::new(whisper::CheckedWhisper::read(path)?),
        kind => match text::Family::of_model_type(kind) {
            Some(family) => Box::new(text::CheckedText::read(path, family)?),
            None => {
                return Err(LoadError::Malformed {
                    path: path.join("config.json"),
                    problem: format!(
                        "model_type is `{kind}`, and the local models that are built in are `qwen2_audio`, \
                         `whisper`, `qwen2_5_vl`, `llama`, `qwen2`, `qwen3` and `gemma3`; serve other models with an \
                         inference server and use an endpoint"
                    ),
                });
            }
        },
    };
    fits(checked, path, wanted)
}

/// Refuses a model of another architecture than the one that was named.
fn fits(checked: Box<dyn Checked>, path: &Path, wanted: Option<&str>) -> Result<Box<dyn Checked>, LoadError> {
    let found = &checked.inventory().architecture;
    match wanted {
        Some(wanted) if wanted != found => Err(LoadError::Unfit {
            folder: path.to_path_buf(),
            problem: format!(
                "holds a model of the architecture `{found}`, not `{wanted}`: write `architecture = \"{found}\"`"
            ),
        }),
        _ => Ok(checked),
    }
}
