//! Media ready for a model: read, decoded, cut and turned into features or left as they are, once for all
//! requests on a clip.

use std::sync::Arc;

use bytes::Bytes;

use super::audio::mel::{MelError, MelExtractor};
use super::audio::windows::cut;
use super::audio::{AudioError, DecodeSpec};
use super::content::Content;
use super::image::{self, ImageError, ImageFacts, ImageTransform, fit, probe_fit};
use super::shelf::Shelf;
use super::source::{FileFacts, MediaContent, MediaSource};
use super::{sentence, wav};
use crate::model::{AudioNeed, ImageNeed, MediaLimits};
use crate::types::{
    AudioContent, AudioFile, AudioRecord, AudioRef, AudioSource, Digest, ImageContent, ImageFile,
    ImageRecord, PreparedAudio, PreparedImage, RgbImage, SentFile, Window,
};

/// The rate of log-mel features, in Hz.
const RATE: u32 = 16_000;

/// The largest image that is read, in bytes. Endpoints take less, and say so by their own limits.
const MOST_IMAGE_BYTES: u64 = 256 << 20;

/// Media that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MediaError {
    /// The model takes no audio.
    #[error("the request holds audio, and the model hears none")]
    NotHeard,
    /// The model takes no images.
    #[error("the request holds an image, and the model sees none")]
    NotSeen,
    /// The file is bad, or more than the model takes.
    #[error("{source_name}: {reason}")]
    File {
        /// The file, and where in it.
        source_name: String,
        /// What is wrong.
        reason: String,
    },
}

/// What may be done to a clip that an endpoint does not take as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transcode {
    /// Nothing.
    #[default]
    Never,
    /// It may become a WAV file of 16-bit mono PCM.
    Wav {
        /// Its rate in Hz; the clip's own where there is none.
        rate: Option<u32>,
    },
}

/// The fewest samples that give a local encoder something to say: shorter clips are pooled to nothing.
const MIN_SAMPLES: usize = 321;

/// A clip that is ready, and what was done to it.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What the model gets.
    pub audio: PreparedAudio,
    /// What was done.
    pub record: AudioRecord,
    /// The file that it came from.
    pub file: FileFacts,
}

impl Ready {
    /// The file that goes to an endpoint.
    pub fn sent(&self) -> Option<SentFile> {
        match &self.audio.content {
            AudioContent::Features(_) | AudioContent::Windows(_) => None,
            AudioContent::File(file) => {
                Some(SentFile { format: file.format.clone(), bytes: file.bytes.len() as u64 })
            }
        }
    }

    /// Bytes that it takes in memory: for a file with its base64.
    fn weight(&self) -> usize {
        match &self.audio.content {
            AudioContent::Features(features) => features.data.len() * size_of::<f32>(),
            AudioContent::Windows(windows) => {
                windows.iter().map(|window| window.data.len() * size_of::<f32>()).sum()
            }
            AudioContent::File(file) => file.bytes.len() / 3 * 7,
        }
    }
}

/// An image that is ready.
#[derive(Clone, Debug)]
pub struct ReadyImage {
    /// What the model gets.
    pub image: PreparedImage,
    /// What it was and what was done.
    pub record: ImageRecord,
    /// The file that it came from.
    pub file: FileFacts,
}

impl ReadyImage {
    /// The file that goes to an endpoint.
    pub fn sent(&self) -> Option<SentFile> {
        let file = self.image.file()?;
        Some(SentFile { format: file.format.clone(), bytes: file.bytes.len() as u64 })
    }

    /// Bytes that it takes in memory: for a file with its base64.
    fn weight(&self) -> usize {
        match &self.image.content {
            ImageContent::Pixels(pixels) => pixels.data.len(),
            ImageContent::File(file) => file.bytes.len() / 3 * 7,
        }
    }
}

type Made<T> = Result<Arc<T>, MediaError>;

