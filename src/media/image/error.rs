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
         leave its row out; an endpoint can get it as it is, without a transform under [model.image]"
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
    /// A header that does not say what it must.
    #[error(
        "is a {format} image whose header is damaged or cut short: get the file again, or leave its row out"
    )]
    Header {
        /// Its format.
        format: &'static str,
    },
    /// No pixels.
    #[error("declares {width} x {height} pixels: there is nothing to see; leave it out or get it again")]
    Zero {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// Too long for its width, for a model that takes patches.
    #[error(
        "has {width} x {height} pixels: one side is more than {most} times the other, and the model takes no such image; \
         cut it, or leave it out"
    )]
    Thin {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The most that one side may be longer.
        most: u32,
    },
    /// No size fits the limits of a model that takes patches.
    #[error(
        "has {width} x {height} pixels, for which there is no size between the limits of {min} and {max} pixels that can be \
         computed with: change `max_pixels` under [model.image], or leave it out"
    )]
    Patches {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
        /// The fewest pixels that the model takes.
        min: u64,
        /// The most.
        max: u64,
    },
    /// The end is missing.
    #[error(
        "is a {format} image that is cut short: get it again, or leave its row out; an endpoint can get it as it is, without a \
         transform under [model.image]"
    )]
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
