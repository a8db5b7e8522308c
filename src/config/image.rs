//! What the keys of `[model.image]` mean.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The format that images are sent in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// Their own. What has to be written anew and is neither PNG nor JPEG becomes PNG.
    #[default]
    Original,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
}

/// What becomes of transparency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageAlpha {
    /// It stays.
    #[default]
    Keep,
    /// White shines through.
    White,
}

/// How the size of an image is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImageFilter {
    /// A triangle.
    Bilinear,
    /// A cubic of four pixels.
    #[default]
    Bicubic,
    /// A sinc of six pixels.
    Lanczos,
}

/// The quality of JPEG images that are written, when the configuration doesn't say it.
pub(super) const DEFAULT_QUALITY: u8 = 90;

/// `[model.image]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The longest side in pixels.
    pub max_side: Option<u32>,
    /// The most pixels.
    pub max_pixels: Option<u64>,
    /// The format that images are sent in.
    pub format: ImageFormat,
    /// The quality of JPEG images that are written.
    pub quality: u8,
    /// Whether images that a tag turns are turned.
    pub orient: bool,
    /// What becomes of transparency.
    pub alpha: ImageAlpha,
    /// Whether animations become their first frame.
    pub first_frame: bool,
    /// How sizes are changed.
    pub filter: ImageFilter,
}

impl Default for ImageConfig {
    fn default() -> Self {
        Self {
            max_side: None,
            max_pixels: None,
            format: ImageFormat::default(),
            quality: DEFAULT_QUALITY,
            orient: false,
            alpha: ImageAlpha::default(),
            first_frame: false,
            filter: ImageFilter::default(),
        }
    }
}

impl ImageFilter {
    /// The name that is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bilinear => "bilinear",
            Self::Bicubic => "bicubic",
            Self::Lanczos => "lanczos",
        }
    }
}

impl ImageConfig {
    /// What it may change of images, in words; nothing where they go as they are.
    pub fn words(&self) -> Option<String> {
        let filter = self.filter.as_str();
        let words = [
            self.max_side.map(|side| format!("at most {side} pixels a side ({filter})")),
            self.max_pixels.map(|pixels| format!("at most {pixels} pixels ({filter})")),
            match self.format {
                ImageFormat::Original => None,
                ImageFormat::Png => Some("as PNG".to_owned()),
                ImageFormat::Jpeg => Some(format!("as JPEG of quality {}", self.quality)),
            },
            self.orient.then(|| "turned upright".to_owned()),
            (self.alpha == ImageAlpha::White).then(|| "white behind what is transparent".to_owned()),
            self.first_frame.then(|| "animations as their first frame".to_owned()),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
