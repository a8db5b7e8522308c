//! WAV: the RIFF container and its integer and float samples.
//!
//! A parser of our own, since what research data hold is wider than what hound and symphonia read: sizes of 0
//! or 0xFFFFFFFF from pipes (hound finds no samples or fails), 64-bit floats and `fmt ` chunks of odd lengths
//! (hound), padded odd chunks (hound loses its place), a `data` chunk before `fmt ` (both), 65535 channels
//! (symphonia overflows), RF64 (both). It knows where samples lie, and turns their bytes into mono.

#![expect(clippy::inline_always, reason = "vector instructions reach only what is inlined")]

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::error::AudioError;
use crate::types::AudioSource;

/// Chunks before giving up on a file.
const MAX_CHUNKS: usize = 1000;
/// Channels before giving up: libsndfile's limit.
const MAX_CHANNELS: u16 = 1024;
/// What sox writes as a data size where it can't know, before rounding down to whole frames.
const SOX_UNKNOWN: u64 = 0x7fff_f000;

/// How one sample is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    U8,
    I16,
    I24,
    I32,
    F32,
    F64,
}

impl Encoding {
    fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I16 => 2,
            Self::I24 => 3,
            Self::I32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// Where the samples of a file lie, and how they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    start: u64,
    encoding: Encoding,
    channels: u16,
}

/// What a `fmt ` chunk says.
struct Format {
    encoding: Encoding,
    channels: u16,
    rate: u32,
}

fn bad(reason: impl Into<String>) -> AudioError {
    AudioError::Wav(reason.into())
}

