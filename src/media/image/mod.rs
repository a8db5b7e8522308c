//! Images: what a file is, what its header says, and the transforms that a config may ask for.
//!
//! By default an image goes on the wire byte for byte. What is done to one else is asked for in the config and
//! recorded with every response. This room must not know models, endpoints or configs.

mod decode;
mod error;
mod fit;
mod frames;
mod header;
mod resize;
mod sniff;
mod transform;

pub use decode::decode;
pub use error::ImageError;
pub use fit::{fit, patched_size, probe_fit};
pub use header::{Facts, ImageFacts, look, probe_image};
pub use resize::{Filter, Pixels};
pub(super) use sniff::format;
pub use transform::{ImageFormat, ImageTransform, Made};

#[cfg(test)]
mod tests;
