//! `config.json` and the image processor's settings of a Qwen2.5-VL checkpoint.
//!
//! Two forms of `config.json` are published: that of 2025 with the text model's keys beside `vision_config`, and that of
//! later versions with both under `text_config` and `vision_config`. What is left out equals the defaults of the
//! reference implementation's classes (transformers 5.24.0); what would change the arithmetic in a way that is not built
//! in is refused.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::model::PatchNeed;
use crate::model::local::config::{missing, read_json};
use crate::model::local::decoder::DecoderConfig;
use crate::model::local::error::LoadError;
use crate::model::local::text;

/// The architecture, as `model_type` names it.
pub const QWEN2_5_VL: &str = "qwen2_5_vl";

/// `config.json`, resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VlConfig {
    /// The vision tower.
    pub(super) vision: VisionConfig,
    /// The text model.
    pub(super) text: DecoderConfig,
    /// The id of the placeholder that stands for a merged patch.
    pub(super) image_token: u32,
}

/// The vision tower.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VisionConfig {
    /// Blocks.
    pub(super) depth: usize,
    /// Width.
    pub(super) hidden: usize,
    /// Width of the feed-forward part.
    pub(super) ffn: usize,
    /// Attention heads.
    pub(super) heads: usize,
    /// The side of a patch in pixels.
    pub(super) patch: usize,
    /// Frames that a patch takes; a still image fills all of them.
    pub(super) frames: usize,
    /// Patches a side that become one token.
    pub(super) merge: usize,
    /// The side of an attention window, in tokens.
    pub(super) window: usize,
    /// Width of the tokens: that of the text model.
    pub(super) out: usize,
    /// The blocks in which all patches of an image see each other.
    pub(super) full: Vec<usize>,
}

impl VisionConfig {
    /// Values of a patch.
    pub(super) fn patch_values(&self) -> usize {
        CHANNELS * self.frames * self.patch * self.patch
    }
}

/// Red, green and blue.
pub(super) const CHANNELS: usize = 3;

#[derive(Deserialize)]
#[serde(default)]
struct RawVision {
    depth: usize,
    hidden_size: usize,
    hidden_act: String,
    intermediate_size: usize,
    num_heads: usize,
    // Older and newer name; checkpoints that were saved anew have both.
    in_chans: Option<usize>,
    in_channels: Option<usize>,
    patch_size: usize,
    spatial_merge_size: usize,
    temporal_patch_size: usize,
    window_size: usize,
    out_hidden_size: usize,
    fullatt_block_indexes: Vec<usize>,
    rope_parameters: Option<RawRope>,
}

#[derive(Deserialize)]
struct RawRope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
}

impl Default for RawVision {
    fn default() -> Self {
        Self {
            depth: 32,
            hidden_size: 3584,
            hidden_act: "silu".to_owned(),
            intermediate_size: 3420,
            num_heads: 16,
            in_chans: None,
            in_channels: None,
            patch_size: 14,
            spatial_merge_size: 2,
            temporal_patch_size: 2,
            window_size: 112,
            out_hidden_size: 3584,
            fullatt_block_indexes: vec![7, 15, 23, 31],
            rope_parameters: None,
        }
    }
}

/// Base of the vision tower's rotary positions.
pub(super) const VISION_THETA: f64 = 10_000.0;

