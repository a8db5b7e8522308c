//! Audio: from a file's bytes to the samples, and features, that a model hears.
//!
//! What a clip is comes from its content, never from its name. WAV and FLAC are decoded, mixed to
//! mono, resampled and windowed, in that order, and every step is in the clip's [`AudioRecord`]. A clip that
//! cannot be had whole and exact is an error with a sentence; nothing is shortened, skipped or repaired in
//! silence. A window of a long file is read without the rest, and is to the bit what slicing the whole gives.
//!
//! This room must not know requests, journals or models.

mod error;
mod flac;
pub mod mel;
mod resample;
mod sniff;
mod spectrum;
mod wav;
pub mod windows;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use crate::types::{AudioRecord, AudioSource, Digest, Window};
pub use error::AudioError;
use resample::Resampler;
use sniff::Container;
pub use sniff::OtherFile;
pub(super) use sniff::format;

/// Rates that are read, in Hz: from telephone logging to the fastest converters.
const RATES: std::ops::RangeInclusive<u32> = 100..=768_000;
/// Frames below which a second thread costs more than it saves.
const FRAMES_A_THREAD: u64 = 100_000;
/// Begins what the digest of a window is made of.
const WINDOW_DIGEST: &[u8] = b"harness audio window 1\0";

/// What a model wants a clip to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeSpec {
    /// The rate in Hz.
    pub rate: u32,
    /// Which part of the clip.
    pub window: Window,
    /// The longest clip that the model takes, in seconds; infinity where it takes any.
    pub max_seconds: f64,
}

/// A clip as a model hears it.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// Mono samples at the rate that was asked for, full scale at 1; floats beyond are kept.
    pub samples: Vec<f32>,
    /// For `whole` the blake3 hash of the file's bytes; for other windows that of the mono samples, at the
    /// file's rate, that the window depends on, with both rates and the window's place among them.
    pub digest: Digest,
    /// Where it came from and what was done to it.
    pub record: AudioRecord,
}

/// Decodes a file. Only the part that the window needs is read, unless the window is the whole clip.
pub fn decode_file(path: &Path, spec: &DecodeSpec) -> Result<Clip, AudioError> {
    decode(&mut File::open(path)?, spec)
}

/// Decodes a file that is in memory.
pub fn decode_bytes(bytes: &[u8], spec: &DecodeSpec) -> Result<Clip, AudioError> {
    let mut reader = Cursor::new(bytes);
    let header = Header::read(&mut reader)?;
    let plan = Plan::new(&header.source, spec)?;
    match spec.window {
        Window::Whole => plan.whole(&header, bytes),
        Window::First | Window::Last => plan.window(&header, &mut reader),
    }
}

/// What the header of a file says, its beginning and end checked; nothing is decoded.
pub fn probe_file(path: &Path) -> Result<AudioSource, AudioError> {
    Ok(Header::read(&mut File::open(path)?)?.source)
}

/// The same for what a reader holds.
pub(super) fn probe<R: Read + Seek>(reader: &mut R) -> Result<AudioSource, AudioError> {
    Ok(Header::read(reader)?.source)
}

/// The same for a file that is in memory.
pub fn probe_bytes(bytes: &[u8]) -> Result<AudioSource, AudioError> {
    Ok(Header::read(&mut Cursor::new(bytes))?.source)
}

/// Decodes what a reader holds.
fn decode<R: Read + Seek>(reader: &mut R, spec: &DecodeSpec) -> Result<Clip, AudioError> {
    let header = Header::read(reader)?;
    let plan = Plan::new(&header.source, spec)?;
    match spec.window {
        Window::Whole => {
            let mut bytes = Vec::new();
            reader.seek(SeekFrom::Start(0))?;
            reader.read_to_end(&mut bytes)?;
            // The file may have changed since.
            let header = Header::read(&mut Cursor::new(&bytes))?;
            Plan::new(&header.source, spec)?.whole(&header, &bytes)
        }
        Window::First | Window::Last => plan.window(&header, reader),
    }
}

/// What a file is and where its samples are.
struct Header {
    source: AudioSource,
    body: Body,
}

enum Body {
    Wav(wav::Data),
    Flac(flac::Stream),
}

/// Bytes in memory that hold a range of frames.
enum Held<'a> {
    Wav { data: &'a wav::Data, bytes: &'a [u8], start: u64 },
    Flac(flac::Stretch<'a>),
}

