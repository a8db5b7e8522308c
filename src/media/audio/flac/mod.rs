//! FLAC: symphonia decodes, this finds.
//!
//! symphonia's decoder is the product's, its demuxer is used on one stretch of frames at a time. The rest is
//! ours, because the demuxer alone drops damaged frames silently, fails to seek near the end of a file (its
//! search reads into the last frame and finds no next header), and allocates what a picture block claims. So
//! metadata blocks are skipped unread, frames are found by their headers ([`frame`]), and every decoded frame
//! must follow on the one before: what is missing is an error.

mod frame;

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;

use symphonia::core::audio::{Audio, GenericAudioBufferRef};
use symphonia::core::codecs::audio::AudioDecoder;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error as SymphoniaError;
use symphonia::core::formats::{FormatOptions, FormatReader};
use symphonia::core::io::{MediaSource, MediaSourceStream};
use symphonia::default::codecs::FlacDecoder;
use symphonia::default::formats::FlacReader;

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
    /// The start of a stream of these frames, as symphonia wants it.
    preamble: Vec<u8>,
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
        if kind & 0x7f == 0 && info.is_none() {
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
        Some(first) if first.first != 0 => {
            return Err(bad(format!(
                "its sound begins with sample {} instead of 0: it is part of a longer file",
                first.first
            )));
        }
        Some(first) => first,
        None if body.is_empty() && declared == 0 => return Err(AudioError::NoSamples),
        None if body.is_empty() => return Err(AudioError::Truncated { found: 0, declared }),
        None => return Err(bad("no sound follows its header: it is damaged; fetch or encode it again")),
    };
    if first.is_fixed {
        frames.stride = first.samples;
    }
    let last = frames.find(reader, &body, u64::MAX)?;
    let found = last.first.saturating_add(u64::from(last.samples));
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
    let preamble = preamble(&info, &first);
    Ok((source, Stream { body, frames, total: found, preamble }))
}

fn read_exact<R: Read>(reader: &mut R, into: &mut [u8]) -> Result<(), AudioError> {
    reader.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => bad("it ends within its header: fetch or copy it again"),
        _ => AudioError::Io(error),
    })
}

/// The end of the frames: an ID3v1 tag after them would count as a damaged last frame.
fn without_tag<R: Read + Seek>(reader: &mut R, length: u64) -> Result<u64, AudioError> {
    const TAG: u64 = 128;
    let Some(start) = length.checked_sub(TAG) else { return Ok(length) };
    let mut name = [0; 3];
    reader.seek(SeekFrom::Start(start))?;
    reader.read_exact(&mut name)?;
    Ok(if &name == b"TAG" { start } else { length })
}

/// Marker and STREAMINFO for symphonia. Sizes of blocks are made to agree with the numbering of frames, by which
/// it judges them; sizes of frames, total and MD5 are left out, since only a stretch of the stream follows.
fn preamble(info: &[u8; STREAM_INFO], first: &Found) -> Vec<u8> {
    let (least, most) = if first.is_fixed {
        let block = first.samples.clamp(16, MAX_BLOCK) as u16;
        (block, block)
    } else {
        (16, MAX_BLOCK as u16)
    };
    let mut bytes = b"fLaC\x80\0\0\x22".to_vec();
    bytes.extend(least.to_be_bytes());
    bytes.extend(most.to_be_bytes());
    bytes.extend([0; 6]);
    // Rate, channels and bits; the last four bits begin the total.
    bytes.extend(&info[10..13]);
    bytes.push(info[13] & 0xf0);
    bytes.extend([0; 20]);
    bytes
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
        let body = 0..self.bytes.len() as u64;
        let place = self.stream.frames.find(&mut Cursor::new(self.bytes), &body, start)?.place;
        let bytes = self.bytes.get(place as usize..).unwrap_or_default();
        let source = Spliced { parts: [&self.stream.preamble, bytes], position: 0 };
        let source = MediaSourceStream::new(Box::new(source), Default::default());
        let mut reader = FlacReader::try_new(source, FormatOptions::default()).map_err(damaged)?;
        let params = reader
            .tracks()
            .first()
            .and_then(|track| track.codec_params.as_ref()?.audio().cloned())
            .ok_or_else(|| bad("it has no sound"))?;
        let mut decoder = FlacDecoder::try_new(&params, &AudioDecoderOptions::default()).map_err(damaged)?;

        let end = start + into.len() as u64;
        let (mut next, mut done) = (None, start);
        while done < end {
            let Some(packet) = reader.next_packet().map_err(damaged)? else {
                return Err(AudioError::Truncated { found: done, declared: self.stream.total });
            };
            let first = u64::try_from(packet.pts.get()).unwrap_or(u64::MAX);
            if next.map_or(first > done, |next| first != next) {
                let lost = next.unwrap_or(done);
                return Err(bad(format!(
                    "it is damaged at sample {lost} of {}: fetch or encode it again",
                    self.stream.total
                )));
            }
            let decoded = decoder.decode(&packet).map_err(|error| {
                bad(format!("it is damaged at sample {first} ({error}): fetch or encode it again"))
            })?;
            let GenericAudioBufferRef::S32(decoded) = decoded else {
                return Err(bad("it has samples of an unknown kind"));
            };
            let skipped = usize::try_from(done.saturating_sub(first)).unwrap_or(usize::MAX);
            let planes: Vec<&[i32]> = decoded.iter_planes().collect();
            let planes: Vec<&[i32]> =
                planes.iter().map(|plane| plane.get(skipped..).unwrap_or_default()).collect();
            let space = into.get_mut((done - start) as usize..).unwrap_or_default();
            done += mix(&planes, space) as u64;
            next = Some(first + decoded.frames() as u64);
        }
        // Nothing may follow the last frame.
        if end == self.stream.total && reader.next_packet().map_err(damaged)?.is_some() {
            return Err(bad("it goes on after its last sample: it is damaged; encode it again"));
        }
        Ok(())
    }
}

fn damaged(error: SymphoniaError) -> AudioError {
    bad(format!("it is damaged ({error}): fetch or encode it again"))
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
            .for_each(|(mono, (left, right))| *mono = (scale(*left) + scale(*right)) / 2.0),
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

/// Two slices as one stream.
struct Spliced<'a> {
    parts: [&'a [u8]; 2],
    position: usize,
}

impl Read for Spliced<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let [first, second] = self.parts;
        let rest = match first.get(self.position..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => second.get(self.position.saturating_sub(first.len())..).unwrap_or_default(),
        };
        let count = rest.len().min(into.len());
        if let (Some(into), Some(rest)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(rest);
        }
        self.position += count;
        Ok(count)
    }
}

impl Seek for Spliced<'_> {
    fn seek(&mut self, _: SeekFrom) -> std::io::Result<u64> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

impl MediaSource for Spliced<'_> {
    fn is_seekable(&self) -> bool {
        false
    }

    fn byte_len(&self) -> Option<u64> {
        None
    }
}
