//! FLAC: symphonia decodes, this finds.
//!
//! symphonia's decoder turns a frame into samples. Which bytes are a frame is our own work, because its demuxer
//! drops damaged frames silently, fails to seek near the end of a file (its search reads into the last frame and
//! finds no next header), and allocates what a picture block claims. So metadata blocks are skipped unread,
//! frames are found by their headers ([`frame`]), each must have its checksum and follow on the one before, and
//! what is missing is an error.

mod checksum;
mod frame;

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;

use symphonia::core::audio::{Audio, GenericAudioBufferRef};
use symphonia::core::codecs::audio::well_known::CODEC_ID_FLAC;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions};
use symphonia::core::packet::PacketRef;
use symphonia::core::units::{Duration, Timestamp};
use symphonia::default::codecs::FlacDecoder;

use super::error::AudioError;
use crate::types::AudioSource;
use frame::{Found, Frames};

/// Metadata blocks before giving up on a file.
const MAX_BLOCKS: usize = 1000;
/// Length of the STREAMINFO block.
const STREAM_INFO: usize = 34;
/// The most samples of a frame.
const MAX_BLOCK: u32 = 65_535;
/// The fewest bytes of a frame: header, one constant subframe, checksum.
const MIN_FRAME_BYTES: u64 = 10;

/// What a stream says of itself, and where its frames are.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Bytes of the frames: from the first header to the end.
    body: Range<u64>,
    frames: Frames,
    total: u64,
    /// The STREAMINFO that symphonia is given.
    info: [u8; STREAM_INFO],
}

fn bad(reason: impl Into<String>) -> AudioError {
    AudioError::Flac(reason.into())
}

/// Reads the header of a FLAC file that begins at `start` and ends at `length`: metadata, first and last frame.
pub(super) fn header<R: Read + Seek>(
    reader: &mut R,
    start: u64,
    length: u64,
) -> Result<(AudioSource, Stream), AudioError> {
    let mut place = start + 4;
    let mut info = None;
    let mut is_last = false;
    for _ in 0..MAX_BLOCKS {
        let mut block = [0; 4];
        reader.seek(SeekFrom::Start(place))?;
        read_exact(reader, &mut block)?;
        let [kind, a, b, c] = block;
        let block_type = kind & 0x7f;
        if block_type == 0 && info.is_none() {
            let mut bytes = [0; STREAM_INFO];
            read_exact(reader, &mut bytes)?;
            info = Some(bytes);
        }
        place += 4 + u64::from(u32::from_be_bytes([0, a, b, c]));
        is_last = kind & 0x80 != 0;
        if is_last {
            break;
        }
    }
    let Some(info) = info.filter(|_| is_last) else {
        return Err(bad("its metadata blocks are damaged: fetch or encode it again"));
    };
    let packed =
        u64::from_be_bytes([info[10], info[11], info[12], info[13], info[14], info[15], info[16], info[17]]);
    let rate = (packed >> 44) as u32;
    let channels = ((packed >> 41) & 0x7) as u16 + 1;
    let bits = ((packed >> 36) & 0x1f) as u16 + 1;
    let declared = packed & 0xf_ffff_ffff;
    if !(4..=24).contains(&bits) {
        return Err(bad(format!("its samples have {bits} bits, and 4 to 24 are read: convert it to 24")));
    }

    let body = place..without_tag(reader, length)?.max(place);
    let mut frames = Frames { rate, channels, bits, stride: 0 };
    let first = match frames.at(reader, &body)? {
        Some(first) => first,
        None if body.is_empty() && declared == 0 => return Err(AudioError::NoSamples),
        None if body.is_empty() => return Err(AudioError::Truncated { found: 0, declared }),
        None => return Err(bad("no sound follows its header: it is damaged; fetch or encode it again")),
    };
    if first.is_fixed {
        frames.stride = first.samples;
    }
    let start = frames.at(reader, &body)?.map_or(0, |first| first.first);
    if start != 0 {
        return Err(bad(format!(
            "its sound begins with sample {start} instead of 0: it is part of a longer file"
        )));
    }
    let last = frames.find(reader, &body, u64::MAX)?;
    let found = last.end();
    if found < declared {
        return Err(AudioError::Truncated { found, declared });
    }
    if declared != 0 && found > declared {
        return Err(bad(format!(
            "its header declares {declared} samples a channel and {found} follow: it is damaged; encode it again"
        )));
    }
    if found > (body.end - body.start) / MIN_FRAME_BYTES * u64::from(MAX_BLOCK) {
        return Err(bad("it is too short for the samples that it numbers: it is damaged; encode it again"));
    }
    let source = AudioSource { format: "flac".to_owned(), rate, channels, bits, frames: found };
    Ok((source, Stream { body, frames, total: found, info: for_decoder(info) }))
}

