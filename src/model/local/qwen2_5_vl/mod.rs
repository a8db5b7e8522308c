//! Qwen2.5-VL: vision tower and text model together, from a Hugging Face folder to answers about images.
//!
//! It follows `Qwen2_5_VLForConditionalGeneration` and `Qwen2_5_VLProcessor` of transformers 5.24.0, for still images.
//! Images come as pixels in the size that the model wants (`media/image/fit.rs`); the decoder is that of the text models,
//! with positions in time, height and width.

mod config;
mod layout;
mod patches;
mod vision;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};

pub use config::QWEN2_5_VL;

use super::chat_template::ChatTemplate;
use super::config::all_stop_ids;
use super::decoder::Decoder;
use super::device::DtypeChoice;
use super::engine::{Checked, Engine, Inventory, Reply};
use super::error::LoadError;
use super::generate::{self, Ask, Generated, Placed, Positions, Sequence};
use super::nn::rope::Position;
use super::remembered::Remembered;
use super::sampler::Sampler;
use super::tokenizer::TextTokenizer;
use super::weights::{Checkpoint, Names};
use crate::model::{AudioNeed, ImageNeed, PatchNeed, Prepared};
use crate::types::{Digest, Generation, PreparedImage, Prompt, RgbImage};
use config::{Processor, VlConfig};
use layout::Grid;
use vision::VisionTower;

/// The most patches that go through the tower at once, unless one image alone has more.
const MOST_PATCHES: usize = 16_384;

/// A folder that was checked and whose weights were not read.
pub(super) struct CheckedVl {
    config: VlConfig,
    processor: Processor,
    tokenizer: TextTokenizer,
    placeholder: String,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    checkpoint: Checkpoint,
    inventory: Inventory,
}

impl CheckedVl {
    /// Checks everything of a folder but the values of its weights.
    pub(super) fn read(folder: &Path) -> std::result::Result<Self, LoadError> {
        let config = VlConfig::read(folder)?;
        let processor = Processor::read(folder, &config.vision)?;
        let tokenizer = TextTokenizer::read(folder, config.text.vocabulary)?;
        let placeholder = placeholder(folder, &tokenizer, config.image_token)?;
        let template = ChatTemplate::read(folder, tokenizer.roles.clone())?;
        let stop_ids = all_stop_ids(folder, tokenizer.eos_id)?;
        let checkpoint = Checkpoint::open(folder, Names::Seeing)?;
        let mut shapes = BTreeMap::new();
        VisionTower::shapes(&config.vision, &mut shapes);
        Decoder::shapes(&config.text, &mut shapes);
        let report = checkpoint.compare(&shapes, if config.text.tied { &["lm_head.weight"] } else { &[] });
        if !report.is_empty() {
            return Err(LoadError::Tensors { folder: folder.to_path_buf(), report });
        }
        let sizes = (config.text.vocabulary, config.text.positions);
        let inventory = Inventory::of(&checkpoint, QWEN2_5_VL, None, sizes)?;
        Ok(Self { config, processor, tokenizer, placeholder, template, stop_ids, checkpoint, inventory })
    }

    fn bring(self, dtype: DType, device: &Device) -> std::result::Result<QwenVl, LoadError> {
        let Self { config, processor, tokenizer, placeholder, template, stop_ids, checkpoint, .. } = self;
        let weights = checkpoint.map(dtype, device)?;
        let parts = || -> Result<(VisionTower, Decoder)> {
            let tower = VisionTower::load(&config.vision, &processor, &weights)?;
            Ok((tower, Decoder::load(&config.text, &weights)?))
        };
        let (tower, text) = parts().map_err(|error| checkpoint.failed(&error))?;
        let remembered = Remembered::default();
        Ok(QwenVl { config, tokenizer, placeholder, template, stop_ids, tower, text, remembered })
    }
}

/// The placeholder that stands for a merged patch, as text.
fn placeholder(folder: &Path, tokenizer: &TextTokenizer, id: u32) -> std::result::Result<String, LoadError> {
    let unfit = |problem: String| LoadError::Unfit { folder: folder.to_path_buf(), problem };
    let token = tokenizer.token(id).ok_or_else(|| {
        unfit(format!(
            "config.json says that token {id} stands for images (image_token_id), but tokenizer.json has no such \
             token; the two files are of different models"
        ))
    })?;
    if tokenizer.encode(&token).unwrap_or_default() != [id] {
        return Err(unfit(format!(
            "token {id} (`{token}`) should stand for images (image_token_id in config.json), but tokenizer.json does \
             not treat it as a special token"
        )));
    }
    Ok(token)
}