impl RawVision {
    fn resolve(self) -> Result<VisionConfig, String> {
        let counts = [
            ("depth", self.depth, 4096),
            ("hidden_size", self.hidden_size, 1 << 20),
            ("intermediate_size", self.intermediate_size, 1 << 22),
            ("num_heads", self.num_heads, 4096),
            ("patch_size", self.patch_size, 1024),
            ("spatial_merge_size", self.spatial_merge_size, 64),
            ("temporal_patch_size", self.temporal_patch_size, 64),
            ("window_size", self.window_size, 1 << 16),
            ("out_hidden_size", self.out_hidden_size, 1 << 20),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(format!("vision_config.{name} is {value}; expected 1 to {most}"));
            }
        }
        for channels in [self.in_chans, self.in_channels].into_iter().flatten() {
            if channels != CHANNELS {
                return Err(format!("vision_config has {channels} channels; only {CHANNELS} are built in"));
            }
        }
        if self.hidden_act != "silu" {
            return Err(format!(
                "vision_config.hidden_act is `{}`; only `silu` is built in",
                self.hidden_act
            ));
        }
        if !self.hidden_size.is_multiple_of(self.num_heads)
            || !(self.hidden_size / self.num_heads).is_multiple_of(4)
        {
            return Err(format!(
                "vision_config.hidden_size {} is no multiple of four times num_heads {}",
                self.hidden_size, self.num_heads
            ));
        }
        let window = self.window_size / self.spatial_merge_size / self.patch_size;
        if window == 0 {
            return Err(format!(
                "vision_config.window_size {} is smaller than a token of {} x {} pixels",
                self.window_size,
                self.patch_size * self.spatial_merge_size,
                self.patch_size * self.spatial_merge_size
            ));
        }
        if let Some(rope) = &self.rope_parameters
            && (rope.rope_theta.is_some_and(|theta| theta != VISION_THETA)
                || rope.rope_type.as_ref().is_some_and(|kind| kind != "axial" && kind != "default"))
        {
            return Err(
                "vision_config.rope_parameters are not those of Qwen2.5-VL (axial, theta 10000)".to_owned()
            );
        }
        Ok(VisionConfig {
            depth: self.depth,
            hidden: self.hidden_size,
            ffn: self.intermediate_size,
            heads: self.num_heads,
            patch: self.patch_size,
            frames: self.temporal_patch_size,
            merge: self.spatial_merge_size,
            window,
            out: self.out_hidden_size,
            full: self.fullatt_block_indexes,
        })
    }
}

impl VlConfig {
    /// Reads and checks `config.json`.
    pub(super) fn read(folder: &Path) -> Result<Self, LoadError> {
        let value: Value = read_json(folder, "config.json")?;
        Self::resolve(&value)
            .map_err(|problem| LoadError::Malformed { path: folder.join("config.json"), problem })
    }

    fn resolve(value: &Value) -> Result<Self, String> {
        let vision = match value.get("vision_config") {
            None | Some(Value::Null) => RawVision::default(),
            Some(vision) => {
                RawVision::deserialize(vision).map_err(|error| format!("vision_config: {error}"))?
            }
        };
        let vision = vision.resolve()?;
        let text = text::seeing_decoder(value)?;
        if vision.out != text.hidden {
            return Err(format!(
                "vision_config.out_hidden_size is {}, and the text model's hidden_size is {}",
                vision.out, text.hidden
            ));
        }
        let image_token = match value.get("image_token_id") {
            None | Some(Value::Null) => 151_655,
            Some(id) => id
                .as_u64()
                .and_then(|id| u32::try_from(id).ok())
                .ok_or_else(|| format!("image_token_id is {id}; expected a token id"))?,
        };
        if image_token as usize >= text.vocabulary {
            return Err(format!(
                "image_token_id {image_token} lies outside the vocabulary of {}",
                text.vocabulary
            ));
        }
        Ok(Self { vision, text, image_token })
    }
}

/// What becomes of the pixels of an image.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Processor {
    /// The size that images get.
    pub(super) need: PatchNeed,
    /// For each channel the values that 0 to 255 become.
    pub(super) tables: [Vec<f32>; CHANNELS],
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawProcessor {
    min_pixels: Option<u64>,
    max_pixels: Option<u64>,
    size: Option<RawSize>,
    patch_size: Option<usize>,
    temporal_patch_size: Option<usize>,
    merge_size: Option<usize>,
    image_mean: Option<[f32; CHANNELS]>,
    image_std: Option<[f32; CHANNELS]>,
    rescale_factor: Option<f64>,
    resample: Option<i64>,
    do_resize: Option<bool>,
    do_rescale: Option<bool>,
    do_normalize: Option<bool>,
}

/// Older names beside newer ones.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSize {
    shortest_edge: Option<u64>,
    longest_edge: Option<u64>,
    min_pixels: Option<u64>,
    max_pixels: Option<u64>,
}

impl Processor {
    /// Reads `preprocessor_config.json`, or what `processor_config.json` of newer checkpoints says of images, and checks
    /// it against the vision tower.
    pub(super) fn read(folder: &Path, vision: &VisionConfig) -> Result<Self, LoadError> {
        let (old, new) = ("preprocessor_config.json", "processor_config.json");
        let (name, value) = if folder.join(old).exists() {
            (old, read_json::<Value>(folder, old)?)
        } else if folder.join(new).exists() {
            let value: Value = read_json(folder, new)?;
            (new, value.get("image_processor").cloned().unwrap_or(value))
        } else {
            return Err(missing(folder, old));
        };
        let problem = |problem: String| LoadError::Malformed { path: folder.join(name), problem };
        let raw: RawProcessor = serde_json::from_value(value).map_err(|error| problem(error.to_string()))?;
        raw.resolve(vision).map_err(problem)
    }
}

