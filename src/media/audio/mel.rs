//! Log-mel spectrograms as Hugging Face's `WhisperFeatureExtractor` makes them.
//!
//! Local models are only as right as their features, and every ready port differs from the reference in
//! padding, scaling or the floor. This is the reference's own recipe (its float64 path): 16 kHz samples,
//! padded with zeros to 30 s, reflected by 200 at both ends, frames of 400 every 160 under a periodic Hann
//! window, power spectrum, Slaney mel filters, `log10(max(x, 1e-10))`, a floor at the window's maximum less
//! 8, `(x + 4) / 4`.
//!
//! It takes samples and gives numbers: it must not know files, windows or models.

#![expect(clippy::inline_always, reason = "vector instructions reach only what is inlined")]

use std::f32::consts::{LN_10, LOG10_2, SQRT_2};
use std::f64::consts::PI;
use std::ops::Range;
use std::thread;

use thiserror::Error;

use super::spectrum::{FREQUENCIES, LENGTH, Spectrum};
use crate::types::LogMel;

/// The rate that features are made at, in Hz.
pub const RATE: u32 = 16_000;
/// The most samples of a clip: 30 s.
pub const MAX_SAMPLES: usize = 480_000;
/// Samples between frames: 10 ms.
pub const HOP: usize = 160;
/// Frames of every spectrogram.
pub const FRAMES: usize = MAX_SAMPLES / HOP;

/// Samples of a frame, and length of its Fourier transform.
const WINDOW: usize = LENGTH;
/// Samples of a frame before its centre.
const HALF: usize = WINDOW / 2;
/// Frames that go through filters and logarithm together, one a vector lane.
const LANES: usize = 8;
/// Power below which everything is silence.
const SILENCE: f64 = 1e-10;
/// Frames below which a second thread costs more than it saves.
const FRAMES_A_THREAD: usize = 500;

/// Why there is no spectrogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MelError {
    /// The number of mel bands.
    #[error("log-mel features have 80 or 128 bands, not {0}: check the model's `num_mel_bins`")]
    Bins(usize),
    /// The clip.
    #[error("log-mel features take at most {MAX_SAMPLES} samples (30 s at 16 kHz), this clip has {0}")]
    TooLong(usize),
}

/// One triangular filter: weights of the frequencies from `first` on.
#[derive(Clone, Debug)]
struct Band {
    first: usize,
    weights: Vec<f64>,
}

/// Makes log-mel features. Filters and transform are planned once; share it between threads.
#[derive(Clone)]
pub struct MelExtractor {
    bins: usize,
    spectrum: Spectrum,
    window: Vec<f64>,
    bands: Vec<Band>,
}

impl MelExtractor {
    /// An extractor of `bins` mel bands: 80 or 128, the two that Whisper and its descendants use.
    pub fn new(bins: usize) -> Result<Self, MelError> {
        if bins != 80 && bins != 128 {
            return Err(MelError::Bins(bins));
        }
        Ok(Self {
            bins,
            spectrum: Spectrum::new(),
            window: (0..WINDOW).map(|i| 0.5 - 0.5 * (2.0 * PI * i as f64 / WINDOW as f64).cos()).collect(),
            bands: bands(bins),
        })
    }

    /// Mel bands.
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// The features of a clip of mono samples at 16 kHz: always 3000 frames. A clip of more than 480,000
    /// samples is an error, never cut.
    pub fn compute(&self, samples: &[f32]) -> Result<LogMel, MelError> {
        if samples.len() > MAX_SAMPLES {
            return Err(MelError::TooLong(samples.len()));
        }
        // Frame i covers the samples from 160 i - 200 on: those after the sound are silence, whose value is
        // known. At the very end the reflection reaches back 40 samples, which no frame reaches past.
        let sounding = samples.len().saturating_add(HALF).div_ceil(HOP).min(FRAMES);
        let parts = self.parts(samples, sounding);

        let mut highest = if sounding < FRAMES { SILENCE.log10() as f32 } else { f32::NEG_INFINITY };
        for part in &parts {
            highest = highest.max(part.highest);
        }
        let floor = highest - 8.0;
        let finish = |log: f32| (log.max(floor) + 4.0) / 4.0;

        let silence = finish(SILENCE.log10() as f32);
        let mut data = Vec::with_capacity(self.bins * FRAMES);
        for bin in 0..self.bins {
            for part in &parts {
                data.extend(part.row(bin).iter().map(|log| finish(*log)));
            }
            data.resize((bin + 1) * FRAMES, silence);
        }
        let valid_frames = samples.len().div_ceil(HOP).min(FRAMES);
        Ok(LogMel { bins: self.bins, frames: FRAMES, valid_frames, data })
    }

    /// The logarithms of the first `sounding` frames, in parts that threads made.
    fn parts(&self, samples: &[f32], sounding: usize) -> Vec<Part> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(4);
        let threads = threads.min(sounding / FRAMES_A_THREAD).max(1);
        let blocks = sounding.div_ceil(LANES);
        let mut ranges = (0..threads).map(|i| {
            let edge = |i: usize| (blocks * i / threads * LANES).min(sounding);
            edge(i)..edge(i + 1)
        });
        let arch = pulp::Arch::new();
        let part = |frames: Range<usize>| arch.dispatch(|| self.part(samples, frames));
        thread::scope(|scope| {
            let first = ranges.next().unwrap_or(0..0);
            let others: Vec<_> = ranges.map(|range| scope.spawn(|| part(range))).collect();
            let mut parts = vec![part(first)];
            for other in others {
                parts.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            parts
        })
    }

