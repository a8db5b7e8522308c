//! From a file to pixels, within limits that are checked by the header before anything is decoded.

use std::io::Cursor;
use std::sync::{Condvar, Mutex, PoisonError};

use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ExtendedColorType, ImageDecoder, ImageReader, Limits};

use super::error::ImageError;
use super::frames;
use super::header::ImageFacts;
use super::resize::Pixels;
use super::sniff;

/// The most pixels that are decoded. What other programs warn of as a decompression bomb.
pub(super) const MOST_PIXELS: u64 = 89_478_485;

/// The most bytes that a decoder may take, the decoded image with it: twelve for a pixel.
const MOST_BYTES: u64 = 1 << 30;

/// The most bytes that colour profiles and texts beside the pixels of a PNG may take.
const MOST_BESIDE: u64 = 64 << 20;

/// Room for what is decoded at one time in the whole process: as much as the largest image alone may take. Images that are
/// to be made smaller are a small part of their pixels on disk, so the files' sizes would not bound it.
static ROOM: Room = Room { taken: Mutex::new(0), freed: Condvar::new() };

struct Room {
    taken: Mutex<u64>,
    freed: Condvar,
}

/// A share of the room, until it is dropped.
struct Share(u64);

impl Room {
    /// Waits until so many bytes are free. More than there are have the room for themselves.
    fn take(&self, bytes: u64) -> Share {
        let bytes = bytes.min(MOST_BYTES);
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |taken: &mut u64| *taken + bytes > MOST_BYTES;
        let mut taken = self.freed.wait_while(taken, full).unwrap_or_else(PoisonError::into_inner);
        *taken += bytes;
        Share(bytes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *ROOM.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        ROOM.freed.notify_all();
    }
}

/// An image whose header was read.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that an image has or has not")]
pub(super) struct Opened<'a> {
    /// By its content.
    pub(super) format: &'static str,
    /// Width and height as they are stored.
    pub(super) size: (u32, u32),
    /// The EXIF orientation: 1 is upright.
    pub(super) orientation: u8,
    /// Whether pixels may be transparent.
    pub(super) has_alpha: bool,
    /// Whether there is more than one frame.
    pub(super) animated: bool,
    /// Whether it comes with a colour profile.
    has_profile: bool,
    /// Whether colours are those of print.
    cmyk: bool,
    bytes: &'a [u8],
    decoder: Box<dyn ImageDecoder + 'a>,
}

/// Pixels, and what was done to get them.
pub(super) struct Decoded {
    pub(super) pixels: Pixels,
    pub(super) steps: Vec<String>,
}

fn reason(error: &image::ImageError) -> String {
    let text = error.to_string().replace(['\n', '\r'], " ");
    // The crate's own prefix names the format a second time.
    chunks_by_name(text.split_once(": ").map_or(text.as_str(), |(_, rest)| rest.trim()))
}

