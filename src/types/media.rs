//! Clips and images on their way from a file to a model: what was done to them, and what is sent.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Digest, Window, buffer, share};

/// What was done to a clip between its file and the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AudioRecord {
    /// The clip as it was found.
    pub source: AudioSource,
    /// The part that was used.
    pub window: Window,
    /// First sample of the window and its length, in samples at `rate`.
    pub start: u64,
    /// Samples that were used, at `rate`.
    pub samples: u64,
    /// The rate that the model got, in Hz.
    pub rate: u32,
    /// The steps taken, in order, by name: `downmix`, `resample:soxr_hq`, `window:first`…
    pub steps: Vec<String>,
}

/// A clip as it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AudioSource {
    /// `wav`, `flac`, `mp3`…, from the content.
    pub format: String,
    /// Sample rate in Hz. This and what follows is 0 for formats whose headers are not read.
    pub rate: u32,
    /// Channels.
    pub channels: u16,
    /// Bits a sample.
    pub bits: u16,
    /// Frames (samples of one channel) in the whole clip.
    pub frames: u64,
}

/// What was done to an image between its file and the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageRecord {
    /// The image as it was found.
    pub source: ImageSource,
    /// The width in pixels of what was used.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// What was done, in order: `first_frame`, `cmyk:rgb`, `icc:dropped`, `orient:6`, `depth:8`, `alpha:white`,
    /// `resize:bicubic:1288x966`, `encode:jpeg:90`, `grid:1x54x72`. Empty for an image that was used as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

/// An image as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageSource {
    /// `png`, `jpeg`…
    pub format: String,
    /// Width in pixels, as it is stored.
    pub width: u32,
    /// Height in pixels, before any rotation that the file asks for.
    pub height: u32,
}

/// A clip or image of one request as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaRecord {
    /// The name the dataset gives the clip or image.
    pub name: String,
    /// Hash of what was used: of the file for a whole clip, of the window's samples otherwise.
    pub digest: Digest,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// When the file was last changed, in nanoseconds since 1970, where the file system says.
    pub modified: Option<u64>,
    /// What was done to a clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<AudioRecord>,
    /// What was done to an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageRecord>,
    /// The file that went to an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SentFile>,
}

/// A file as an endpoint got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentFile {
    /// `wav`, `mp3`, `jpeg`…
    pub format: String,
    /// Its size in bytes, before base64.
    pub bytes: u64,
}

/// Log-mel features of one clip, as the Whisper feature extractor makes them.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMel {
    /// Mel bands.
    pub bins: usize,
    /// Frames, padding included: 3000 for the 30 s window.
    pub frames: usize,
    /// Frames that hold sound: `ceil(samples / 160)`.
    pub valid_frames: usize,
    /// Values, one row of `frames` for each band.
    pub data: Vec<f32>,
}

/// A clip ready for a model.
#[derive(Clone, Debug)]
pub struct PreparedAudio {
    /// Hash of what was used; equal digests are equal clips.
    pub digest: Digest,
    /// What the model gets of it.
    pub content: AudioContent,
}

impl PreparedAudio {
    /// The features, where the model takes features.
    pub fn features(&self) -> Option<&LogMel> {
        match &self.content {
            AudioContent::Features(features) => Some(features),
            AudioContent::Windows(_) | AudioContent::File(_) => None,
        }
    }

    /// The features of all windows, where the model takes features; those of a model with one window are one.
    pub fn windows(&self) -> Option<&[LogMel]> {
        match &self.content {
            AudioContent::Features(features) => Some(std::slice::from_ref(&**features)),
            AudioContent::Windows(windows) => Some(windows),
            AudioContent::File(_) => None,
        }
    }
}

/// A clip in the form that a model takes, shared by all requests on the clip.
#[derive(Clone, Debug)]
pub enum AudioContent {
    /// Log-mel features, for local models.
    Features(Arc<LogMel>),
    /// Log-mel features of the whole clip in windows of at most 30 s, for local recognisers of speech.
    Windows(Arc<[LogMel]>),
    /// A file, for endpoints.
    File(Arc<AudioFile>),
}

/// A clip as it goes on the wire: a whole file.
#[derive(Clone, Debug)]
pub struct AudioFile {
    /// The file's content.
    pub bytes: Bytes,
    /// The format found in the content: `wav`, `flac`, `mp3`…
    pub format: String,
    /// How long it lasts, in seconds; 0 where its header is not read.
    pub seconds: f64,
    base64: OnceLock<Bytes>,
}

impl AudioFile {
    /// A clip from the content of its file, the format found in it and its length in seconds.
    pub fn new(bytes: Bytes, format: impl Into<String>, seconds: f64) -> Self {
        Self { bytes, format: format.into(), seconds, base64: OnceLock::new() }
    }

    /// The content in base64 (RFC 4648, with padding): made once, shared by all requests that use the clip.
    pub fn base64(&self) -> Bytes {
        self.base64.get_or_init(|| base64(&self.bytes)).clone()
    }
}

/// An image ready for a model.
#[derive(Clone, Debug)]
pub struct PreparedImage {
    /// Hash of what was used; equal digests are equal images.
    pub digest: Digest,
    /// What the model gets of it.
    pub content: ImageContent,
}

impl PreparedImage {
    /// The file, where the model takes files.
    pub fn file(&self) -> Option<&Arc<ImageFile>> {
        match &self.content {
            ImageContent::File(file) => Some(file),
            ImageContent::Pixels(_) => None,
        }
    }

    /// The pixels, where the model takes pixels.
    pub fn pixels(&self) -> Option<&RgbImage> {
        match &self.content {
            ImageContent::File(_) => None,
            ImageContent::Pixels(pixels) => Some(pixels),
        }
    }
}

/// An image in the form that a model takes, shared by all requests on the image.
#[derive(Clone, Debug)]
pub enum ImageContent {
    /// Pixels in the size that the model wants, for local models.
    Pixels(Arc<RgbImage>),
    /// A file, for endpoints.
    File(Arc<ImageFile>),
}

/// Pixels of red, green and blue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RgbImage {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Three values a pixel, row by row.
    pub data: Vec<u8>,
}

/// An image as it goes on the wire: a whole file.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// The file's content.
    pub bytes: Bytes,
    /// The format found in the content: `jpeg`, `png`, `webp`, `gif`…
    pub format: String,
    base64: OnceLock<Bytes>,
}

impl ImageFile {
    /// An image from the content of its file and the format found in it.
    pub fn new(bytes: Bytes, format: impl Into<String>) -> Self {
        Self { bytes, format: format.into(), base64: OnceLock::new() }
    }

    /// The content in base64 (RFC 4648, with padding): made once, shared by all requests that use the image.
    pub fn base64(&self) -> Bytes {
        self.base64.get_or_init(|| base64(&self.bytes)).clone()
    }
}

fn base64(bytes: &[u8]) -> Bytes {
    let mut text = buffer(base64_simd::STANDARD.encoded_length(bytes.len()));
    base64_simd::STANDARD.encode_append(bytes, &mut text);
    share(text)
}
