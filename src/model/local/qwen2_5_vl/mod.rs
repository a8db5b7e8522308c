//! Qwen2.5-VL: vision tower and text model together, from a Hugging Face folder to answers about images.
//!
//! It follows `Qwen2_5_VLForConditionalGeneration` and `Qwen2_5_VLProcessor` of transformers 5.24.0, for still images.
//! Images come as pixels in the size that the model wants (`media/image/fit.rs`); the decoder is that of the text models,
//! with positions in time, height and width.

mod config;
mod layout;
mod patches;
mod vision;

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Result, Tensor};

pub use config::QWEN2_5_VL;

use super::chat_template::ChatTemplate;
use super::config::all_stop_ids;
use super::decoder::Decoder;
use super::device::DtypeChoice;
use super::engine::{Checked, Engine, Inventory, Reply};
use super::error::LoadError;
use super::generate::{Generated, Positions, Sequence};
use super::placing::{Placing, TextHalf};
use super::remembered::Remembered;
use super::sampler::Sampler;
use super::tokenizer::TextTokenizer;
use super::weights::{Checkpoint, Names};
use crate::model::{AudioNeed, ImageNeed, PatchNeed, Prepared};
use crate::types::{Digest, PreparedImage, Prompt, RgbImage};
use config::{Processor, VlConfig};
use layout::Grid;
use vision::VisionTower;

/// The most patches that go through the tower at once, unless one image alone has more.
const MOST_PATCHES: usize = 16_384;

const NO_PIXELS: &str = "an image came as a file, and the local model takes pixels";

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

    /// How many images were encoded so far.
    pub fn encoded_images(&self) -> u64 {
        self.remembered.computed()
    }
}

impl Placing for QwenVl {
    type Medium = PreparedImage;
    type Expanded = Expanded;

    fn text_half(&self) -> TextHalf<'_> {
        TextHalf {
            decoder: &self.text,
            tokenizer: &self.tokenizer,
            stop_ids: &self.stop_ids,
            positions: self.config.text.positions,
        }
    }

    fn media(request: &Prepared) -> &[PreparedImage] {
        &request.images
    }

    fn digest(medium: &PreparedImage) -> Digest {
        medium.digest
    }

    fn prepare(&self, request: &Prepared) -> std::result::Result<(Expanded, Sampler), String> {
        if !request.audio.is_empty() {
            return Err("the request holds audio, and this model hears none".to_owned());
        }
        let text = self.prompt_text(&request.prompt)?;
        let images: Option<Vec<&RgbImage>> = request.images.iter().map(PreparedImage::pixels).collect();
        let expanded = self.expand(&text, &images.ok_or(NO_PIXELS)?)?;
        let vocabulary = self.config.text.vocabulary;
        let sampler =
            Sampler::new(&request.generation, &expanded.ids, vocabulary, request.seed, request.key)?;
        Ok((expanded, sampler))
    }

    fn sequence(expanded: &Expanded) -> Sequence {
        let positions = Positions { prompt: expanded.positions.clone(), next: expanded.next };
        Sequence { positions: Some(positions), ..Sequence::of_text(expanded.ids.clone()) }
    }

    fn places(expanded: &Expanded) -> &[(usize, usize)] {
        &expanded.places
    }

    fn vectors(&mut self, media: &[&PreparedImage]) -> Result<Vec<Tensor>> {
        let Self { remembered, tower, config, .. } = self;
        let images: Option<Vec<(Digest, &RgbImage)>> =
            media.iter().map(|image| Some((image.digest, image.pixels()?))).collect();
        let images = images.ok_or_else(|| candle_core::Error::msg(NO_PIXELS))?;
        let side = config.vision.patch.max(1);
        remembered.all(
            &images,
            |image| (image.width / side) * (image.height / side),
            |total, next| total + next <= MOST_PATCHES,
            |batch| tower.encode(batch),
        )
    }
}

impl Engine for QwenVl {
    fn answer(&mut self, requests: &[Prepared]) -> Result<Vec<std::result::Result<Reply, String>>> {
        let answers = Self::answer(self, requests, false)?;
        let reply = |(expanded, generated): (Expanded, Generated)| Reply {
            prompt_tokens: expanded.ids.len(),
            audio_tokens: 0,
            completion_tokens: generated.ids.len(),
            language: None,
            generated,
        };
        Ok(answers.into_iter().map(|answer| answer.map(reply)).collect())
    }
}
