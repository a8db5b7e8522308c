//! Text models: Llama, Qwen2, Qwen3 and Gemma 3, from safetensors in the layout of Hugging Face or from a GGUF file, for
//! the roles of the language model of a cascade and of a judge.
//!
//! The decoder is our own (`decoder.rs`), the one of Qwen2-Audio: its batches are rows of one cache that do not see each
//! other, so an answer does not depend on what else is in its batch. Prompts go through the model's own chat template. What
//! a prompt begins with as one of the last prompts did is taken over from it (`kept.rs`): the families differ in weights,
//! not in the cache, so it holds for all of them.

mod config;
mod gguf;
mod gguf_tokenizer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result};

pub use config::Family;
pub(super) use config::seeing_decoder;

use super::chat_template::ChatTemplate;
use super::config::all_stop_ids;
use super::decoder::{Decoder, DecoderConfig};
use super::device::DtypeChoice;
use super::engine::{Checked, Engine, Inventory, Reply};
use super::error::LoadError;
use super::generate::{self, Generated, Sequence};
use super::kept::KeptPrompts;
use super::sampler::Sampler;
use super::tokenizer::TextTokenizer;
use super::weights::{Checkpoint, Names, Weights};
use crate::model::{AudioNeed, Prepared};
use crate::types::Prompt;
use gguf::GgufFile;

