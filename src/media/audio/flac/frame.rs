//! Finds FLAC frames by their headers, so that a window needs no decoding of what lies before it.
//!
//! A header begins with a synchronisation code, agrees with the stream in rate, channels and bits, carries a
//! checksum, and numbers its frame. That is enough to search a file by halves, with or without a seek table.
//! A false hit is possible, if hardly: the decoder then sees a gap and says so.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;

use super::AudioError;
use super::checksum::crc8;

/// The most bytes of a frame header.
const MAX_HEADER: usize = 16;
/// Bytes read at once while searching.
const PROBE: usize = 16 * 1024;
/// Below this many bytes a search goes through them in order.
const NEAR: u64 = 4 * PROBE as u64;

/// What all frames of a stream have in common.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    pub(super) rate: u32,
    pub(super) channels: u16,
    pub(super) bits: u16,
    /// Samples of a frame in a stream that numbers frames; 0 while that isn't known.
    pub(super) stride: u32,
}

/// A frame in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its first byte.
    pub(super) place: u64,
    /// Its first sample.
    pub(super) first: u64,
    /// Samples of a channel.
    pub(super) samples: u32,
    /// Whether frames are numbered, and not their samples.
    pub(super) is_fixed: bool,
}

impl Found {
    /// The first sample of the frame after it.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.samples))
    }
}

impl Frames {
    /// The frame that begins where `body` does.
    pub(super) fn at<R: Read + Seek>(
        &self,
        reader: &mut R,
        body: &Range<u64>,
    ) -> Result<Option<Found>, AudioError> {
        let bytes = read(reader, body.start, body.end, MAX_HEADER)?;
        Ok(self.parse(&bytes, body.start))
    }

    /// The last frame of `body` that begins at or before the sample `target`. A frame begins `body`.
    pub(super) fn find<R: Read + Seek>(
        &self,
        reader: &mut R,
        body: &Range<u64>,
        target: u64,
    ) -> Result<Found, AudioError> {
        let damaged = || AudioError::Flac("its first frame is damaged: fetch or encode it again".to_owned());
        let mut low = self.at(reader, body)?.ok_or_else(damaged)?;
        // The first frame after the target, as far as is known, and what its first sample is.
        let (mut high, mut limit) = (body.end, u64::MAX);
        while high - low.place > NEAR {
            let middle = low.place + (high - low.place) / 2;
            match self.next(reader, middle..high, low.first + 1..limit)? {
                Some(found) if found.first <= target => low = found,
                Some(found) => (high, limit) = (middle, found.first),
                None => high = middle,
            }
        }
        while let Some(found) = self.next(reader, low.place + 1..high, low.first + 1..limit)? {
            if found.first > target {
                break;
            }
            low = found;
        }
        Ok(low)
    }

    /// The first frame that begins in `bytes`, if its first sample is in `samples`.
    fn next<R: Read + Seek>(
        &self,
        reader: &mut R,
        bytes: Range<u64>,
        samples: Range<u64>,
    ) -> Result<Option<Found>, AudioError> {
        let mut place = bytes.start;
        while place < bytes.end {
            // A header may begin in the last bytes of one probe and end in the next.
            let probe = read(reader, place, u64::MAX, PROBE + MAX_HEADER)?;
            let count = PROBE.min((bytes.end - place) as usize).min(probe.len());
            let mut i = 0;
            while let Some(offset) = probe.get(i..).and_then(sync) {
                i += offset;
                if i >= count {
                    break;
                }
                let found = self.parse(probe.get(i..).unwrap_or_default(), place + i as u64);
                if let Some(found) = found.filter(|found| samples.contains(&found.first)) {
                    return Ok(Some(found));
                }
                i += 1;
            }
            if count == 0 {
                break;
            }
            place += count as u64;
        }
        Ok(None)
    }

    /// Reads the frame header that `bytes` begin with, if they do and it is one of this stream.
    pub(super) fn parse(&self, bytes: &[u8], place: u64) -> Option<Found> {
        let [sync, kind, sizes, layout, ..] = *bytes else { return None };
        if sync != 0xff || kind & 0xfe != 0xf8 || layout & 1 != 0 {
            return None;
        }
        let is_fixed = kind & 1 == 0;
        let channels = match layout >> 4 {
            code @ 0..=7 => u16::from(code) + 1,
            8..=10 => 2,
            _ => return None,
        };
        let bits = match (layout >> 1) & 7 {
            0 => self.bits,
            1 => 8,
            2 => 12,
            4 => 16,
            5 => 20,
            6 => 24,
            7 => 32,
            _ => return None,
        };
        if channels != self.channels || bits != self.bits {
            return None;
        }

        let (number, mut length) = coded_number(bytes.get(4..)?)?;
        length += 4;
        let mut field = |count: usize| -> Option<u32> {
            let value = bytes
                .get(length..length + count)?
                .iter()
                .fold(0, |value, byte| value << 8 | u32::from(*byte));
            length += count;
            Some(value)
        };
        let samples = match sizes >> 4 {
            0 => return None,
            1 => 192,
            code @ 2..=5 => 576 << (code - 2),
            6 => field(1)? + 1,
            7 => field(2)? + 1,
            code => 256 << (code - 8),
        };
        let rate = match sizes & 0xf {
            0 => self.rate,
            code @ 1..=11 => {
                const RATES: [u32; 11] =
                    [88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000];
                *RATES.get(usize::from(code) - 1)?
            }
            12 => field(1)? * 1000,
            13 => field(2)?,
            14 => field(2)? * 10,
            _ => return None,
        };
        if rate != self.rate || *bytes.get(length)? != crc8(bytes.get(..length)?) {
            return None;
        }
        let first = if is_fixed { number.checked_mul(u64::from(self.stride))? } else { number };
        Some(Found { place, first, samples, is_fixed })
    }
}

/// Up to `length` bytes from `place` on that lie before `end`.
fn read<R: Read + Seek>(reader: &mut R, place: u64, end: u64, length: usize) -> Result<Vec<u8>, AudioError> {
    let length = (end - place).min(length as u64);
    let mut bytes = Vec::with_capacity(length as usize);
    reader.seek(SeekFrom::Start(place))?;
    reader.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A number coded like a character of UTF-8, in up to 7 bytes, and its length.
fn coded_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = match first.leading_ones() as usize {
        0 => return Some((u64::from(first), 1)),
        ones @ 2..=7 => ones,
        _ => return None,
    };
    let mut number = u64::from(first) & (0x7f >> length);
    for byte in bytes.get(1..length)? {
        if byte >> 6 != 2 {
            return None;
        }
        number = number << 6 | u64::from(byte & 0x3f);
    }
    Some((number, length))
}

#[expect(clippy::needless_bitwise_bool, reason = "a lazy operator keeps the loop from being vectorised")]
/// Where the next synchronisation code is, the 15 bits that a frame header begins with.
pub(super) fn sync(bytes: &[u8]) -> Option<usize> {
    const STRIDE: usize = 32;
    let mut place = 0;
    loop {
        // Most stretches have no such byte: they are passed over whole, which compiles to vector instructions.
        let stretch = bytes.get(place..place + STRIDE);
        if stretch.is_some_and(|stretch| stretch.iter().fold(true, |none, byte| none & (*byte != 0xff))) {
            place += STRIDE;
            continue;
        }
        let rest = bytes.get(place..)?;
        let found = rest.windows(2).take(STRIDE).position(|pair| pair[0] == 0xff && pair[1] & 0xfe == 0xf8);
        match found {
            Some(offset) => return Some(place + offset),
            None if rest.len() <= STRIDE => return None,
            None => place += STRIDE,
        }
    }
}
