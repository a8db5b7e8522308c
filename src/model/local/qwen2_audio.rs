//! Qwen2-Audio: audio encoder, projector and text model together, from a Hugging Face folder to answers.
//!
//! It follows `Qwen2AudioForConditionalGeneration` and `Qwen2AudioProcessor` of transformers 5.24.0.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};

use super::audio_encoder::{AudioEncoder, Kind, audio_tokens};
use super::chat_template::ChatTemplate;
use super::config::{self, Config};
use super::decoder::Decoder;
use super::device::DtypeChoice;
use super::engine::{self, Engine, Inventory, Reply};
use super::error::LoadError;
use super::generate::{Generated, Sequence};
use super::placing::{Placing, TextHalf};
use super::projector::Projector;
use super::remembered::Remembered;
use super::sampler::Sampler;
use super::tokenizer::AudioTokenizer;
use super::weights::{Checkpoint, Names};
use crate::model::{AudioNeed, Prepared};
use crate::types::{Digest, LogMel, PreparedAudio, Prompt};

/// The audio window of the encoder in seconds.
const WINDOW_SECONDS: f64 = 30.0;

/// The most positions that go through the encoder at once: four whole windows.
const MOST_POSITIONS: usize = 6000;

const NO_FEATURES: &str = "a clip came as a file, and the local model takes features";

/// A folder that was checked and whose weights were not read.
pub(super) struct Checked {
    config: Config,
    tokenizer: AudioTokenizer,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    checkpoint: Checkpoint,
    inventory: Inventory,
}

impl Checked {
    /// Checks everything of a folder but the values of its weights.
    pub(super) fn read(folder: &Path) -> std::result::Result<Self, LoadError> {
        let config = Config::read(folder)?;
        config::check_preprocessor(folder, config.audio.num_mel_bins)?;
        let tokenizer = AudioTokenizer::read(folder, &config)?;
        let template = ChatTemplate::read(folder, tokenizer.text.roles.clone())?;
        let stop_ids = config::all_stop_ids(folder, tokenizer.text.eos_id)?;
        let checkpoint = Checkpoint::open(folder, Names::Composite)?;
        let mut shapes = BTreeMap::new();
        AudioEncoder::shapes(&config.audio, Kind::Qwen2Audio, &mut shapes);
        Projector::shapes(&config, &mut shapes);
        Decoder::shapes(&config.text.decoder(), &mut shapes);
        let tied = config.text.tie_word_embeddings;
        let report = checkpoint.compare(&shapes, if tied { &["language_model.lm_head.weight"] } else { &[] });
        if !report.is_empty() {
            return Err(LoadError::Tensors { folder: folder.to_path_buf(), report });
        }
        let inventory = Inventory::of(
            &checkpoint,
            config::QWEN2_AUDIO,
            Some(config.audio.num_mel_bins),
            (config.text.vocab_size, config.text.max_position_embeddings),
        )?;
        Ok(Self { config, tokenizer, template, stop_ids, checkpoint, inventory })
    }

    fn bring(self, dtype: DType, device: &Device) -> std::result::Result<Qwen2Audio, LoadError> {
        let Self { config, tokenizer, template, stop_ids, checkpoint, .. } = self;
        let weights = checkpoint.map(dtype, device)?;
        let parts = || -> Result<(AudioEncoder, Projector, Decoder)> {
            Ok((
                AudioEncoder::load(&config.audio, Kind::Qwen2Audio, &weights)?,
                Projector::load(&weights)?,
                Decoder::load(&config.text.decoder(), &weights)?,
            ))
        };
        let (encoder, projector, text) = parts().map_err(|error| checkpoint.failed(&error))?;
        let remembered = Remembered::default();
        Ok(Qwen2Audio { config, tokenizer, template, stop_ids, encoder, projector, text, remembered })
    }
}

impl engine::Checked for Checked {
    fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn audio(&self) -> (AudioNeed, f64) {
        (AudioNeed::LogMel { bins: self.config.audio.num_mel_bins }, WINDOW_SECONDS)
    }

    fn on_disk(&self) -> DType {
        self.checkpoint.dtype()
    }

    fn load(
        self: Box<Self>,
        dtype: DType,
        device: &Device,
    ) -> std::result::Result<Box<dyn Engine>, LoadError> {
        Ok(Box::new(self.bring(dtype, device)?))
    }
}

/// A loaded model.
pub struct Qwen2Audio {
    config: Config,
    tokenizer: AudioTokenizer,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    encoder: AudioEncoder,
    projector: Projector,
    text: Decoder,
    remembered: Remembered,
}

/// What the encoder and the projector make of one clip.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioVectors {
    /// Pooled and normed encoder output, one vector an audio token.
    pub encoded: Vec<Vec<f32>>,
    /// The same after the projector.
    pub projected: Vec<Vec<f32>>,
}

/// A prompt as the text model gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// Token ids, the placeholder repeated for every audio token.
    pub ids: Vec<u32>,
    /// The first place and the number of tokens of each clip.
    pub places: Vec<(usize, usize)>,
}

impl Expanded {
    /// Tokens that stand for audio.
    pub fn audio_tokens(&self) -> usize {
        self.places.iter().map(|&(_, tokens)| tokens).sum()
    }
}

impl Qwen2Audio {
    /// Loads a folder.
    pub fn load(folder: &Path, dtype: DtypeChoice, device: &Device) -> std::result::Result<Self, LoadError> {
        let checked = Checked::read(folder)?;
        let dtype = dtype.resolve(device, checked.checkpoint.dtype());
        checked.bring(dtype, device)
    }