fn read_exact<R: Read>(reader: &mut R, into: &mut [u8]) -> Result<(), AudioError> {
    reader.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => bad("it ends within its header: fetch or copy it again"),
        _ => AudioError::Io(error),
    })
}

/// The end of the frames: an `ID3v1` tag after them would count as a damaged last frame.
fn without_tag<R: Read + Seek>(reader: &mut R, length: u64) -> Result<u64, AudioError> {
    const TAG: u64 = 128;
    let Some(start) = length.checked_sub(TAG) else { return Ok(length) };
    let mut name = [0; 3];
    reader.seek(SeekFrom::Start(start))?;
    reader.read_exact(&mut name)?;
    Ok(if &name == b"TAG" { start } else { length })
}

/// STREAMINFO for symphonia. Rate, channels and bits have been checked; the sizes of blocks are only allowed to be
/// what they can be at all, since every frame says its own, and what is left is not for a part of a stream.
fn for_decoder(mut info: [u8; STREAM_INFO]) -> [u8; STREAM_INFO] {
    info[..2].copy_from_slice(&16_u16.to_be_bytes());
    info[2..4].copy_from_slice(&(MAX_BLOCK as u16).to_be_bytes());
    info[4..10].fill(0);
    info[13] &= 0xf0;
    info[14..].fill(0);
    info
}

/// Frames of a stream in memory: all of them, or those of a window.
pub(super) struct Stretch<'a> {
    stream: &'a Stream,
    bytes: &'a [u8],
}

impl Stream {
    /// The bytes that hold some samples, and a frame more.
    pub(super) fn place<R: Read + Seek>(
        &self,
        reader: &mut R,
        samples: &Range<u64>,
    ) -> Result<Range<u64>, AudioError> {
        let start = self.frames.find(reader, &self.body, samples.start)?.place;
        let after = samples.end.saturating_add(u64::from(MAX_BLOCK));
        let end = if after < self.total {
            self.frames.find(reader, &self.body, after)?.place
        } else {
            self.body.end
        };
        // No encoder writes more than the samples themselves, and a little for each frame.
        let sample_bytes = u64::from(self.frames.channels) * (u64::from(self.frames.bits) / 8 + 2) + 2;
        let most = (samples.end - samples.start + 4 * u64::from(MAX_BLOCK)).saturating_mul(sample_bytes);
        if end.saturating_sub(start) > most {
            return Err(bad("it has bytes between its frames that are none: it is damaged; encode it again"));
        }
        Ok(start..end.max(start))
    }

    /// The whole body of a file in memory.
    pub(super) fn whole<'a>(&'a self, file: &'a [u8]) -> Stretch<'a> {
        self.stretch(file.get(self.body.start as usize..self.body.end as usize).unwrap_or_default())
    }

    /// Frames that were read from where [`Self::place`] says.
    pub(super) fn stretch<'a>(&'a self, bytes: &'a [u8]) -> Stretch<'a> {
        Stretch { stream: self, bytes }
    }
}

