//! Media files: sniffing, decoding, transforms. The only room that knows codecs.

pub mod audio;
mod image;
mod prepare;
mod shelf;
mod wav;

pub use prepare::{FileFacts, MediaError, Preparer, Ready, ReadyImage, Transcode};
