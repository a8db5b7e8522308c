//! The transforms that a config may ask for. Without one an image stays as it is, byte for byte; so does one that is
//! already as it should be.

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder as _};

use super::decode::{Decoded, Opened};
use super::error::ImageError;
use super::resize::{Filter, Pixels};
use super::{header, sniff};
use crate::types::{ImageRecord, ImageSource};

/// The format that images are sent in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// Their own. What has to be written anew and is neither PNG nor JPEG becomes PNG.
    #[default]
    Original,
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
}

/// What may be done to an image. The default is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageTransform {
    /// The longest side in pixels that is left as it is.
    pub max_side: Option<u32>,
    /// The most pixels that are left as they are.
    pub max_pixels: Option<u64>,
    /// The format that images are sent in.
    pub format: ImageFormat,
    /// The quality of JPEG images that are written, 1 to 100.
    pub quality: u8,
    /// Whether images that a tag turns are turned.
    pub orient: bool,
    /// Whether what is transparent becomes white.
    pub flatten: bool,
    /// Whether animations become their first frame.
    pub first_frame: bool,
    /// How sizes are changed.
    pub filter: Filter,
}

impl Default for ImageTransform {
    fn default() -> Self {
        Self {
            max_side: None,
            max_pixels: None,
            format: ImageFormat::Original,
            quality: 90,
            orient: false,
            flatten: false,
            first_frame: false,
            filter: Filter::default(),
        }
    }
}

/// An image that is ready to be sent.
#[derive(Clone, Debug)]
pub struct Made {
    /// The file.
    pub bytes: Bytes,
    /// Its format.
    pub format: &'static str,
    /// What it was and what was done.
    pub record: ImageRecord,
}

impl ImageTransform {
    /// Whether no image is changed. The filter and the quality alone change nothing.
    pub fn is_nothing(&self) -> bool {
        let Self { filter, quality, .. } = *self;
        *self == Self { quality, filter, ..Self::default() }
    }

    /// The image as it is to be sent.
    pub fn carry_out(&self, bytes: &Bytes) -> Result<Made, ImageError> {
        if self.is_nothing() {
            // What cannot even be told its size is no image that a model could see. All else is the receiver's to read:
            // nothing is decoded here.
            let header::ImageFacts { format, width, height } = header::facts_of(bytes)?;
            return Ok(Made { bytes: bytes.clone(), format, record: untouched(format, (width, height)) });
        }
        let opened = Opened::new(bytes)?;
        let (format, size) = (opened.format, opened.size);
        let target = self.target(opened.upright());
        let wanted = self.wanted(format);
        if self.leaves(&opened) {
            let format = sniff::format(bytes).map_err(ImageError::Other)?;
            return Ok(Made { bytes: bytes.clone(), format, record: untouched(format, size) });
        }
        let written = if wanted == "jpeg" { "jpeg" } else { "png" };
        let Decoded { mut pixels, mut steps } = opened.decode(true)?;
        if matches!(pixels.channels(), 2 | 4) && (self.flatten || written == "jpeg") {
            pixels = over_white(pixels);
            steps.push("alpha:white".to_owned());
        }
        let (width, height) = target;
        if (pixels.width(), pixels.height()) != (width as usize, height as usize) {
            pixels = pixels.resized(width as usize, height as usize, self.filter);
            steps.push(format!("resize:{}:{width}x{height}", self.filter.as_str()));
        }
        let file = if written == "jpeg" { jpeg(&pixels, self.quality)? } else { png(&pixels)? };
        steps.push(if written == "jpeg" {
            format!("encode:jpeg:{}", self.quality)
        } else {
            "encode:png".to_owned()
        });
        let source = ImageSource { format: format.to_owned(), width: size.0, height: size.1 };
        let record = ImageRecord { source, width, height, steps };
        Ok(Made { bytes: file.into(), format: written, record })
    }

