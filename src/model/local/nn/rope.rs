//! Rotary position embedding. Tables are made in f32 and cast once: in bf16 positions above 256 would be rounded.

use candle_core::{DType, Device, Result, Tensor};

/// Cosines and sines for all positions of a model.
#[derive(Clone, Debug)]
pub(crate) struct Rope {
    cos: Tensor,
    sin: Tensor,
}

impl Rope {
    /// Tables for `positions` positions and heads `width` wide.
    pub(crate) fn new(
        width: usize,
        positions: usize,
        theta: f64,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let half = width / 2;
        // In f32 from here on, as the reference implementation does.
        let frequencies: Vec<f32> =
            (0..half).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / width as f32)).collect();
        let angles: Vec<f32> = (0..positions)
            .flat_map(|position| frequencies.iter().map(move |f| position as f32 * f))
            .collect();
        let table = |f: fn(f32) -> f32| {
            Tensor::from_vec(
                angles.iter().map(|&angle| f(angle)).collect::<Vec<f32>>(),
                (positions, half),
                device,
            )?
            .to_dtype(dtype)
        };
        Ok(Self { cos: table(f32::cos)?, sin: table(f32::sin)? })
    }

    /// The rows of the tables for `positions`, to be used for all layers.
    pub(crate) fn at(&self, positions: &[u32]) -> Result<(Tensor, Tensor)> {
        let index = Tensor::new(positions, self.cos.device())?;
        Ok((self.cos.index_select(&index, 0)?, self.sin.index_select(&index, 0)?))
    }
}

/// Turns (heads, tokens, width) by the rows of the tables, one for each token.
pub(crate) fn rotate(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
    candle_nn::rotary_emb::rope(&x.unsqueeze(0)?.contiguous()?, cos, sin)?.squeeze(0)
}