impl RawProcessor {
    fn resolve(self, vision: &VisionConfig) -> Result<Processor, String> {
        for (name, found, built) in [
            ("patch_size", self.patch_size, vision.patch),
            ("temporal_patch_size", self.temporal_patch_size, vision.frames),
            ("merge_size", self.merge_size, vision.merge),
        ] {
            if let Some(found) = found.filter(|found| *found != built) {
                return Err(format!("{name} is {found}, and config.json makes the vision tower for {built}"));
            }
        }
        for (name, done) in [
            ("do_resize", self.do_resize),
            ("do_rescale", self.do_rescale),
            ("do_normalize", self.do_normalize),
        ] {
            if done == Some(false) {
                return Err(format!("{name} is false; images that are not made ready are not built in"));
            }
        }
        if let Some(other) = self.resample.filter(|resample| *resample != 3) {
            return Err(format!("resample is {other}; only 3 (bicubic) is built in"));
        }
        let size = self.size.unwrap_or_default();
        let least = self.min_pixels.or(size.shortest_edge).or(size.min_pixels).unwrap_or(56 * 56);
        let most = self.max_pixels.or(size.longest_edge).or(size.max_pixels).unwrap_or(28 * 28 * 1280);
        if least == 0 || most < least || most > 1 << 40 {
            return Err(format!("images of {least} to {most} pixels make no sense"));
        }
        let mean = self.image_mean.unwrap_or([0.481_454_66, 0.457_827_5, 0.408_210_73]);
        let deviation = self.image_std.unwrap_or([0.268_629_55, 0.261_302_6, 0.275_777_1]);
        if !deviation.iter().all(|x| x.is_finite() && *x > 0.0) || !mean.iter().all(|x| x.is_finite()) {
            return Err("image_mean and image_std must be numbers, those of image_std above 0".to_owned());
        }
        let scale = self.rescale_factor.unwrap_or(1.0 / 255.0);
        // In the precision of the reference: scaled in f64, normed in f32.
        let table = |(mean, deviation): (f32, f32)| -> Vec<f32> {
            (0..=255_u8).map(|value| ((f64::from(value) * scale) as f32 - mean) / deviation).collect()
        };
        let [red, green, blue] = mean;
        let [red_by, green_by, blue_by] = deviation;
        Ok(Processor {
            need: PatchNeed {
                patch: vision.patch as u32,
                merge: vision.merge as u32,
                min_pixels: least,
                max_pixels: most,
            },
            tables: [(red, red_by), (green, green_by), (blue, blue_by)].map(table),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The text keys of Qwen2.5-VL-7B-Instruct as published.
    fn published() -> Value {
        json!({"hidden_act": "silu", "hidden_size": 3584, "image_token_id": 151_655, "intermediate_size": 18_944,
            "max_position_embeddings": 128_000, "max_window_layers": 28, "model_type": "qwen2_5_vl",
            "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000.0, "sliding_window": 32_768, "tie_word_embeddings": false,
            "use_sliding_window": false, "vocab_size": 152_064,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
            "vision_config": {"depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420,
                "num_heads": 16, "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
                "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
                "tokens_per_second": 2, "temporal_patch_size": 2}})
    }

    #[test]
    fn both_published_forms_are_the_same() {
        let flat = VlConfig::resolve(&published()).unwrap();
        assert_eq!((flat.text.hidden, flat.text.layers.len(), flat.text.kv_heads), (3584, 28, 4));
        assert_eq!((flat.text.prefix, flat.text.biases.qkv, flat.text.tied), ("", true, false));
        assert_eq!((flat.vision.hidden, flat.vision.window, flat.vision.patch_values()), (1280, 4, 1176));
        assert_eq!(flat.text.axes.len(), 64);
        assert_eq!((flat.text.axes[15], flat.text.axes[16], flat.text.axes[40]), (0, 1, 2));
        let mut text = published();
        let object = text.as_object_mut().unwrap();
        let vision = object.remove("vision_config").unwrap();
        object.remove("rope_scaling");
        object.remove("rope_theta");
        object.insert(
            "rope_parameters".to_owned(),
            json!({"mrope_section": [16, 24, 24], "rope_theta": 1e6, "rope_type": "default"}),
        );
        object.insert("model_type".to_owned(), json!("qwen2_5_vl_text"));
        let nested = json!({"model_type": "qwen2_5_vl", "image_token_id": 151_655, "text_config": text,
            "vision_config": vision});
        assert_eq!(VlConfig::resolve(&nested).unwrap(), flat);
        let mut tied = published();
        tied["tie_word_embeddings"] = json!(true);
        assert!(VlConfig::resolve(&tied).unwrap().text.tied);
        // Sections and base have defaults.
        for key in ["rope_scaling", "rope_theta"] {
            tied.as_object_mut().unwrap().remove(key);
        }
        tied["tie_word_embeddings"] = json!(false);
        assert_eq!(VlConfig::resolve(&tied).unwrap().text, flat.text);
    }

    #[test]
    fn what_is_not_built_in_is_refused_with_a_sentence() {
        let wrong = |change: &dyn Fn(&mut Value)| {
            let mut value = published();
            change(&mut value);
            VlConfig::resolve(&value).unwrap_err()
        };
        for (error, part) in [
            (wrong(&|c| c["vision_config"]["in_chans"] = json!(4)), "4 channels"),
            (wrong(&|c| c["vision_config"]["hidden_act"] = json!("gelu")), "`gelu`"),
            (wrong(&|c| c["vision_config"]["num_heads"] = json!(7)), "num_heads 7"),
            (wrong(&|c| c["vision_config"]["num_heads"] = json!(0)), "num_heads is 0"),
            (wrong(&|c| c["vision_config"]["window_size"] = json!(20)), "smaller than a token"),
            (wrong(&|c| c["vision_config"]["patch_size"] = json!([14, 14])), "vision_config: invalid type"),
            (wrong(&|c| c["vision_config"]["out_hidden_size"] = json!(64)), "out_hidden_size is 64"),
            (wrong(&|c| c["rope_scaling"]["mrope_section"] = json!([16, 24])), "add up to 40"),
            (wrong(&|c| c["rope_scaling"]["mrope_section"] = json!("x")), "mrope_section"),
            (wrong(&|c| c["rope_scaling"]["type"] = json!("yarn")), "`yarn`"),
            (wrong(&|c| c["hidden_act"] = json!("gelu")), "`gelu`"),
            (wrong(&|c| c["image_token_id"] = json!(200_000)), "outside the vocabulary"),
            (wrong(&|c| c["image_token_id"] = json!("x")), "a token id"),
        ] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn image_settings_are_read_in_all_forms() {
        let vision = VlConfig::resolve(&published()).unwrap().vision;
        let read = |value: Value| {
            serde_json::from_value::<RawProcessor>(value).map_err(|e| e.to_string())?.resolve(&vision)
        };
        let limits = |value: Value| {
            let need = read(value).unwrap().need;
            (need.min_pixels, need.max_pixels)
        };
        assert_eq!(limits(json!({"min_pixels": 3136, "max_pixels": 12_845_056})), (3136, 12_845_056));
        assert_eq!(limits(json!({"size": {"shortest_edge": 50, "longest_edge": 70}})), (50, 70));
        assert_eq!(limits(json!({"size": {"min_pixels": 50, "max_pixels": 70}})), (50, 70));
        assert_eq!(limits(json!({"size": {"shortest_edge": 50}, "max_pixels": 90})), (50, 90));
        assert_eq!(limits(json!({})), (3136, 1_003_520));
        let tables = read(json!({})).unwrap().tables;
        assert!((tables[0][0] + 1.792_262).abs() < 1e-5 && (tables[2][255] - 2.145_897).abs() < 1e-5);
        for (value, part) in [
            (json!({"patch_size": 16}), "patch_size is 16"),
            (json!({"merge_size": 1}), "merge_size is 1"),
            (json!({"do_normalize": false}), "do_normalize"),
            (json!({"resample": 2}), "resample is 2"),
            (json!({"image_std": [0.2, 0.0, 0.2]}), "image_std"),
            (json!({"image_mean": [0.2]}), "length 1"),
            (json!({"min_pixels": 9, "max_pixels": 4}), "9 to 4 pixels"),
        ] {
            let error = read(value).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
