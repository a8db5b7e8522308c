//! Qwen2-Audio: audio encoder, projector and text model together, from a Hugging Face folder to answers.
//!
//! It follows `Qwen2AudioForConditionalGeneration` and `Qwen2AudioProcessor` of transformers 5.24.0.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};

use super::audio_encoder::{AudioEncoder, Kind, audio_tokens};
use super::chat_template::ChatTemplate;
use super::config::{self, Config};
use super::decoder::Decoder;
use super::device::DtypeChoice;
use super::engine::{self, Engine, Inventory, Reply};
use super::error::LoadError;
use super::generate::{self, Ask, Generated, Placed, Sequence};
use super::projector::Projector;
use super::sampler::Sampler;
use super::tokenizer::AudioTokenizer;
use super::weights::{Checkpoint, Names};
use crate::model::{AudioNeed, Prepared};
use crate::types::{Digest, LogMel, PreparedAudio, Prompt};

/// The audio window of the encoder in seconds.
const WINDOW_SECONDS: f64 = 30.0;

/// The most clips and bytes that are remembered after they were encoded.
const MOST_CLIPS: usize = 256;
const MOST_BYTES: usize = 512 << 20;

/// The most positions that go through the encoder at once: four whole windows.
const MOST_POSITIONS: usize = 6000;

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
        let generation = crate::types::Generation::default();
        let mut asks = Vec::with_capacity(prompts.len());
        let sequences = self.place(prompts.iter().map(|(prompt, audio)| (prompt, &audio[..])))?;
        for sequence in sequences {
            let sampler =
                Sampler::new(&generation, &[], 0, 0, Digest([0; 32])).map_err(candle_core::Error::msg)?;
            asks.push(Ask { sequence, generation: &generation, sampler, limit: 1 });
        }
        let longest = asks.iter().map(|ask| ask.sequence.ids.len()).max().unwrap_or(0);
        let cache = self.text.cache(asks.len(), longest)?;
        generate::prefill(&self.text, &asks, longest, &cache)
    }

    /// Answers requests together. With `ignore_stops` only the limit of tokens ends a response. A request that is wrong
    /// in itself fails alone; an error of the device fails all.
    pub fn answer(
        &mut self,
        requests: &[Prepared],
        ignore_stops: bool,
    ) -> Result<Vec<std::result::Result<(Expanded, Generated), String>>> {
        let expanded: Vec<std::result::Result<(Expanded, Sampler), String>> =
            requests.iter().map(|request| self.prepare(request)).collect();
        let good = requests
            .iter()
            .zip(&expanded)
            .filter_map(|(request, expanded)| Some((&expanded.as_ref().ok()?.0, &request.audio[..])));
        let mut sequences = self.place(good)?.into_iter();
        let asked = requests.iter().zip(&expanded).map(|(request, expanded)| {
            let (_, sampler) = expanded.as_ref().map_err(String::clone)?;
            let sequence = sequences.next().ok_or("a prompt got lost")?;
            Ok((sequence, sampler.clone(), &request.generation))
        });
        let stop_ids = if ignore_stops { &[][..] } else { &self.stop_ids[..] };
        let most = self.config.text.max_position_embeddings;
        let generated = generate::respond(&self.text, &self.tokenizer.text, stop_ids, most, asked.collect())?;
        Ok(expanded
            .into_iter()
            .zip(generated)
            .map(|(expanded, generated)| Ok((expanded?.0, generated?)))
            .collect())
    }

    fn prepare(&self, request: &Prepared) -> std::result::Result<(Expanded, Sampler), String> {
        if request.generation.max_new_tokens == 0 {
            return Err("max_new_tokens is 0; a response needs at least one token".to_owned());
        }
        let text = self.prompt_text(&request.prompt)?;
        let clips: Option<Vec<&LogMel>> = request.audio.iter().map(PreparedAudio::features).collect();
        let clips = clips.ok_or("a clip came as a file, and the local model takes features")?;
        let expanded = self.expand(&text, &clips)?;
        let vocabulary = self.config.text.vocab_size;
        let sampler =
            Sampler::new(&request.generation, &expanded.ids, vocabulary, request.seed, request.key)?;
        Ok((expanded, sampler))
    }

    /// Puts the vectors of their clips into prompts. Each clip is encoded once, however many prompts have it.
    fn place<'a>(
        &mut self,
        prompts: impl Iterator<Item = (&'a Expanded, &'a [PreparedAudio])> + Clone,
    ) -> Result<Vec<Sequence>> {
        let mut identities: HashMap<Digest, usize> = HashMap::new();
        let mut clips: Vec<&PreparedAudio> = Vec::new();
        for audio in prompts.clone().flat_map(|(_, audio)| audio) {
            identities.entry(audio.digest).or_insert_with(|| {
                clips.push(audio);
                clips.len() - 1
            });
        }
        let vectors = self.vectors(&clips)?;
        prompts
            .map(|(expanded, audio)| {
                let placed = expanded.places.iter().zip(audio).filter_map(|(&(start, _), audio)| {
                    let identity = identities.get(&audio.digest).copied()?;
                    Some(Placed { start, vectors: vectors.get(identity)?.clone(), identity })
                });
                Ok(Sequence { ids: expanded.ids.clone(), clips: placed.collect() })
            })
            .collect()
    }

    /// The projected vectors of clips, remembered or computed together.
    fn vectors(&mut self, clips: &[&PreparedAudio]) -> Result<Vec<Tensor>> {
        let mut found: Vec<Option<Tensor>> =
            clips.iter().map(|clip| self.remembered.get(clip.digest)).collect();
        let missing: Vec<usize> = (0..clips.len()).filter(|&index| found[index].is_none()).collect();
        let Some(features) = clips.iter().map(|clip| clip.features()).collect::<Option<Vec<&LogMel>>>()
        else {
            candle_core::bail!("a clip came as a file, and the local model takes features");
        };
        let mut start = 0;
        while start < missing.len() {
            let (mut end, mut positions) = (start, 0);
            while end < missing.len() && (end == start || positions < MOST_POSITIONS) {
                positions += super::audio_encoder::positions(features[missing[end]].valid_frames);
                end += 1;
            }
            let batch: Vec<&LogMel> = missing[start..end].iter().map(|&index| features[index]).collect();
            let encoded = self.encoder.encode(&batch)?;
            for (&index, encoded) in missing[start..end].iter().zip(&encoded) {
                let projected = self.projector.forward(encoded)?;
                self.remembered.put(clips[index].digest, &projected);
                found[index] = Some(projected);
            }
            start = end;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// How many clips were encoded so far.
    pub fn encoded_clips(&self) -> u64 {
        self.remembered.computed
    }
}

impl Engine for Qwen2Audio {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let answers = Self::answer(self, requests, false)?;
        let reply = |(expanded, generated): (Expanded, Generated)| Reply {
            prompt_tokens: expanded.ids.len(),
            audio_tokens: expanded.audio_tokens(),
            completion_tokens: generated.ids.len(),
            generated,
        };
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }
}