/// What the PNG decoder says, with the names of chunks alone: it prints all that it knows of them, as a debugger does.
fn chunks_by_name(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, chunk)) = rest.split_once("ChunkType { type: ") {
        let Some((fields, behind)) = chunk.split_once(" }") else { break };
        plain.push_str(before);
        plain.push_str(fields.split(',').next().unwrap_or_default());
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

impl<'a> Opened<'a> {
    /// Reads the header. Refuses images without pixels, with too many of them, and of formats that are not read.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let format = sniff::kind(bytes).map_err(ImageError::Other)?;
        let wrong = |error: image::ImageError| ImageError::Decode { format, reason: reason(&error) };
        let known = match format {
            "png" => image::ImageFormat::Png,
            "jpeg" => image::ImageFormat::Jpeg,
            "webp" => image::ImageFormat::WebP,
            "gif" => image::ImageFormat::Gif,
            "bmp" => image::ImageFormat::Bmp,
            _ => image::ImageFormat::Tiff,
        };
        // The sizes of these stand at fixed places: decoders refuse zero with less clear words.
        if let Some((width, height)) = super::header::declared(bytes, format)
            && (width == 0 || height == 0)
        {
            return Err(ImageError::Zero { width, height });
        }
        let mut limits = Limits::default();
        // What a PNG holds beside its pixels is unpacked while the header is read; the pixels are bounded below.
        limits.max_alloc = Some(if format == "png" { MOST_BESIDE } else { MOST_BYTES });
        let mut reader = ImageReader::with_format(Cursor::new(bytes), known);
        reader.limits(limits);
        let mut decoder =
            reader.into_decoder().map_err(|error| match super::header::declared(bytes, format) {
                Some((width, height)) if too_large(width, height) => Self::bomb(width, height, bytes),
                _ => wrong(error),
            })?;
        let size @ (width, height) = decoder.dimensions();
        if width == 0 || height == 0 {
            return Err(ImageError::Zero { width, height });
        }
        if too_large(width, height) || decoder.total_bytes() > MOST_BYTES {
            return Err(Self::bomb(width, height, bytes));
        }
        let orientation = decoder.orientation().map_or(1, Orientation::to_exif);
        let has_profile = if format == "png" {
            frames::has_profile(bytes)
        } else {
            // One that cannot be read is dropped all the same.
            decoder.icc_profile().map_or(true, |profile| profile.is_some_and(|p| !p.is_empty()))
        };
        let original = decoder.original_color_type();
        let cmyk = matches!(original, ExtendedColorType::Cmyk8 | ExtendedColorType::Cmyk16)
            || (format == "jpeg" && super::header::jpeg_components(bytes) == Some(4));
        Ok(Self {
            format,
            size,
            orientation,
            has_alpha: decoder.color_type().has_alpha(),
            animated: frames::is_animated(bytes, format),
            has_profile,
            cmyk,
            bytes,
            decoder: Box::new(decoder),
        })
    }

    fn bomb(width: u32, height: u32, bytes: &[u8]) -> ImageError {
        ImageError::TooLarge { width, height, bytes: bytes.len(), most: MOST_PIXELS }
    }

    /// Width and height as they are meant to be seen.
    pub(super) fn upright(&self) -> (u32, u32) {
        let (width, height) = self.size;
        if self.orientation >= 5 { (height, width) } else { (width, height) }
    }

    /// Format and size, as the header says them.
    pub(super) fn facts(&self) -> ImageFacts {
        let (width, height) = self.size;
        ImageFacts { format: self.format, width, height }
    }

    /// Refuses a JPEG image whose end is missing, which decoders would fill up with grey.
    fn check_end(&self) -> Result<(), ImageError> {
        let format = self.format;
        if format == "jpeg" && !frames::jpeg_is_whole(self.bytes) {
            return Err(ImageError::Cut { format });
        }
        Ok(())
    }

    /// Refuses an image that [`Self::decode`] would find to be cut short, as far as the structure of the file shows it. Only
    /// JPEG and PNG do so surely: of the others decoders take some that are cut.
    pub(super) fn check_whole(&self) -> Result<(), ImageError> {
        self.check_end()?;
        let format = self.format;
        if format == "png" && !frames::png_is_whole(self.bytes) {
            return Err(ImageError::Cut { format });
        }
        Ok(())
    }

    /// The pixels of the first frame, upright where that is asked for, with 8 bits a channel: grey, grey and alpha, RGB or
    /// RGBA.
    pub(super) fn decode(self, upright: bool) -> Result<Decoded, ImageError> {
        let format = self.format;
        self.check_end()?;
        let mut steps = Vec::new();
        if self.animated {
            steps.push("first_frame".to_owned());
        }
        let depth = self.decoder.color_type();
        // The decoded image, and its copy with 8 bits a channel.
        let _share = ROOM.take(self.decoder.total_bytes().saturating_mul(2));
        let mut image = DynamicImage::from_decoder(self.decoder).map_err(|error| match &error {
            image::ImageError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                ImageError::Cut { format }
            }
            _ => ImageError::Decode { format, reason: reason(&error) },
        })?;
        if self.cmyk {
            steps.push("cmyk:rgb".to_owned());
        }
        if self.has_profile {
            steps.push("icc:dropped".to_owned());
        }
        let turned = upright && self.orientation != 1;
        if let Some(turn) = Orientation::from_exif(self.orientation).filter(|_| turned) {
            image.apply_orientation(turn);
            steps.push(format!("orient:{}", self.orientation));
        }
        if !matches!(depth, ColorType::L8 | ColorType::La8 | ColorType::Rgb8 | ColorType::Rgba8) {
            steps.push("depth:8".to_owned());
        }
        let (width, height) = (image.width() as usize, image.height() as usize);
        let (channels, data) = match image {
            DynamicImage::ImageLuma8(image) => (1, image.into_raw()),
            DynamicImage::ImageLumaA8(image) => (2, image.into_raw()),
            DynamicImage::ImageRgb8(image) => (3, image.into_raw()),
            DynamicImage::ImageRgba8(image) => (4, image.into_raw()),
            // Pillow takes the high byte of colours, and of grey with alpha. Grey alone it leaves at 16 bits, and cuts at 255
            // when it makes RGB of it, so that nearly all becomes white: here it is the nearest of 256 levels.
            DynamicImage::ImageLuma16(_) => (1, image.into_luma8().into_raw()),
            DynamicImage::ImageLumaA16(image) => (2, high_bytes(image.into_raw())),
            DynamicImage::ImageRgb16(image) => (3, high_bytes(image.into_raw())),
            DynamicImage::ImageRgba16(image) => (4, high_bytes(image.into_raw())),
            _ if image.color().has_alpha() => (4, image.into_rgba8().into_raw()),
            _ => (3, image.into_rgb8().into_raw()),
        };
        let pixels = Pixels::new(width, height, channels, data).ok_or_else(|| ImageError::Decode {
            format,
            reason: "the decoder gave another number of values than the size says".to_owned(),
        })?;
        Ok(Decoded { pixels, steps })
    }
}

/// The pixels of an image: the first frame, upright, 8 bits a channel; and what was done.
pub fn decode(bytes: &[u8]) -> Result<(Pixels, Vec<String>), ImageError> {
    let Decoded { pixels, steps } = Opened::new(bytes)?.decode(true)?;
    Ok((pixels, steps))
}

fn high_bytes(values: Vec<u16>) -> Vec<u8> {
    values.into_iter().map(|value| (value >> 8) as u8).collect()
}

fn too_large(width: u32, height: u32) -> bool {
    u64::from(width) * u64::from(height) > MOST_PIXELS
}