    /// The config.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &AudioTokenizer {
        &self.tokenizer
    }

    /// The chat template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// The prompt string: a chat goes through the template, a raw prompt is taken as it is.
    pub fn prompt_text(&self, prompt: &Prompt) -> std::result::Result<String, String> {
        match prompt {
            Prompt::Raw { text, .. } => Ok(text.clone()),
            Prompt::Chat(messages) => self.template.render(messages),
        }
    }

    /// Tokenizes a prompt string and repeats each placeholder for its clip's tokens.
    pub fn expand(&self, text: &str, clips: &[&LogMel]) -> std::result::Result<Expanded, String> {
        let ids = self.tokenizer.encode(text)?;
        let placeholders = ids.iter().filter(|&&id| id == self.tokenizer.placeholder_id).count();
        if placeholders != clips.len() {
            return Err(format!(
                "the prompt has {placeholders} audio placeholders (`{}`) and {} clips; each clip needs one",
                self.tokenizer.placeholder,
                clips.len()
            ));
        }
        let mut expanded = Expanded { ids: Vec::with_capacity(ids.len()), places: Vec::new() };
        let mut clips = clips.iter();
        for id in ids {
            if id != self.tokenizer.placeholder_id {
                expanded.ids.push(id);
                continue;
            }
            let Some(clip) = clips.next() else { continue };
            let tokens = audio_tokens(clip.valid_frames);
            if tokens == 0 {
                return Err(format!(
                    "a clip of {} frames of 10 ms gives no audio token; clips must be longer than 20 ms",
                    clip.valid_frames
                ));
            }
            expanded.places.push((expanded.ids.len(), tokens));
            expanded.ids.extend(std::iter::repeat_n(id, tokens));
        }
        let most = self.config.text.max_position_embeddings;
        if expanded.ids.len() >= most {
            return Err(format!(
                "the prompt has {} tokens ({} of them audio), and the model takes fewer than {most}; shorten the \
                 prompt or its clips",
                expanded.ids.len(),
                expanded.audio_tokens()
            ));
        }
        if expanded.ids.is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        Ok(expanded)
    }

    /// Encoder and projector output of one clip.
    pub fn audio_vectors(&self, clip: &LogMel) -> Result<AudioVectors> {
        let encoded = self.encoder.encode(&[clip])?.swap_remove(0);
        let projected = self.projector.forward(&encoded)?;
        let rows = |x: &Tensor| x.to_dtype(DType::F32)?.to_vec2();
        Ok(AudioVectors { encoded: rows(&encoded)?, projected: rows(&projected)? })
    }

    /// The logits behind each of several prompts, computed together.
    pub fn next_logits(&mut self, prompts: &[(Expanded, Vec<PreparedAudio>)]) -> Result<Vec<Vec<f32>>> {
        self.logits_behind(prompts)
    }

    /// Answers requests together. With `ignore_stops` only the limit of tokens ends a response. A request that is wrong
    /// in itself fails alone; an error of the device fails all.
    pub fn answer(
        &mut self,
        requests: &[Prepared],
        ignore_stops: bool,
    ) -> Result<Vec<std::result::Result<(Expanded, Generated), String>>> {
        self.answer_together(requests, ignore_stops)
    }

    /// How many clips were encoded so far.
    pub fn encoded_clips(&self) -> u64 {
        self.remembered.computed()
    }
}

impl Placing for Qwen2Audio {
    type Medium = PreparedAudio;
    type Expanded = Expanded;

    fn text_half(&self) -> TextHalf<'_> {
        TextHalf {
            decoder: &self.text,
            tokenizer: &self.tokenizer.text,
            stop_ids: &self.stop_ids,
            positions: self.config.text.max_position_embeddings,
        }
    }

    fn media(request: &Prepared) -> &[PreparedAudio] {
        &request.audio
    }

    fn digest(medium: &PreparedAudio) -> Digest {
        medium.digest
    }

    fn prepare(&self, request: &Prepared) -> std::result::Result<(Expanded, Sampler), String> {
        let text = self.prompt_text(&request.prompt)?;
        let clips: Option<Vec<&LogMel>> = request.audio.iter().map(PreparedAudio::features).collect();
        let clips = clips.ok_or(NO_FEATURES)?;
        let expanded = self.expand(&text, &clips)?;
        let vocabulary = self.config.text.vocab_size;
        let sampler =
            Sampler::new(&request.generation, &expanded.ids, vocabulary, request.seed, request.key)?;
        Ok((expanded, sampler))
    }

    fn sequence(expanded: &Expanded) -> Sequence {
        Sequence::of_text(expanded.ids.clone())
    }

    fn places(expanded: &Expanded) -> &[(usize, usize)] {
        &expanded.places
    }

    fn vectors(&mut self, media: &[&PreparedAudio]) -> Result<Vec<Tensor>> {
        let Self { remembered, encoder, projector, .. } = self;
        let clips: Option<Vec<(Digest, &LogMel)>> =
            media.iter().map(|clip| Some((clip.digest, clip.features()?))).collect();
        let clips = clips.ok_or_else(|| candle_core::Error::msg(NO_FEATURES))?;
        remembered.all(
            &clips,
            |clip| super::audio_encoder::positions(clip.valid_frames),
            |total, _| total < MOST_POSITIONS,
            |batch| encoder.encode(batch)?.iter().map(|encoded| projector.forward(encoded)).collect(),
        )
    }
}

impl Engine for Qwen2Audio {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let answers = Self::answer(self, requests, false)?;
        let reply = |(expanded, generated): (Expanded, Generated)| Reply {
            prompt_tokens: expanded.ids.len(),
            audio_tokens: expanded.audio_tokens(),
            completion_tokens: generated.ids.len(),
            language: None,
            generated,
        };
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }
}