enum Audio {
    None,
    Unread,
    LogMel(MelExtractor),
    LogMelWindows(MelExtractor),
    File { formats: Vec<String>, max_bytes: u64, transcode: Transcode },
}

/// Makes media ready for one model.
pub struct Preparer {
    audio: Audio,
    max_seconds: f64,
    images: ImageNeed,
    transform: ImageTransform,
    clips: Shelf<Made<Ready>>,
    pictures: Shelf<Made<ReadyImage>>,
}

impl Preparer {
    /// A preparer for a model's limits. `transcode` says what may be done to clips for endpoints.
    pub fn new(limits: &MediaLimits, transcode: Transcode) -> Result<Self, MelError> {
        let audio = match &limits.audio {
            AudioNeed::None => Audio::None,
            AudioNeed::Unread => Audio::Unread,
            AudioNeed::LogMel { bins } => Audio::LogMel(MelExtractor::new(*bins)?),
            AudioNeed::LogMelWindows { bins } => Audio::LogMelWindows(MelExtractor::new(*bins)?),
            AudioNeed::File { formats, max_bytes } => {
                Audio::File { formats: formats.clone(), max_bytes: *max_bytes, transcode }
            }
        };
        Ok(Self {
            audio,
            max_seconds: limits.max_seconds,
            images: limits.images,
            transform: ImageTransform::default(),
            clips: Shelf::new(|made| made.as_ref().map_or(0, |ready| ready.weight())),
            pictures: Shelf::new(|made| made.as_ref().map_or(0, |ready| ready.weight())),
        })
    }

    /// The same, with what may be done to images.
    #[must_use]
    pub fn with_images(mut self, transform: ImageTransform) -> Self {
        self.transform = transform;
        self
    }

    /// Whether media are neither read nor looked at.
    pub fn reads_nothing(&self) -> bool {
        matches!(self.audio, Audio::Unread)
    }

    /// About how many bytes of memory a file of `bytes` bytes takes on its way to a model. Nothing for local models that
    /// hear one window: features are all of one size, so a number of requests bounds them.
    pub fn estimate(&self, bytes: u64) -> u64 {
        if let ImageNeed::Pixels(need) = &self.images {
            // A photograph has a byte or so for each five of its pixels, and is made no larger than the model takes it.
            let most = self.transform.max_pixels.unwrap_or(need.max_pixels).saturating_mul(3);
            return bytes.saturating_mul(16).min(most).saturating_add(bytes);
        }
        match &self.audio {
            Audio::LogMel(_) | Audio::Unread => 0,
            // A second of 16 kHz in 16 bits has 32 kB, and so have its features; FLAC is half as large.
            Audio::LogMelWindows(_) => bytes.saturating_mul(2),
            // With its base64.
            Audio::File { .. } | Audio::None => bytes / 3 * 7,
        }
    }

    /// A clip that is ready already: quick, and touches no file.
    pub fn hot_audio(
        &self,
        source: &MediaSource,
        audio: &AudioRef,
    ) -> Option<Result<Arc<Ready>, MediaError>> {
        self.clips.made(source, audio.window)
    }

    /// An image that is ready already: quick, and touches no file.
    pub fn hot_image(&self, source: &MediaSource) -> Option<Result<Arc<ReadyImage>, MediaError>> {
        self.pictures.made(source, Window::Whole)
    }

    /// A clip, ready. The first who asks reads the file; who asks meanwhile waits for the same result.
    pub fn audio(&self, source: &MediaSource, audio: &AudioRef) -> Result<Arc<Ready>, MediaError> {
        let window = audio.window;
        let made = || match &self.audio {
            Audio::None | Audio::Unread => Err(MediaError::NotHeard),
            Audio::LogMel(extractor) => bad(source, self.features(source, window, extractor, false)),
            Audio::LogMelWindows(extractor) => bad(source, self.features(source, window, extractor, true)),
            Audio::File { formats, max_bytes, transcode } => {
                let want = Want { formats, max_bytes: *max_bytes, max_seconds: self.max_seconds, window };
                bad(source, want.file(source, *transcode))
            }
        };
        self.clips.slot(source, window).get_or_init(made).clone()
    }

