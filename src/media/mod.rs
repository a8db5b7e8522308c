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

/// What a file is by its first bytes, if it is an image in the container that sound and video have too.
fn boxed_image(head: &[u8]) -> Option<&'static str> {
    let brand = head.get(8..12).filter(|_| head.get(4..8) == Some(b"ftyp"))?;
    if [b"avif", b"avis"].iter().any(|name| brand == *name) {
        return Some("an AVIF image");
    }
    HEIF_BRANDS.iter().any(|name| brand == *name).then_some("a HEIF image")
}

/// The brands that files of HEIF images name first.
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