impl Header {
    fn read<R: Read + Seek>(reader: &mut R) -> Result<Self, AudioError> {
        let container = sniff::sniff(reader)??;
        let length = reader.seek(SeekFrom::End(0))?;
        let (source, body) = match container {
            Container::Wav => {
                let (source, data) = wav::header(reader, length)?;
                (source, Body::Wav(data))
            }
            Container::Flac { start } => {
                let (source, stream) = flac::header(reader, start, length)?;
                (source, Body::Flac(stream))
            }
        };
        if !RATES.contains(&source.rate) {
            let reason = format!(
                "its header declares a rate of {} Hz instead of {} to {}: convert it again",
                source.rate,
                RATES.start(),
                RATES.end()
            );
            return Err(match body {
                Body::Wav(_) => AudioError::Wav(reason),
                Body::Flac(_) => AudioError::Flac(reason),
            });
        }
        Ok(Self { source, body })
    }

    /// Where the bytes of some frames are.
    fn place<R: Read + Seek>(&self, reader: &mut R, frames: &Range<u64>) -> Result<Range<u64>, AudioError> {
        match &self.body {
            Body::Wav(data) => Ok(data.place(frames)),
            Body::Flac(stream) => stream.place(reader, frames),
        }
    }

    /// The bytes of a whole file, to take frames from.
    fn whole<'a>(&'a self, file: &'a [u8]) -> Held<'a> {
        match &self.body {
            Body::Wav(data) => {
                let place = data.place(&(0..self.source.frames));
                let bytes = file.get(place.start as usize..place.end as usize).unwrap_or_default();
                Held::Wav { data, bytes, start: 0 }
            }
            Body::Flac(stream) => Held::Flac(stream.whole(file)),
        }
    }

    /// Bytes that were read from [`Self::place`], to take frames from `start` on from.
    fn part<'a>(&'a self, bytes: &'a [u8], start: u64) -> Held<'a> {
        match &self.body {
            Body::Wav(data) => Held::Wav { data, bytes, start },
            Body::Flac(stream) => Held::Flac(stream.stretch(bytes)),
        }
    }
}