/// The GGUF file that a path means: the file itself, or the one of a folder that has no `config.json`.
pub(super) fn find_gguf(path: &Path) -> std::result::Result<Option<PathBuf>, LoadError> {
    let is_gguf = |path: &Path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gguf"));
    if path.is_file() {
        if is_gguf(path) {
            return Ok(Some(path.to_path_buf()));
        }
        return Err(LoadError::Malformed {
            path: path.to_path_buf(),
            problem: "is a file, and no GGUF file by its name; name a folder, or a file that ends in `.gguf`"
                .to_owned(),
        });
    }
    if !path.is_dir() || path.join("config.json").exists() {
        return Ok(None);
    }
    let unreadable = |source| LoadError::Unreadable { path: path.to_path_buf(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if is_gguf(&file) {
            files.push(file);
        }
    }
    files.sort();
    match &files[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => Err(LoadError::Unfit {
            folder: path.to_path_buf(),
            problem: format!(
                "holds {} GGUF files; name the one that is meant, for example {}",
                files.len(),
                first.display()
            ),
        }),
    }
}

/// Where the weights are.
enum Stored {
    Folder(Checkpoint),
    Gguf(GgufFile),
}

/// A text model that was checked and whose weights were not read.
pub(super) struct CheckedText {
    config: DecoderConfig,
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    stored: Stored,
    inventory: Inventory,
}

impl CheckedText {
    /// Checks everything of a folder but the values of its weights.
    pub(super) fn read(folder: &Path, family: Family) -> std::result::Result<Self, LoadError> {
        let (config, naming) = config::read(folder, family)?;
        let tokenizer = TextTokenizer::read(folder, config.vocabulary)?;
        let template = ChatTemplate::read(folder, tokenizer.roles.clone())?;
        let stop_ids = all_stop_ids(folder, tokenizer.eos_id)?;
        let checkpoint = Checkpoint::open(folder, naming)?;
        let mut shapes = BTreeMap::new();
        Decoder::shapes(&config, &mut shapes);
        let head = format!("{}lm_head.weight", config.prefix);
        // The parts that see are not read: this program gives the model no images.
        let mut harmless = match naming {
            Names::Plain | Names::Seeing => Vec::new(),
            Names::Composite => vec!["vision_tower.", "multi_modal_projector."],
        };
        if config.tied {
            harmless.push(&head);
        }
        let report = checkpoint.compare(&shapes, &harmless);
        if !report.is_empty() {
            return Err(LoadError::Tensors { folder: folder.to_path_buf(), report });
        }
        let sizes = (config.vocabulary, config.positions);
        let inventory = Inventory::of(&checkpoint, family.as_str(), None, sizes)?;
        Ok(Self { config, tokenizer, template, stop_ids, stored: Stored::Folder(checkpoint), inventory })
    }

    /// Checks everything of a GGUF file but the values of its weights.
    pub(super) fn read_gguf(path: &Path) -> std::result::Result<Self, LoadError> {
        let file = GgufFile::open(path)?;
        let config = file.config()?;
        let (tokenizer, stop_ids) = gguf_tokenizer::read(&file, config.vocabulary)?;
        let source = file.chat_template()?;
        let template = ChatTemplate::compile(source, tokenizer.roles.clone())
            .map_err(|problem| LoadError::Malformed { path: path.to_path_buf(), problem })?;
        let inventory = file.inventory(&config)?;
        Ok(Self { config, tokenizer, template, stop_ids, stored: Stored::Gguf(file), inventory })
    }

    fn bring(self, dtype: DType, device: &Device) -> std::result::Result<TextModel, LoadError> {
        let Self { config, tokenizer, template, stop_ids, stored, .. } = self;
        let load = |weights: &Weights| Decoder::load(&config, weights);
        let decoder = match stored {
            Stored::Folder(checkpoint) => {
                load(&checkpoint.map(dtype, device)?).map_err(|error| checkpoint.failed(&error))?
            }
            Stored::Gguf(file) => {
                let path = file.path().to_path_buf();
                load(&file.weights(&config, dtype, device)).map_err(|error| LoadError::Weights {
                    folder: path,
                    problem: super::first_line(&error),
                })?
            }
        };
        Ok(TextModel {
            positions: config.positions,
            vocabulary: config.vocabulary,
            tokenizer,
            template,
            stop_ids,
            decoder,
            kept: Mutex::default(),
        })
    }
}

impl Checked for CheckedText {
    fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn audio(&self) -> (AudioNeed, f64) {
        (AudioNeed::None, 0.0)
    }

    fn on_disk(&self) -> DType {
        match &self.stored {
            Stored::Folder(checkpoint) => checkpoint.dtype(),
            // What quantised numbers become.
            Stored::Gguf(_) => DType::F32,
        }
    }

    fn load(
        self: Box<Self>,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Box<dyn Engine>, LoadError> {
        Ok(Box::new(self.bring(dtype, device)?))
    }
}

/// A loaded text model.
pub struct TextModel {
    positions: usize,
    vocabulary: usize,
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    decoder: Decoder,
    kept: Mutex<KeptPrompts>,
}

impl TextModel {
    /// Loads a folder or a GGUF file.
    pub fn load(path: &Path, dtype: DtypeChoice, device: &Device) -> std::result::Result<Self, LoadError> {
        let checked = if let Some(file) = find_gguf(path)? {
            CheckedText::read_gguf(&file)?
        } else {
            let kind = super::config::model_type(path)?;
            let family = Family::of_model_type(&kind).ok_or_else(|| LoadError::Malformed {
                path: path.join("config.json"),
                problem: format!("model_type is `{kind}`, which is no text model that is built in"),
            })?;
            CheckedText::read(path, family)?
        };
        let dtype = dtype.resolve(device, checked.on_disk());
        checked.bring(dtype, device)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The chat template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// The ids of a prompt: a chat goes through the template, a raw prompt is taken as it is.
    pub fn prompt_ids(&self, prompt: &Prompt) -> std::result::Result<Vec<u32>, String> {
        let ids = match prompt {
            Prompt::Raw { text, .. } => self.tokenizer.encode(text)?,
            Prompt::Chat(messages) => self.tokenizer.encode(&self.template.render_text(messages)?)?,
        };
        if ids.is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        if ids.len() >= self.positions {
            return Err(format!(
                "the prompt has {} tokens, and the model takes fewer than {}; shorten the prompt",
                ids.len(),
                self.positions
            ));
        }
        Ok(ids)
    }

    /// The logits behind a prompt of ids.
    pub fn next_logits(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let prompt = Sequence::of_text(ids.to_vec());
        let logits = generate::next_logits(&self.decoder, &[prompt], Some(&mut *self.kept()))?;
        logits.into_iter().next().ok_or_else(|| candle_core::Error::msg("a prompt without tokens"))
    }

    fn kept(&self) -> MutexGuard<'_, KeptPrompts> {
        // A prompt is kept whole or not at all.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the last prompts: the next one is computed from its first token on.
    pub fn forget(&self) {
        self.kept().forget();
    }

    /// Tokens of prompts that were not computed, but taken over from earlier prompts.
    pub fn taken_over(&self) -> u64 {
        self.kept().taken_over()
    }

    /// Answers requests together. With `ignore_stops` only the limit of tokens ends a response. A request that is wrong
    /// in itself fails alone; an error of the device fails all. Each answer comes with the number of its prompt's tokens.
    pub fn answer(
        &self,
        requests: &[Prepared],
        ignore_stops: bool,
    ) -> Result<Vec<std::result::Result<(usize, Generated), String>>> {
        let prepared: Vec<_> = requests.iter().map(|request| self.prepare(request)).collect();
        let lengths: Vec<usize> = prepared
            .iter()
            .map(|prepared| prepared.as_ref().map_or(0, |(sequence, ..)| sequence.ids.len()))
            .collect();
        let stop_ids = if ignore_stops { &[][..] } else { &self.stop_ids[..] };
        let mut kept = self.kept();
        let (decoder, tokenizer) = (&self.decoder, &self.tokenizer);
        let generated =
            generate::respond(decoder, tokenizer, stop_ids, self.positions, prepared, Some(&mut *kept))?;
        Ok(lengths.into_iter().zip(generated).map(|(length, generated)| Ok((length, generated?))).collect())
    }

    fn prepare<'a>(
        &self,
        request: &'a Prepared,
    ) -> std::result::Result<(Sequence, Sampler, &'a crate::types::Generation), String> {
        generate::check(&request.generation)?;
        if !request.audio.is_empty() {
            return Err("the request holds audio, and a text model hears none".to_owned());
        }
        let ids = self.prompt_ids(&request.prompt)?;
        let sampler = Sampler::new(&request.generation, &ids, self.vocabulary, request.seed, request.key)?;
        Ok((Sequence::of_text(ids), sampler, &request.generation))
    }
}

impl Engine for TextModel {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let answers = Self::answer(self, requests, false)?;
        let reply = |(prompt_tokens, generated): (usize, Generated)| Reply {
            prompt_tokens,
            audio_tokens: 0,
            completion_tokens: generated.ids.len(),
            language: None,
            generated,
        };
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }
}
