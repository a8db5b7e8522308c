//! Rotary position embedding. Angles are made in f32 and their cosines cast once: in bf16 positions above 256 would be
//! rounded.

use candle_core::{DType, Device, Result, Tensor};

/// Where a token stands: in time, height and width. Of text all three are equal.
pub(crate) type Position = [u32; 3];

/// The frequencies of a model, from which cosines and sines are made for the positions that are asked for: tables for
/// all positions of a model of 128k would take hundreds of megabytes.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    /// Each with which of the three positions it turns by.
    frequencies: Vec<(f32, usize)>,
    dtype: DType,
    device: Device,
}

impl Rope {
    /// From the angle a position of each pair of a head's values. `axes` says which of the three positions turns each
    /// pair: 0, 1 or 2, and 0 where it says nothing.
    pub(crate) fn new(frequencies: &[f32], axes: &[usize], dtype: DType, device: &Device) -> Self {
        let axes = axes.iter().map(|axis| axis % 3).chain(std::iter::repeat(0));
        let frequencies = frequencies.iter().copied().zip(axes).collect();
        Self { frequencies, dtype, device: device.clone() }
    }

    /// The frequencies of heads `width` wide: `theta^(-2i / width)`, in f32 as the reference implementation has them.
    pub(crate) fn frequencies(width: usize, theta: f64) -> Vec<f32> {
        (0..width / 2).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / width as f32)).collect()
    }

    /// Cosines and sines for `positions`, each (positions, width / 2), to be used for all layers.
    pub(crate) fn at(&self, positions: &[Position]) -> Result<(Tensor, Tensor)> {
        let shape = (positions.len(), self.frequencies.len());
        let table = |f: fn(f32) -> f32| {
            let angles = positions.iter().flat_map(|position| {
                self.frequencies.iter().map(move |&(frequency, axis)| f(position[axis] as f32 * frequency))
            });
            Tensor::from_vec(angles.collect::<Vec<f32>>(), shape, &self.device)?.to_dtype(self.dtype)
        };
        Ok((table(f32::cos)?, table(f32::sin)?))
    }
}

/// Turns (heads, tokens, width) by the rows of the tables, one for each token.
pub(crate) fn rotate(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
    candle_nn::rotary_emb::rope(&x.unsqueeze(0)?.contiguous()?, cos, sin)?.squeeze(0)
}
