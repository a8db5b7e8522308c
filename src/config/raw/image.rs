//! The keys of `[model.image]`: what an endpoint gets of an image.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::image::{ImageAlpha, ImageFilter, ImageFormat};

/// What an endpoint gets of an image. By default the file byte for byte; whatever is done to one is recorded with its
/// response.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RawImage {
    /// The longest side in pixels: larger images are made smaller, in the same proportions. No limit by default.
    #[schemars(range(min = 1, max = 65_535), example = 2048)]
    pub max_side: Option<u64>,
    /// The most pixels: larger images are made smaller, in the same proportions. No limit by default.
    #[schemars(range(min = 1, max = 1_000_000_000), example = 1_003_520)]
    pub max_pixels: Option<u64>,
    /// The format that images are sent in. `original` keeps each one's own; one that has to be written anew and is
    /// neither PNG nor JPEG becomes PNG.
    #[schemars(extend("default" = "original"), example = &"jpeg")]
    pub format: Option<ImageFormat>,
    /// The quality of JPEG images that are written, from 1 to 100. One that is sent as it is keeps its own.
    #[schemars(range(min = 1, max = 100), extend("default" = 90), example = 90)]
    pub quality: Option<u64>,
    /// Whether an image that is to be shown turned or mirrored (the EXIF tag of cameras) is written that way. One that
    /// is written anew for another reason always is, since the tag is lost.
    #[schemars(extend("default" = false), example = true)]
    pub orient: Option<bool>,
    /// What becomes of transparency: `keep`, or `white`, which shines through. In JPEG images it is always white.
    #[schemars(extend("default" = "keep"), example = &"white")]
    pub alpha: Option<ImageAlpha>,
    /// Whether animations become their first frame. One that is written anew for another reason always does.
    #[schemars(extend("default" = false), example = true)]
    pub first_frame: Option<bool>,
    /// How sizes are changed, each as in Pillow.
    #[schemars(extend("default" = "bicubic"), example = &"lanczos")]
    pub filter: Option<ImageFilter>,
}