impl Checked for CheckedVl {
    fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn audio(&self) -> (AudioNeed, f64) {
        (AudioNeed::None, 0.0)
    }

    fn images(&self) -> ImageNeed {
        ImageNeed::Pixels(self.processor.need)
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
pub struct QwenVl {
    config: VlConfig,
    tokenizer: TextTokenizer,
    placeholder: String,
    template: ChatTemplate,
    stop_ids: Vec<u32>,
    tower: VisionTower,
    text: Decoder,
    remembered: Remembered,
}

/// A prompt as the text model gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// Token ids, the placeholder repeated for every token of its image.
    pub ids: Vec<u32>,
    /// The first place and the number of tokens of each image.
    pub places: Vec<(usize, usize)>,
    /// Where each token stands in time, height and width.
    pub positions: Vec<[u32; 3]>,
    /// Where the first token of the response stands, in all three.
    pub next: u32,
}

impl QwenVl {
    /// Loads a folder.
    pub fn load(folder: &Path, dtype: DtypeChoice, device: &Device) -> std::result::Result<Self, LoadError> {
        let checked = CheckedVl::read(folder)?;
        let dtype = dtype.resolve(device, checked.checkpoint.dtype());
        checked.bring(dtype, device)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    /// The size that images have to come in.
    pub fn need(&self) -> PatchNeed {
        self.tower.processor().need
    }

    /// The normalised patches of an image, one after the other: `pixel_values` of the reference.
    pub fn pixel_values(&self, image: &RgbImage) -> std::result::Result<Vec<f32>, String> {
        let (vision, processor) = (self.tower.config(), self.tower.processor());
        let order: Vec<usize> = (0..patches::grid(image, vision)?.tokens()).collect();
        let mut values = Vec::new();
        patches::append(image, vision, processor, &order, &mut values)
            .map_err(|error| super::first_line(&error))?;
        Ok(values)
    }

    /// What the vision tower makes of images, computed together: of each a vector for every token.
    pub fn image_vectors(&self, images: &[&RgbImage]) -> Result<Vec<Vec<Vec<f32>>>> {
        self.tower.encode(images)?.iter().map(|x| x.to_dtype(DType::F32)?.to_vec2()).collect()
    }

    /// The prompt string: a chat goes through the template, a raw prompt is taken as it is.
    pub fn prompt_text(&self, prompt: &Prompt) -> std::result::Result<String, String> {
        match prompt {
            Prompt::Raw { text, .. } => Ok(text.clone()),
            Prompt::Chat(messages) => self.template.render_seen(messages),
        }
    }

    /// Tokenizes a prompt string, repeats each placeholder for its image's tokens and says where all stand.
    pub fn expand(&self, text: &str, images: &[&RgbImage]) -> std::result::Result<Expanded, String> {
        let ids = self.tokenizer.encode(text)?;
        let placeholder = self.config.image_token;
        let placeholders = ids.iter().filter(|&&id| id == placeholder).count();
        if placeholders != images.len() {
            return Err(format!(
                "the prompt has {placeholders} placeholders of images (`{}`) and {} images; each image needs one",
                self.placeholder,
                images.len()
            ));
        }
        let grids = images.iter().map(|image| patches::grid(image, &self.config.vision));
        let grids: Vec<Grid> = grids.collect::<std::result::Result<_, _>>()?;
        let total = ids.len() - grids.len() + grids.iter().map(|grid| grid.tokens()).sum::<usize>();
        let most = self.config.text.positions;
        if total >= most {
            return Err(format!(
                "the prompt has {total} tokens ({} of them images), and the model takes fewer than {most}; shorten the \
                 prompt, or set a smaller `max_pixels` under [model.image]",
                total + grids.len() - ids.len()
            ));
        }
        if ids.is_empty() {
            return Err("the prompt is empty".to_owned());
        }
        let mut expanded = Vec::with_capacity(total);
        let mut places = Vec::with_capacity(grids.len());
        let mut left = grids.iter();
        for id in ids {
            match left.as_slice().first().filter(|_| id == placeholder) {
                None => expanded.push(id),
                Some(grid) => {
                    left.next();
                    places.push((expanded.len(), *grid));
                    expanded.extend(std::iter::repeat_n(id, grid.tokens()));
                }
            }
        }
        let Positions { prompt, next } = layout::positions(expanded.len(), &places);
        let places = places.into_iter().map(|(start, grid)| (start, grid.tokens())).collect();
        Ok(Expanded { ids: expanded, places, positions: prompt, next })
    }

    /// The logits behind each of several prompts, computed together.
    pub fn next_logits(&mut self, prompts: &[(Expanded, Vec<PreparedImage>)]) -> Result<Vec<Vec<f32>>> {
        let generation = Generation::default();
        let sequences = self.place(prompts.iter().map(|(prompt, images)| (prompt, &images[..])))?;
        let mut asks = Vec::with_capacity(prompts.len());
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
            .filter_map(|(request, expanded)| Some((&expanded.as_ref().ok()?.0, &request.images[..])));
        let mut sequences = self.place(good)?.into_iter();
        let asked = requests.iter().zip(&expanded).map(|(request, expanded)| {
            let (_, sampler) = expanded.as_ref().map_err(String::clone)?;
            let sequence = sequences.next().ok_or("a prompt got lost")?;
            Ok((sequence, sampler.clone(), &request.generation))
        });
        let stop_ids = if ignore_stops { &[][..] } else { &self.stop_ids[..] };
        let most = self.config.text.positions;
        let generated = generate::respond(&self.text, &self.tokenizer, stop_ids, most, asked.collect())?;
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
        if !request.audio.is_empty() {
            return Err("the request holds audio, and this model hears none".to_owned());
        }
        let text = self.prompt_text(&request.prompt)?;
        let images: Option<Vec<&RgbImage>> = request.images.iter().map(PreparedImage::pixels).collect();
        let images = images.ok_or("an image came as a file, and the local model takes pixels")?;
        let expanded = self.expand(&text, &images)?;
        let vocabulary = self.config.text.vocabulary;
        let sampler =
            Sampler::new(&request.generation, &expanded.ids, vocabulary, request.seed, request.key)?;
        Ok((expanded, sampler))
    }

    /// Puts the vectors of their images into prompts. Each image is encoded once, however many prompts have it.
    fn place<'a>(
        &mut self,
        prompts: impl Iterator<Item = (&'a Expanded, &'a [PreparedImage])> + Clone,
    ) -> Result<Vec<Sequence>> {
        let mut identities: HashMap<Digest, usize> = HashMap::new();
        let mut images: Vec<&PreparedImage> = Vec::new();
        for image in prompts.clone().flat_map(|(_, images)| images) {
            identities.entry(image.digest).or_insert_with(|| {
                images.push(image);
                images.len() - 1
            });
        }
        let vectors = self.vectors(&images)?;
        prompts
            .map(|(expanded, images)| {
                let placed = expanded.places.iter().zip(images).filter_map(|(&(start, _), image)| {
                    let identity = identities.get(&image.digest).copied()?;
                    Some(Placed { start, vectors: vectors.get(identity)?.clone(), identity })
                });
                let prompt: Vec<Position> = expanded.positions.clone();
                Ok(Sequence {
                    ids: expanded.ids.clone(),
                    clips: placed.collect(),
                    positions: Some(Positions { prompt, next: expanded.next }),
                })
            })
            .collect()
    }