impl Held<'_> {
    /// The mono samples of some frames.
    fn mono(&self, frames: &Range<u64>) -> Result<Vec<f32>, AudioError> {
        let count = frames.end - frames.start;
        let too_large = || AudioError::TooLarge(count);
        let length = usize::try_from(count).map_err(|_| too_large())?;
        // Asked for first, since there is no fallible way to get memory that is zero already.
        Vec::<f32>::new().try_reserve_exact(length).map_err(|_| too_large())?;
        let mut mono = vec![0.0; length];

        let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(4)) as u64;
        let chunk = count.div_ceil(threads).max(FRAMES_A_THREAD);
        let part = |index: usize, into: &mut [f32]| {
            let start = frames.start + index as u64 * chunk;
            self.mono_part(start, into)
        };
        let part = &part;
        let results: Vec<Result<(), AudioError>> = thread::scope(|scope| {
            let mut parts = mono.chunks_mut(chunk as usize).enumerate();
            let own = parts.next();
            let others: Vec<_> = parts.map(|(index, into)| scope.spawn(move || part(index, into))).collect();
            let own = own.map_or(Ok(()), |(index, into)| part(index, into));
            let join = |other: thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            std::iter::once(own).chain(others.into_iter().map(join)).collect()
        });
        // The first error of the clip, whichever thread was faster.
        results.into_iter().collect::<Result<(), AudioError>>()?;
        Ok(mono)
    }

    fn mono_part(&self, start: u64, into: &mut [f32]) -> Result<(), AudioError> {
        match self {
            Self::Flac(stretch) => stretch.mono(start, into),
            Self::Wav { data, bytes, start: first } => {
                let frames = start - first..start - first + into.len() as u64;
                let place = data.place_in_part(&frames);
                let bytes = bytes.get(place.start as usize..place.end as usize).unwrap_or_default();
                data.mono(bytes, into);
                match into.iter().position(|sample| !sample.is_finite()) {
                    Some(place) => Err(AudioError::NotFinite { frame: start + place as u64 }),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Which samples are wanted, at the model's rate and at the file's.
struct Plan<'a> {
    spec: &'a DecodeSpec,
    /// None where the file has the rate that is wanted.
    resampler: Option<Arc<Resampler>>,
    /// At the model's rate.
    outputs: Range<u64>,
    /// Of the whole clip, at the model's rate.
    total: u64,
    /// At the file's rate.
    frames: Range<u64>,
}

impl<'a> Plan<'a> {
    fn new(source: &AudioSource, spec: &'a DecodeSpec) -> Result<Self, AudioError> {
        if !RATES.contains(&spec.rate) {
            return Err(AudioError::Spec(format!(
                "the model's rate is {} Hz instead of {} to {}",
                spec.rate,
                RATES.start(),
                RATES.end()
            )));
        }
        let limit = (spec.max_seconds * f64::from(spec.rate)).round();
        if limit.is_nan() || limit < 1.0 {
            return Err(AudioError::Spec(format!(
                "`max_seconds` is {}: it must be more than 0",
                spec.max_seconds
            )));
        }
        let rate = f64::from(source.rate);
        if spec.window == Window::Whole && source.frames as f64 > spec.max_seconds * rate + 0.5 {
            return Err(AudioError::TooLong { length: source.frames as f64 / rate, limit: spec.max_seconds });
        }

        let resampler = (source.rate != spec.rate).then(|| Resampler::get(source.rate, spec.rate));
        let total = resampler.as_ref().map_or(source.frames, |resampler| resampler.output_len(source.frames));
        let outputs = match spec.window {
            Window::Whole => 0..total,
            Window::First => 0..total.min(limit as u64),
            Window::Last => total.saturating_sub(limit as u64)..total,
        };
        let frames =
            resampler.as_ref().map_or(outputs.clone(), |resampler| resampler.input(&outputs, source.frames));
        Ok(Self { spec, resampler, outputs, total, frames })
    }

    fn whole(self, header: &Header, file: &[u8]) -> Result<Clip, AudioError> {
        let mono = header.whole(file).mono(&self.frames)?;
        Ok(self.clip(&header.source, mono, Digest::of(file)))
    }

    fn window<R: Read + Seek>(self, header: &Header, reader: &mut R) -> Result<Clip, AudioError> {
        let place = header.place(reader, &self.frames)?;
        let mut bytes = Vec::new();
        reader.seek(SeekFrom::Start(place.start))?;
        reader.take(place.end - place.start).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < place.end - place.start {
            return Err(AudioError::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mono = header.part(&bytes, self.frames.start).mono(&self.frames)?;
        drop(bytes);
        let digest = self.window_digest(&header.source, &mono);
        Ok(self.clip(&header.source, mono, digest))
    }

    /// Hash of all that the window's samples depend on, and of nothing that depends on the machine.
    fn window_digest(&self, source: &AudioSource, mono: &[f32]) -> Digest {
        let mut hash = blake3::Hasher::new();
        hash.update(WINDOW_DIGEST);
        hash.update(&source.rate.to_le_bytes());
        hash.update(&self.spec.rate.to_le_bytes());
        // Where the first output lies: whole samples behind the first of `mono`, and its phase.
        let (place, phase) = match &self.resampler {
            Some(resampler) => resampler.place(self.outputs.start),
            None => (self.outputs.start, 0),
        };
        hash.update(&place.saturating_sub(self.frames.start).to_le_bytes());
        hash.update(&phase.to_le_bytes());
        hash.update(&(self.outputs.end - self.outputs.start).to_le_bytes());
        let mut bytes = Vec::with_capacity(mono.len().min(4096) * 4);
        for chunk in mono.chunks(4096) {
            bytes.clear();
            bytes.extend(chunk.iter().flat_map(|sample| sample.to_le_bytes()));
            hash.update(&bytes);
        }
        Digest(*hash.finalize().as_bytes())
    }

    fn clip(self, source: &AudioSource, mono: Vec<f32>, digest: Digest) -> Clip {
        let samples = match &self.resampler {
            Some(resampler) => resampler.run(&mono, self.frames.start, &self.outputs),
            None => mono,
        };
        let mut steps = Vec::new();
        if source.channels > 1 {
            steps.push("downmix".to_owned());
        }
        if self.resampler.is_some() {
            steps.push("resample:soxr_hq".to_owned());
        }
        if samples.len() as u64 != self.total {
            steps.push(format!("window:{}", self.spec.window.as_str()));
        }
        let record = AudioRecord {
            source: source.clone(),
            window: self.spec.window,
            start: self.outputs.start,
            samples: samples.len() as u64,
            rate: self.spec.rate,
            steps,
        };
        Clip { samples, digest, record }
    }
}