impl Stretch<'_> {
    /// Decodes the samples from `start` on, and mixes them to mono.
    pub(super) fn mono(&self, start: u64, into: &mut [f32]) -> Result<(), AudioError> {
        let Stream { frames, total, info, .. } = self.stream;
        let mut params = AudioCodecParameters::new();
        params.for_codec(CODEC_ID_FLAC).with_extra_data(info.as_slice().into());
        let mut decoder = FlacDecoder::try_new(&params, &AudioDecoderOptions::default())
            .map_err(|error| bad(format!("its header is damaged ({error}): fetch or encode it again")))?;

        let body = 0..self.bytes.len() as u64;
        let mut frame = frames.find(&mut Cursor::new(self.bytes), &body, start)?;
        let damaged = |sample: u64, why: &str| {
            bad(format!("it is damaged at sample {sample} of {total} ({why}): fetch or encode it again"))
        };
        if frame.first > start {
            return Err(damaged(start, "frames are missing"));
        }
        let end = start + into.len() as u64;
        let mut done = start;
        while done < end {
            let (bytes, next) = match self.extent(&frame) {
                Some(extent) => extent,
                // Damage in the last frame is nearly always a lost end.
                None if frame.end() >= *total => {
                    return Err(AudioError::Truncated { found: frame.first, declared: *total });
                }
                None => return Err(damaged(frame.first, "a wrong checksum")),
            };
            let packet = PacketRef::new(0, Timestamp::ZERO, Duration::ZERO, bytes);
            let decoded =
                decoder.decode_ref(&packet).map_err(|error| damaged(frame.first, &error.to_string()))?;
            let GenericAudioBufferRef::S32(decoded) = decoded else {
                return Err(damaged(frame.first, "samples of an unknown kind"));
            };
            let skipped = usize::try_from(done.saturating_sub(frame.first)).unwrap_or(usize::MAX);
            let planes: Vec<&[i32]> =
                decoded.iter_planes().map(|plane| plane.get(skipped..).unwrap_or_default()).collect();
            let mixed = mix(&planes, into.get_mut((done - start) as usize..).unwrap_or_default());
            if mixed == 0 {
                return Err(damaged(done, "an empty frame"));
            }
            done += mixed as u64;
            match next {
                Some(next) if next.first == frame.end() => frame = next,
                Some(_) => return Err(damaged(frame.end(), "frames are missing or too many")),
                None if done < end => return Err(damaged(done, "frames are missing")),
                None => {}
            }
        }
        Ok(())
    }

    /// The bytes of a frame whose checksum is right, and the frame that follows. None if there is no such end. A
    /// false header within a frame would need two right checksums.
    fn extent(&self, frame: &Found) -> Option<(&[u8], Option<Found>)> {
        let bytes = self.bytes.get(frame.place as usize..)?;
        let (mut crc, mut checked) = (0, 0);
        let mut place = MIN_FRAME_BYTES as usize;
        while let Some(offset) = frame::sync(bytes.get(place..)?) {
            place += offset;
            let next = self.stream.frames.parse(bytes.get(place..)?, frame.place + place as u64);
            if let Some(next) = next {
                crc = checksum::crc16(crc, bytes.get(checked..place)?);
                checked = place;
                if crc == 0 {
                    return Some((bytes.get(..place)?, Some(next)));
                }
            }
            place += 1;
        }
        (checksum::crc16(crc, bytes.get(checked..)?) == 0).then_some((bytes, None))
    }
}

/// The mean of the channels of as many frames as there are and fit. Samples fill the high bits of 32.
fn mix(planes: &[&[i32]], into: &mut [f32]) -> usize {
    const FULL: f32 = 2_147_483_648.0;
    let scale = |sample: i32| sample as f32 / FULL;
    let frames = planes.iter().map(|plane| plane.len()).min().unwrap_or(0).min(into.len());
    let into = into.get_mut(..frames).unwrap_or_default();
    pulp::Arch::new().dispatch(|| match planes {
        [one] => into.iter_mut().zip(*one).for_each(|(mono, sample)| *mono = scale(*sample)),
        [left, right] => into
            .iter_mut()
            .zip(left.iter().zip(*right))
            .for_each(|(mono, (left, right))| *mono = (scale(*left) + scale(*right)) * 0.5),
        _ => {
            for (frame, mono) in into.iter_mut().enumerate() {
                let sum: f32 =
                    planes.iter().filter_map(|plane| plane.get(frame)).map(|&sample| scale(sample)).sum();
                *mono = sum / planes.len() as f32;
            }
        }
    });
    frames
}