/// Projected vectors of the clips that were used last.
#[derive(Default)]
struct Remembered {
    clips: HashMap<Digest, (Tensor, u64)>,
    bytes: usize,
    clock: u64,
    computed: u64,
}

impl Remembered {
    fn get(&mut self, digest: Digest) -> Option<Tensor> {
        self.clock += 1;
        let (vectors, used) = self.clips.get_mut(&digest)?;
        *used = self.clock;
        Some(vectors.clone())
    }

    fn put(&mut self, digest: Digest, vectors: &Tensor) {
        let size = |vectors: &Tensor| vectors.elem_count() * vectors.dtype().size_in_bytes();
        self.clock += 1;
        self.computed += 1;
        self.bytes += size(vectors);
        if let Some((old, _)) = self.clips.insert(digest, (vectors.clone(), self.clock)) {
            self.bytes -= size(&old);
        }
        while self.clips.len() > MOST_CLIPS || self.bytes > MOST_BYTES {
            let oldest = self.clips.iter().min_by_key(|(_, (_, used))| *used).map(|(digest, _)| *digest);
            let Some((old, _)) = oldest.and_then(|digest| self.clips.remove(&digest)) else { break };
            self.bytes -= size(&old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clips_used_last_are_remembered() {
        let mut remembered = Remembered::default();
        let digest = |number: usize| Digest::of(&number.to_le_bytes());
        let vectors = Tensor::zeros((4, 2), DType::F32, &Device::Cpu).unwrap();
        for number in 0..MOST_CLIPS {
            remembered.put(digest(number), &vectors);
        }
        assert!(remembered.get(digest(0)).is_some());
        remembered.put(digest(MOST_CLIPS), &vectors);
        assert!(remembered.get(digest(0)).is_some() && remembered.get(digest(1)).is_none());
        assert_eq!(remembered.bytes, MOST_CLIPS * 32);
        let large = Tensor::zeros((MOST_BYTES / 4, 1), DType::F32, &Device::Cpu).unwrap();
        remembered.put(digest(9999), &large);
        assert_eq!((remembered.clips.len(), remembered.bytes), (1, MOST_BYTES));
    }
}