    /// Format and size of an image; what [`Self::carry_out`] would refuse it with by its header and its structure. Nothing is
    /// decoded.
    pub fn probe(&self, bytes: &[u8]) -> Result<header::ImageFacts, ImageError> {
        if self.is_nothing() {
            return header::facts_of(bytes);
        }
        let opened = Opened::new(bytes)?;
        if self.leaves(&opened) {
            sniff::format(bytes).map_err(ImageError::Other)?;
        } else {
            opened.check_whole()?;
        }
        Ok(opened.facts())
    }

    /// The format that an image of this one is sent in, where it can be written in it.
    fn wanted(&self, format: &'static str) -> &'static str {
        match self.format {
            ImageFormat::Original => format,
            ImageFormat::Png => "png",
            ImageFormat::Jpeg => "jpeg",
        }
    }

    /// Whether an image is as it should be already.
    fn leaves(&self, opened: &Opened<'_>) -> bool {
        self.wanted(opened.format) == opened.format
            && self.target(opened.upright()) == opened.upright()
            && !(self.orient && opened.orientation != 1)
            && !(self.flatten && opened.has_alpha)
            && !(self.first_frame && opened.animated)
    }

    /// The size that an image gets: as it is where it fits, else smaller in the same proportions.
    pub(super) fn target(&self, (width, height): (u32, u32)) -> (u32, u32) {
        let (mut wide, mut high) = (u64::from(width), u64::from(height));
        if let Some(most) = self.max_side.map(u64::from).filter(|most| *most > 0 && *most < wide.max(high)) {
            let longest = wide.max(high);
            let scaled = |side: u64| ((side * most * 2 + longest) / (2 * longest)).max(1);
            (wide, high) = (scaled(wide), scaled(high));
        }
        if let Some(most) = self.max_pixels.filter(|most| *most > 0 && *most < wide * high) {
            let scale = (most as f64 / (f64::from(width) * f64::from(height))).sqrt();
            let scaled = |side: u32| ((f64::from(side) * scale) as u64).max(1);
            // Of an image of one pixel in one direction nothing can be taken there.
            (wide, high) = (scaled(width).min(most), scaled(height).min(most));
        }
        (wide as u32, high as u32)
    }
}

fn untouched(format: &str, (width, height): (u32, u32)) -> ImageRecord {
    let source = ImageSource { format: format.to_owned(), width, height };
    ImageRecord { source, width, height, steps: Vec::new() }
}

/// The image over a white ground, without alpha.
pub(super) fn over_white(pixels: Pixels) -> Pixels {
    let (width, height, channels) = (pixels.width(), pixels.height(), pixels.channels());
    let mut data = Vec::with_capacity(pixels.data().len() / channels * (channels - 1));
    for pixel in pixels.data().chunks_exact(channels) {
        let Some((alpha, colours)) = pixel.split_last() else { continue };
        let alpha = u32::from(*alpha);
        data.extend(
            colours
                .iter()
                .map(|colour| ((u32::from(*colour) * alpha + 255 * (255 - alpha) + 127) / 255) as u8),
        );
    }
    Pixels::new(width, height, channels - 1, data).unwrap_or(pixels)
}

fn colour(pixels: &Pixels) -> ExtendedColorType {
    match pixels.channels() {
        1 => ExtendedColorType::L8,
        2 => ExtendedColorType::La8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    }
}

fn png(pixels: &Pixels) -> Result<Vec<u8>, ImageError> {
    let mut out = Vec::new();
    PngEncoder::new(&mut out)
        .write_image(pixels.data(), pixels.width() as u32, pixels.height() as u32, colour(pixels))
        .map_err(|e| ImageError::Encode { format: "PNG", reason: e.to_string() })?;
    Ok(out)
}

fn jpeg(pixels: &Pixels, quality: u8) -> Result<Vec<u8>, ImageError> {
    let mut out = Vec::new();
    JpegEncoder::new_with_quality(&mut out, quality.clamp(1, 100))
        .write_image(pixels.data(), pixels.width() as u32, pixels.height() as u32, colour(pixels))
        .map_err(|e| ImageError::Encode { format: "JPEG", reason: e.to_string() })?;
    Ok(out)
}