    /// The vectors of images, remembered or computed together.
    fn vectors(&mut self, images: &[&PreparedImage]) -> Result<Vec<Tensor>> {
        let mut found: Vec<Option<Tensor>> =
            images.iter().map(|image| self.remembered.get(image.digest)).collect();
        let missing: Vec<usize> = (0..images.len()).filter(|&index| found[index].is_none()).collect();
        let Some(pixels) = images.iter().map(|image| image.pixels()).collect::<Option<Vec<&RgbImage>>>()
        else {
            candle_core::bail!("an image came as a file, and the local model takes pixels");
        };
        let side = self.config.vision.patch.max(1);
        let patches = |image: &RgbImage| (image.width / side) * (image.height / side);
        let mut start = 0;
        while start < missing.len() {
            let (mut end, mut total) = (start, 0);
            while end < missing.len()
                && (end == start || total + patches(pixels[missing[end]]) <= MOST_PATCHES)
            {
                total += patches(pixels[missing[end]]);
                end += 1;
            }
            let batch: Vec<&RgbImage> = missing[start..end].iter().map(|&index| pixels[index]).collect();
            for (&index, vectors) in missing[start..end].iter().zip(self.tower.encode(&batch)?) {
                self.remembered.put(images[index].digest, &vectors);
                found[index] = Some(vectors);
            }
            start = end;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// How many images were encoded so far.
    pub fn encoded_images(&self) -> u64 {
        self.remembered.computed()
    }
}

impl Engine for QwenVl {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let answers = Self::answer(self, requests, false)?;
        let reply = |(expanded, generated): (Expanded, Generated)| Reply {
            prompt_tokens: expanded.ids.len(),
            audio_tokens: 0,
            completion_tokens: generated.ids.len(),
            generated,
        };
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }
}