    /// An image, ready, in the same way.
    pub fn image(&self, source: &MediaSource) -> Result<Arc<ReadyImage>, MediaError> {
        let made = || match &self.images {
            ImageNeed::None => Err(MediaError::NotSeen),
            ImageNeed::File => bad(source, read_image(source, |bytes| as_file(&bytes, &self.transform))),
            ImageNeed::Pixels(need) => bad(
                source,
                read_image(source, |bytes| {
                    let (pixels, record) =
                        fit(&bytes, need, &self.transform).map_err(|error: ImageError| error.to_string())?;
                    Ok((as_pixels(pixels), record))
                }),
            ),
        };
        self.pictures.slot(source, Window::Whole).get_or_init(made).clone()
    }

    fn features(
        &self,
        source: &MediaSource,
        window: Window,
        extractor: &MelExtractor,
        windows: bool,
    ) -> Result<Ready, String> {
        let file = source.facts().map_err(sentence)?;
        let spec = DecodeSpec { rate: RATE, window, max_seconds: self.max_seconds };
        let content = Content::open(source)?;
        let mut clip = content.decode(&spec).map_err(sentence)?;
        clip.record.steps.splice(0..0, content.steps());
        if clip.samples.len() < MIN_SAMPLES {
            return Err(format!(
                "holds {} samples at {RATE} Hz, the model needs at least {MIN_SAMPLES}; leave the row out",
                clip.samples.len()
            ));
        }
        let mut record = clip.record;
        let content = if windows {
            let parts = cut(&clip.samples);
            if parts.len() > 1 {
                record.steps.push(format!("windows:{}", parts.len()));
            }
            let features = parts.into_iter().map(|part| extractor.compute(part));
            AudioContent::Windows(features.collect::<Result<_, _>>().map_err(|e| e.to_string())?)
        } else {
            let features = extractor.compute(&clip.samples).map_err(|e| e.to_string())?;
            AudioContent::Features(Arc::new(features))
        };
        Ok(Ready { audio: PreparedAudio { digest: clip.digest, content }, record, file })
    }
}

fn bad<T>(source: &MediaSource, made: Result<T, String>) -> Made<T> {
    made.map(Arc::new).map_err(|reason| MediaError::File { source_name: source.to_string(), reason })
}

/// An image as endpoints get it.
fn as_file(bytes: &Bytes, transform: &ImageTransform) -> Result<(PreparedImage, ImageRecord), String> {
    let made = transform.carry_out(bytes).map_err(|error: ImageError| error.to_string())?;
    let digest = Digest::of(&made.bytes);
    let content = ImageContent::File(Arc::new(ImageFile::new(made.bytes, made.format)));
    Ok((PreparedImage { digest, content }, made.record))
}

/// An image as models of patches get it. Its digest is that of its size and its pixels.
fn as_pixels(pixels: RgbImage) -> PreparedImage {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(pixels.width as u64).to_le_bytes());
    hasher.update(&(pixels.height as u64).to_le_bytes());
    hasher.update(&pixels.data);
    let digest = Digest(*hasher.finalize().as_bytes());
    PreparedImage { digest, content: ImageContent::Pixels(Arc::new(pixels)) }
}

/// Reads an image, and makes of its file what the model gets.
fn read_image(
    source: &MediaSource,
    make: impl FnOnce(Bytes) -> Result<(PreparedImage, ImageRecord), String>,
) -> Result<ReadyImage, String> {
    let file = image_file(source)?;
    let (image, record) = make(image_bytes(source)?)?;
    Ok(ReadyImage { image, record, file })
}

