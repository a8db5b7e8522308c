//! Media files: sniffing, decoding, transforms. The only room that knows codecs.

pub mod audio;
mod content;
pub mod image;
mod joined;
mod keep;
mod prepare;
mod shelf;
mod source;
mod wav;

/// Names what lies between a file and a model: downmix, resampler and features, with their version. It is part of
/// every request's key, so that answers to other features are never taken for answers to these.
pub const PIPELINE: &str = "soxr_hq-1 logmel-1 wav16-1";

/// The brands that files of HEIF images name first. What else is in the container that they share is sound or video.
const HEIF_BRANDS: [&[u8; 4]; 12] = [
    b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1", b"miaf",
    b"heif",
];

pub use content::probe;
pub use image::{Facts, ImageFacts, ImageTransform, look};
pub use keep::{AsFile, Form, as_file};
pub use prepare::{MediaError, Preparer, Ready, ReadyImage, Transcode, probe_image};
pub use source::{
    Cause, EMPTY_SAMPLES, Embedded, FileFacts, Joined, MediaContent, MediaSource, NO_SAMPLES, RawSamples,
    ReadError, ReadMedia, SampleValues,
};

fn sentence(error: impl Into<audio::AudioError>) -> String {
    error.into().to_string()
}
