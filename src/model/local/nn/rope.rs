//! Rotary position embedding. Angles are made in f32 and their cosines cast once: in bf16 positions above 256 would be
//! rounded.

use candle_core::{DType, Device, Result, Tensor};

/// The frequencies of a model, from which cosines and sines are made for the positions that are asked for: tables for
/// all positions of a model of 128k would take hundreds of megabytes.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    frequencies: Vec<f32>,
    dtype: DType,
    device: Device,
}

impl Rope {
    /// From the angle a position of each pair of a head's values.
    pub(crate) fn new(frequencies: Vec<f32>, dtype: DType, device: &Device) -> Self {
        Self { frequencies, dtype, device: device.clone() }
    }

    /// The frequencies of heads `width` wide: `theta^(-2i / width)`, in f32 as the reference implementation has them.
    pub(crate) fn frequencies(width: usize, theta: f64) -> Vec<f32> {
        (0..width / 2).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / width as f32)).collect()
    }

    /// Cosines and sines for `positions`, each (positions, width / 2), to be used for all layers.
    pub(crate) fn at(&self, positions: &[u32]) -> Result<(Tensor, Tensor)> {
        let shape = (positions.len(), self.frequencies.len());
        let table = |f: fn(f32) -> f32| {
            let angles = positions.iter().flat_map(|&position| {
                self.frequencies.iter().map(move |frequency| f(position as f32 * frequency))
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