/// The facts of the file of an image. One that is too large is refused before it is read.
fn image_file(source: &MediaSource) -> Result<FileFacts, String> {
    let file = source.facts().map_err(sentence)?;
    if !source.is_embedded() {
        check_image_size(file.bytes)?;
    }
    Ok(file)
}

fn image_bytes(source: &MediaSource) -> Result<Bytes, String> {
    match source.read()? {
        MediaContent::File(bytes) => check_image_size(bytes.len() as u64).map(|()| bytes),
        MediaContent::Samples(_) => Err("holds audio samples, not an image".to_owned()),
    }
}

fn check_image_size(bytes: u64) -> Result<(), String> {
    if bytes > MOST_IMAGE_BYTES {
        return Err(format!("has {bytes} bytes, more than any model takes of an image"));
    }
    Ok(())
}

/// Format and size of an image that is to go to a model which wants `need`; what [`Preparer::image`] would refuse it with, as
/// far as header and structure tell. Nothing is decoded. An error is a sentence that reads well after the source's name.
pub fn probe_image(
    source: &MediaSource,
    need: &ImageNeed,
    transform: &ImageTransform,
) -> Result<ImageFacts, String> {
    if *need == ImageNeed::None {
        return Err(MediaError::NotSeen.to_string());
    }
    image_file(source)?;
    let probed = match need {
        ImageNeed::Pixels(need) => probe_fit(&image_bytes(source)?, need, transform),
        // Of a file of its own the header is all that is read.
        _ if transform.is_nothing() => return image::probe_image(source),
        _ => transform.probe(&image_bytes(source)?),
    };
    probed.map_err(|error: ImageError| error.to_string())
}

/// A limit from which on every clip is short enough: Gemini's, the longest that a server states.
const ANY_LENGTH: f64 = 9.5 * 3600.0;

/// What an endpoint wants of a clip.
struct Want<'a> {
    formats: &'a [String],
    max_bytes: u64,
    max_seconds: f64,
    window: Window,
}