    #[inline(always)]
    fn part(&self, samples: &[f32], frames: Range<usize>) -> Part {
        let blocks = frames.len().div_ceil(LANES);
        let width = blocks * LANES;
        let mut part = Part { frames, width, logs: vec![0.0; self.bins * width], highest: f32::NEG_INFINITY };
        let mut input = [0.0; WINDOW];
        let mut room = self.spectrum.room();
        let mut powers = vec![[0.0; LANES]; FREQUENCIES];
        let mut highest = [f32::NEG_INFINITY; LANES];

        for block in 0..blocks {
            for lane in 0..LANES {
                let frame = part.frames.start + block * LANES + lane;
                self.frame(samples, frame, &mut input);
                for (power, value) in powers.iter_mut().zip(self.spectrum.powers(&input, &mut room)) {
                    power[lane] = value;
                }
            }
            let real_lanes = (part.frames.len() - block * LANES).min(LANES);
            for (band, row) in self.bands.iter().zip(part.logs.chunks_exact_mut(width)) {
                let mut sums = [0.0; LANES];
                for (power, weight) in powers[band.first..].iter().zip(&band.weights) {
                    for (sum, power) in sums.iter_mut().zip(power) {
                        *sum += power * weight;
                    }
                }
                for sum in &mut sums {
                    *sum = if *sum > SILENCE { *sum } else { SILENCE };
                }
                let logs = log10(sums);
                for (high, log) in highest[..real_lanes].iter_mut().zip(&logs) {
                    *high = if *log > *high { *log } else { *high };
                }
                row[block * LANES..][..LANES].copy_from_slice(&logs);
            }
        }
        part.highest = highest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        part
    }

    /// The samples of one frame under the window; those before the start and after 30 s are reflected.
    #[inline(always)]
    fn frame(&self, samples: &[f32], frame: usize, into: &mut [f64]) {
        let begin = frame * HOP;
        let inner = begin.checked_sub(HALF).and_then(|start| samples.get(start..start + WINDOW));
        if let Some(inner) = inner {
            for ((value, sample), weight) in into.iter_mut().zip(inner).zip(&self.window) {
                *value = f64::from(*sample) * weight;
            }
            return;
        }
        for (i, (value, weight)) in into.iter_mut().zip(&self.window).enumerate() {
            let place = (begin + i).abs_diff(HALF);
            let place = if place < MAX_SAMPLES { place } else { 2 * (MAX_SAMPLES - 1) - place };
            *value = f64::from(samples.get(place).copied().unwrap_or(0.0)) * weight;
        }
    }
}

/// Consecutive frames, logarithms taken, one row of `width` for each band.
struct Part {
    frames: Range<usize>,
    width: usize,
    logs: Vec<f32>,
    highest: f32,
}

impl Part {
    fn row(&self, bin: usize) -> &[f32] {
        self.logs.get(bin * self.width..).and_then(|rows| rows.get(..self.frames.len())).unwrap_or_default()
    }
}

/// Decimal logarithms of positive normal numbers, to the last bits of a float. The standard library's can't be
/// vectorised.
#[inline(always)]
fn log10(values: [f64; LANES]) -> [f32; LANES] {
    const BIAS: i32 = 127;
    const MANTISSA: i32 = (1 << 23) - 1;
    // A loop and not `map`, whose closure would be compiled without the vector instructions.
    let mut logs = [0.0; LANES];
    for (log, value) in logs.iter_mut().zip(values) {
        let bits = (value as f32).to_bits() as i32;
        let mantissa = f32::from_bits(((bits & MANTISSA) | (BIAS << 23)) as u32);
        let high = mantissa > SQRT_2;
        let mantissa = if high { mantissa * 0.5 } else { mantissa };
        let exponent = ((bits >> 23) - BIAS + i32::from(high)) as f32;
        // ln m = 2 artanh((m - 1) / (m + 1)); |s| < 0.1716, so that five terms are enough.
        let s = (mantissa - 1.0) / (mantissa + 1.0);
        let t = s * s;
        let series = t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * (1.0 / 7.0 + t / 9.0)));
        *log = exponent * LOG10_2 + 2.0 / LN_10 * (s + s * series);
    }
    logs
}

/// The Slaney-scale, Slaney-normalised triangular filters from 0 Hz to 8 kHz.
fn bands(bins: usize) -> Vec<Band> {
    let nyquist = f64::from(RATE) / 2.0;
    let top = hertz_to_mel(nyquist);
    let edges: Vec<f64> = (0..bins + 2).map(|i| mel_to_hertz(top * i as f64 / (bins + 1) as f64)).collect();
    edges
        .windows(3)
        .map(|edge| {
            let (low, centre, high) = (edge[0], edge[1], edge[2]);
            let weight = |k: usize| {
                let hertz = nyquist * k as f64 / HALF as f64;
                let rising = (hertz - low) / (centre - low);
                let falling = (high - hertz) / (high - centre);
                rising.min(falling).max(0.0) * 2.0 / (high - low)
            };
            let first = (0..FREQUENCIES).find(|&k| weight(k) > 0.0).unwrap_or(0);
            let weights = (first..FREQUENCIES).map(weight).take_while(|&weight| weight > 0.0).collect();
            Band { first, weights }
        })
        .collect()
}

/// Slaney's scale: linear to 1 kHz (15 mel), logarithmic above.
fn hertz_to_mel(hertz: f64) -> f64 {
    if hertz < 1000.0 { 3.0 * hertz / 200.0 } else { 15.0 + (hertz / 1000.0).ln() * (27.0 / 6.4_f64.ln()) }
}

fn mel_to_hertz(mel: f64) -> f64 {
    if mel < 15.0 { 200.0 * mel / 3.0 } else { 1000.0 * ((mel - 15.0) * (6.4_f64.ln() / 27.0)).exp() }
}

#[cfg(test)]
mod tests;
