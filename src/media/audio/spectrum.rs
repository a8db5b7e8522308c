//! Power spectra of real frames: the one Fourier transform that log-mel features need.
//!
//! A planner of Fourier transforms takes code for every length with it, several times over for the instruction
//! sets: a sixth of this program, compiled again with every change. The length here is known, so the transform
//! is put together of the parts that it needs.
//!
//! It takes numbers and gives numbers: it must not know rates, windows or filters.

use std::f64::consts::PI;
use std::sync::Arc;

use rustfft::algorithm::butterflies::{Butterfly5, Butterfly8};
use rustfft::algorithm::{MixedRadix, MixedRadixSmall};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection};

/// Samples of a frame.
pub(super) const LENGTH: usize = 400;
/// Frequencies of a spectrum, the mean and half the rate included.
pub(super) const FREQUENCIES: usize = LENGTH / 2 + 1;

/// Makes power spectra of frames of 400 samples. Share it between threads.
#[derive(Clone)]
pub(super) struct Spectrum {
    /// Of half the length: even samples are its real parts, odd ones its imaginary parts.
    half: Arc<dyn Fft<f64>>,
    /// `exp(-2 pi i k / 400)`.
    turns: Vec<Complex<f64>>,
}

/// What one thread needs to make spectra.
pub(super) struct Room {
    values: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

impl Spectrum {
    /// Plans the transform.
    pub(super) fn new() -> Self {
        let direction = FftDirection::Forward;
        let five = Arc::new(Butterfly5::new(direction));
        let twenty_five = Arc::new(MixedRadixSmall::new(five.clone(), five));
        let half = Arc::new(MixedRadix::new(Arc::new(Butterfly8::new(direction)), twenty_five));
        let turns = (0..FREQUENCIES).map(|k| Complex::from_polar(1.0, -2.0 * PI * k as f64 / LENGTH as f64));
        Self { half, turns: turns.collect() }
    }

    /// Room for [`powers`](Self::powers) to work in.
    pub(super) fn room(&self) -> Room {
        let empty = Complex::default();
        Room { values: vec![empty; LENGTH / 2], scratch: vec![empty; self.half.get_inplace_scratch_len()] }
    }

    /// The power of each of the 201 frequencies of a frame, in their order.
    #[inline]
    pub(super) fn powers(&self, frame: &[f64; LENGTH], room: &mut Room) -> impl Iterator<Item = f64> {
        for (value, pair) in room.values.iter_mut().zip(frame.chunks_exact(2)) {
            *value = Complex::new(pair[0], pair[1]);
        }
        self.half.process_with_scratch(&mut room.values, &mut room.scratch);
        let values = &room.values;
        let count = values.len();
        self.turns.iter().enumerate().map(move |(k, turn)| {
            let value = values[k % count];
            let mirrored = values[(count - k) % count].conj();
            let even = value + mirrored;
            let odd = (value - mirrored) * turn;
            // Both are twice too large, and `odd` still waits for its division by i.
            let (re, im) = (even.re + odd.im, even.im - odd.re);
            0.25 * (re * re + im * im)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_those_of_the_definition() {
        let mut state = 1_u32;
        let frame: [f64; LENGTH] = std::array::from_fn(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state) / f64::from(u32::MAX) - 0.5
        });
        let spectrum = Spectrum::new();
        let powers: Vec<f64> = spectrum.powers(&frame, &mut spectrum.room()).collect();
        assert_eq!(powers.len(), FREQUENCIES);
        for (k, power) in powers.iter().enumerate() {
            let sum: Complex<f64> = (frame.iter().enumerate())
                .map(|(n, x)| Complex::from_polar(*x, -2.0 * PI * (k * n) as f64 / LENGTH as f64))
                .sum();
            let expected = sum.norm_sqr();
            assert!((power - expected).abs() < 1e-10 * (1.0 + expected), "{k}: {power} {expected}");
        }
    }
}
