//! Why a clip gives no samples: one sentence each, to follow the clip's name.

use std::io;

use thiserror::Error;

use super::sniff::OtherFile;

/// Why a clip gives no samples. The text reads well after `clips/x.wav: `.
#[derive(Debug, Error)]
pub enum AudioError {
    /// The file system.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Neither WAV nor FLAC.
    #[error("{0}")]
    Other(#[from] OtherFile),
    /// A WAV file that breaks its format, or uses a part of it that is not read.
    #[error("is a WAV file, but {0}")]
    Wav(String),
    /// A FLAC file that breaks its format.
    #[error("is a FLAC file, but {0}")]
    Flac(String),
    /// The file ends before its header says so.
    #[error(
        "is cut short: it has {found} of the {declared} samples a channel that its header declares; fetch or copy it again"
    )]
    Truncated {
        /// Frames that are there.
        found: u64,
        /// Frames that should be.
        declared: u64,
    },
    /// No sound.
    #[error("has no samples: its header is followed by no sound; fetch or record it again")]
    NoSamples,
    /// Infinities and NaN.
    #[error(
        "has a sample that is no finite number (frame {frame}, counted from 0): it was written by a faulty tool; convert it from its source again"
    )]
    NotFinite {
        /// The first such frame.
        frame: u64,
    },
    /// Longer than the model takes, and no window is set.
    #[error(
        "is {} s long, the model takes {} s: set `window = \"first\"` or `\"last\"` under [model.audio], or leave the clip out",
        seconds(*length, *limit), seconds(*limit, *length)
    )]
    TooLong {
        /// Seconds of the clip.
        length: f64,
        /// Seconds that the model takes.
        limit: f64,
    },
    /// More than fits in memory.
    #[error("has {0} samples a channel, more than fit in memory: cut it, or use a window")]
    TooLarge(u64),
    /// What was asked for.
    #[error("cannot be prepared: {0}")]
    Spec(String),
}

/// Seconds with as many decimals as it takes to tell them from `other`: 47.0, but 30.00006.
fn seconds(value: f64, other: f64) -> String {
    let mut text = String::new();
    for decimals in 1..=6 {
        text = format!("{value:.decimals$}");
        if text != format!("{other:.decimals$}") {
            break;
        }
    }
    text
}
