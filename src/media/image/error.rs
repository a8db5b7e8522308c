//! Why an image cannot be had: one sentence each, to follow the image's name.

use thiserror::Error;

/// Why an image cannot be had. The text reads well after `images/x.png: `.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Not an image, or one of a format that is not read.
    #[error("{0}")]
    Other(String),
    /// More pixels than are decoded: a decompression bomb, or a very large image.
    #[error(
        "declares {width} x {height} pixels in {bytes} bytes, more than are decoded ({most} pixels): make it smaller, or \
         send it as it is, without a transform under [model.image]"
    )]
    TooLarge {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The size of the file.
        bytes: usize,
        /// The most pixels that are decoded.
        most: u64,
    },
    /// No pixels.
    #[error("declares {width} x {height} pixels: there is nothing to see; leave it out or get it again")]
    Zero {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The end is missing.
    #[error("is a {format} image that is cut short: get it again, or send it as it is, without a transform")]
    Cut {
        /// Its format.
        format: &'static str,
    },
    /// Damaged, or of a kind that is not read.
    #[error("is a {format} image that cannot be decoded: {reason}")]
    Decode {
        /// Its format.
        format: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// It cannot be written.
    #[error("cannot be written as {format}: {reason}")]
    Encode {
        /// The format.
        format: &'static str,
        /// What the encoder says.
        reason: String,
    },
}