impl Want<'_> {
    fn file(&self, media: &MediaSource, transcode: Transcode) -> Result<Ready, String> {
        let file = media.facts().map_err(sentence)?;
        let content = Content::open(media)?;
        let format = content.format()?;
        let length = content.len()?;
        // Only the headers of these two are read.
        let decodable = matches!(format, "wav" | "flac");
        let source = if decodable {
            content.probe().map_err(sentence)?
        } else {
            AudioSource { format: format.to_owned(), rate: 0, channels: 0, bits: 0, frames: 0 }
        };
        let seconds = if decodable { source.frames as f64 / f64::from(source.rate.max(1)) } else { 0.0 };
        let too_long = seconds > self.max_seconds + 0.5 / f64::from(source.rate.max(1));
        if too_long && self.window == Window::Whole {
            return Err(sentence(AudioError::TooLong { length: seconds, limit: self.max_seconds }));
        }
        if matches!(content, Content::Samples(_) | Content::Joined(_))
            && self.formats.iter().any(|taken| taken == "wav")
        {
            // There is no file that could go untouched: the samples get the container that servers read.
            let rate = match transcode {
                Transcode::Wav { rate: Some(rate) } => rate,
                Transcode::Wav { rate: None } | Transcode::Never => source.rate,
            };
            return self.as_wav(&content, file, rate);
        }
        let obstacle = self.obstacle(format, length, decodable, too_long);
        let Some(obstacle) = obstacle else {
            if !decodable && self.max_seconds < ANY_LENGTH {
                return Err(format!(
                    "how long it is cannot be read from {format}, and clips may have at most {} s: convert it, for example \
                     with `ffmpeg -i IN -c:a flac OUT.flac`, or take `max_seconds` out of [model.audio]",
                    self.max_seconds
                ));
            }
            return self.as_it_is(&content, length, file, source, seconds);
        };
        match transcode {
            _ if !decodable => Err(format!(
                "{obstacle}, and only WAV and FLAC are decoded: convert it, for example with `ffmpeg -i IN -c:a \
                 flac OUT.flac`"
            )),
            Transcode::Never => Err(format!("{obstacle}: set `transcode = \"wav\"` under [model.audio]")),
            Transcode::Wav { .. } if !self.formats.iter().any(|taken| taken == "wav") => Err(format!(
                "{obstacle}, and the endpoint does not take WAV either: convert it, or mend `formats` under \
                 [model.audio]"
            )),
            Transcode::Wav { rate } => self.as_wav(&content, file, rate.unwrap_or(source.rate)),
        }
    }

    /// Why the file cannot go as it is.
    fn obstacle(&self, format: &str, bytes: u64, decodable: bool, too_long: bool) -> Option<String> {
        if self.taken_as(format).is_none() {
            return Some(format!("is {format}, and the endpoint takes {}", self.formats.join(", ")));
        }
        if bytes > self.max_bytes {
            return Some(format!("has {bytes} bytes, and the endpoint takes {}", self.max_bytes));
        }
        if self.window != Window::Whole && (too_long || !decodable) {
            let seconds = self.max_seconds;
            let which = self.window.as_str();
            return Some(format!("is to be cut to its {which} {seconds} s, which changes the file"));
        }
        None
    }

    /// The name under which the endpoint takes a format: MP4 and M4A are one container.
    fn taken_as<'b>(&'b self, format: &'b str) -> Option<&'b str> {
        let takes = |name: &str| self.formats.iter().any(|taken| taken == name);
        match format {
            _ if takes(format) => Some(format),
            "m4a" if takes("mp4") => Some("mp4"),
            _ => None,
        }
    }

    /// The file untouched.
    fn as_it_is(
        &self,
        content: &Content<'_>,
        length: u64,
        file: FileFacts,
        source: AudioSource,
        seconds: f64,
    ) -> Result<Ready, String> {
        let bytes = content.bytes()?;
        if bytes.len() as u64 != length {
            return Err("was changed while it was read: run again when it is whole".to_owned());
        }
        let format = self.taken_as(&source.format).unwrap_or(&source.format).to_owned();
        let record = AudioRecord {
            window: self.window,
            start: 0,
            samples: source.frames,
            rate: source.rate,
            steps: Vec::new(),
            source,
        };
        let digest = Digest::of(&bytes);
        let content = AudioContent::File(Arc::new(AudioFile::new(bytes, format, seconds)));
        Ok(Ready { audio: PreparedAudio { digest, content }, record, file })
    }

    /// The clip, or its window, as 16-bit PCM.
    fn as_wav(&self, content: &Content<'_>, file: FileFacts, rate: u32) -> Result<Ready, String> {
        let spec = DecodeSpec { rate, window: self.window, max_seconds: self.max_seconds };
        let clip = content.decode(&spec).map_err(sentence)?;
        let (bytes, cut) =
            wav::encode(&clip.samples, rate).map_err(|e| format!("cannot be written as WAV: {e}"))?;
        if bytes.len() as u64 > self.max_bytes {
            return Err(format!(
                "has {} bytes as 16-bit WAV of {rate} Hz, and the endpoint takes {}: set a window or a lower \
                 `rate` under [model.audio]",
                bytes.len(),
                self.max_bytes
            ));
        }
        let mut record = clip.record;
        record.steps.splice(0..0, content.steps());
        if cut > 0 {
            record.steps.push("clip".to_owned());
        }
        record.steps.push("encode:wav16".to_owned());
        let digest = Digest::of(&bytes);
        let seconds = clip.samples.len() as f64 / f64::from(rate.max(1));
        let content = AudioContent::File(Arc::new(AudioFile::new(bytes, "wav", seconds)));
        Ok(Ready { audio: PreparedAudio { digest, content }, record, file })
    }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
