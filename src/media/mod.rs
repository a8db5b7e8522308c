//! Media files: sniffing, decoding, transforms. The only room that knows codecs.

pub mod audio;
mod prepare;

pub use prepare::{MediaError, Preparer, Ready};