fn u16_at(bytes: &[u8], place: usize) -> u16 {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], place: usize) -> u64 {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Up to `length` bytes from `place` on.
fn read_at<R: Read + Seek>(reader: &mut R, place: u64, length: u64) -> Result<Vec<u8>, AudioError> {
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(place))?;
    reader.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the header of a WAV file of `length` bytes.
pub(super) fn header<R: Read + Seek>(reader: &mut R, length: u64) -> Result<(AudioSource, Data), AudioError> {
    let riff = read_at(reader, 0, 12)?;
    let (mut format, mut data, mut wide_size) = (None, None, None);
    let mut place = 12_u64;
    for _ in 0..MAX_CHUNKS {
        let chunk = read_at(reader, place, 8)?;
        if chunk.len() < 8 || (format.is_some() && data.is_some()) {
            break;
        }
        let (body, size) = (place + 8, u64::from(u32_at(&chunk, 4)));
        match chunk.first_chunk() {
            Some(b"fmt ") => format = Some(parse_format(&read_at(reader, body, size.min(64))?, size)?),
            Some(b"ds64") => wide_size = Some(u64_at(&read_at(reader, body, 16)?, 8)),
            Some(b"data") => data = Some((body, size)),
            _ => {}
        }
        let size = match wide_size {
            Some(wide) if size == u64::from(u32::MAX) => wide,
            _ => size,
        };
        place = after_chunk(reader, body, size)?;
    }
    let Some((start, size)) = data else {
        return Err(bad("it has no `data` chunk: its header is damaged; fetch or convert it again"));
    };
    let Some(Format { encoding, channels, rate }) = format else {
        return Err(bad("it has no `fmt ` chunk: its header is damaged; fetch or convert it again"));
    };

    let frame_bytes = encoding.bytes() as u64 * u64::from(channels);
    let available = length.saturating_sub(start);
    let size = match (size, wide_size) {
        (0xffff_ffff, Some(wide)) => wide,
        _ if is_unknown(size, frame_bytes, u64::from(u32_at(&riff, 4)), length) => available,
        _ => size,
    };
    let frames = size / frame_bytes;
    if frames > available / frame_bytes {
        return Err(AudioError::Truncated { found: available / frame_bytes, declared: frames });
    }
    if frames == 0 {
        return Err(AudioError::NoSamples);
    }
    let bits = encoding.bytes() as u16 * 8;
    let source = AudioSource { format: "wav".to_owned(), rate, channels, bits, frames };
    Ok((source, Data { start, encoding, channels }))
}

/// Whether a data size stands for "until the end of the file", as writers to pipes leave it.
fn is_unknown(size: u64, frame_bytes: u64, riff_size: u64, length: u64) -> bool {
    match size {
        0xffff_ffff => true,
        // A data chunk that is really empty lies in a file whose length its header knows.
        0 => riff_size + 8 != length,
        _ => size == SOX_UNKNOWN / frame_bytes * frame_bytes && size > length,
    }
}

/// Where the chunk after this one begins. Chunks of odd length are followed by a byte of padding, which some
/// writers forget.
fn after_chunk<R: Read + Seek>(reader: &mut R, body: u64, size: u64) -> Result<u64, AudioError> {
    let end = body.saturating_add(size);
    if size.is_multiple_of(2) {
        return Ok(end);
    }
    let next = read_at(reader, end, 5)?;
    let is_name = |bytes: Option<&[u8]>| {
        bytes.is_some_and(|bytes| bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '))
    };
    let unpadded = is_name(next.get(..4)) && !is_name(next.get(1..5));
    Ok(if unpadded { end } else { end.saturating_add(1) })
}

fn parse_format(chunk: &[u8], size: u64) -> Result<Format, AudioError> {
    const PCM: u16 = 1;
    const FLOAT: u16 = 3;
    const EXTENSIBLE: u16 = 0xfffe;

    if size < 16 || chunk.len() < 16 {
        return Err(bad(format!(
            "its `fmt ` chunk is cut short or has fewer than 16 bytes ({size}): convert it again"
        )));
    }
    let (channels, rate, block) = (u16_at(chunk, 2), u32_at(chunk, 4), u16_at(chunk, 12));
    let bits = u16_at(chunk, 14);
    let tag = match u16_at(chunk, 0) {
        // The extension names the real format in the first two bytes of an identifier.
        EXTENSIBLE if chunk.len() >= 26 => u16_at(chunk, 24),
        tag => tag,
    };
    let encoding = match (tag, bits) {
        // Fewer bits are left-justified in whole bytes.
        (PCM, 1..=8) => Encoding::U8,
        (PCM, 9..=16) => Encoding::I16,
        (PCM, 17..=24) => Encoding::I24,
        (PCM, 25..=32) => Encoding::I32,
        (FLOAT, 32) => Encoding::F32,
        (FLOAT, 64) => Encoding::F64,
        _ => {
            let what = match tag {
                PCM => "integer".to_owned(),
                FLOAT => "float".to_owned(),
                0x02 | 0x11 => "ADPCM".to_owned(),
                0x06 => "A-law".to_owned(),
                0x07 => "mu-law".to_owned(),
                0x31 => "GSM".to_owned(),
                0x55 => "MP3".to_owned(),
                other => format!("unknown (tag {other:#06x})"),
            };
            return Err(bad(format!(
                "its samples are {bits}-bit {what}, and only integers of 8 to 32 bits and floats of 32 and 64 are \
                 read: convert it, for example with `ffmpeg -i IN -c:a pcm_s16le OUT.wav`"
            )));
        }
    };
    if channels == 0 || channels > MAX_CHANNELS {
        return Err(bad(format!(
            "its header declares {channels} channels instead of 1 to {MAX_CHANNELS}: convert it again"
        )));
    }
    if encoding.bytes() * usize::from(channels) != usize::from(block) {
        return Err(bad(format!(
            "its header contradicts itself: {channels} channels of {bits} bits in frames of {block} bytes; \
             convert it again"
        )));
    }
    Ok(Format { encoding, channels, rate })
}

impl Data {
    fn frame_bytes(&self) -> usize {
        self.encoding.bytes() * usize::from(self.channels)
    }

    /// The bytes of some frames, which the header has found to be in the file.
    pub(super) fn place(&self, frames: &Range<u64>) -> Range<u64> {
        let bytes = self.frame_bytes() as u64;
        self.start + frames.start * bytes..self.start + frames.end * bytes
    }

    /// The bytes of some frames, counted from the first of a part.
    pub(super) fn place_in_part(&self, frames: &Range<u64>) -> Range<u64> {
        let bytes = self.frame_bytes() as u64;
        frames.start * bytes..frames.end * bytes
    }

    /// Turns the bytes of some frames into mono, one sample a frame.
    pub(super) fn mono(&self, bytes: &[u8], into: &mut [f32]) {
        const FULL: f32 = 2_147_483_648.0;
        pulp::Arch::new().dispatch(|| match self.encoding {
            Encoding::U8 => self.mix(bytes, into, |[byte]| (f32::from(byte) - 128.0) / 128.0),
            Encoding::I16 => self.mix(bytes, into, |bytes| f32::from(i16::from_le_bytes(bytes)) / 32_768.0),
            Encoding::I24 => {
                self.mix(bytes, into, |[a, b, c]| i32::from_le_bytes([0, a, b, c]) as f32 / FULL);
            }
            Encoding::I32 => self.mix(bytes, into, |bytes| i32::from_le_bytes(bytes) as f32 / FULL),
            Encoding::F32 => self.mix(bytes, into, f32::from_le_bytes),
            Encoding::F64 => self.mix(bytes, into, |bytes| f64::from_le_bytes(bytes) as f32),
        });
    }

    /// The mean of the channels, added in order in f32: what librosa computes, to the bit.
    #[inline(always)]
    fn mix<const N: usize>(&self, bytes: &[u8], into: &mut [f32], sample: impl Fn([u8; N]) -> f32) {
        let samples = bytes.as_chunks::<N>().0;
        match self.channels {
            1 => into.iter_mut().zip(samples).for_each(|(mono, bytes)| *mono = sample(*bytes)),
            2 => into
                .iter_mut()
                .zip(samples.as_chunks::<2>().0)
                .for_each(|(mono, [left, right])| *mono = (sample(*left) + sample(*right)) * 0.5),
            channels => {
                let frames = samples.chunks_exact(usize::from(channels));
                for (mono, frame) in into.iter_mut().zip(frames) {
                    *mono = frame.iter().map(|bytes| sample(*bytes)).sum::<f32>() / f32::from(channels);
                }
            }
        }
    }
}
