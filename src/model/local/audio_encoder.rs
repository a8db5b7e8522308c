//! The audio encoder of Whisper, and that of Qwen2-Audio, which is the same with pooling by two before the last norm.
//!
//! Whisper hears all 1500 positions of the 30 s window, silence behind the clip included. Of Qwen2-Audio's the reference
//! implementation computes all too and masks those of the padding as keys. No position that is used looks at them, so
//! here they are not computed at all: a clip of 3 s takes a tenth of the work and gives the same values. Clips of different lengths are computed together, one after the other along the
//! rows; only attention goes clip by clip.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};

use super::config::AudioConfig;
use super::nn::attn::{Sight, attend};
use super::nn::linear::Linear;
use super::nn::norm::LayerNorm;
use super::weights::Weights;
use crate::types::LogMel;

/// Frames of the 30 s window.
pub const FRAMES: usize = 3000;

/// Positions after the convolutions that hold sound, for a clip of `frames` frames that hold sound.
pub fn positions(frames: usize) -> usize {
    frames.div_ceil(2)
}

/// Tokens that a clip of `frames` frames becomes: 25 a second, none for one or two frames (at most 320 samples).
pub fn audio_tokens(frames: usize) -> usize {
    positions(frames) / 2
}

/// Whose encoder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Whisper's.
    Whisper,
    /// Qwen2-Audio's.
    Qwen2Audio,
}

impl Kind {
    /// What stands before the names of its tensors.
    fn prefix(self) -> &'static str {
        match self {
            Self::Whisper => "model.encoder.",
            Self::Qwen2Audio => "audio_tower.",
        }
    }
}

/// The encoder.
pub(super) struct AudioEncoder {
    kind: Kind,
    conv1: Linear,
    conv2: Linear,
    positions: Tensor,
    layers: Vec<Layer>,
    norm: LayerNorm,
    heads: usize,
    bins: usize,
    device: Device,
    dtype: DType,
}

struct Layer {
    attention_norm: LayerNorm,
    qkv: Linear,
    out: Linear,
    final_norm: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

impl AudioEncoder {
    /// Adds the encoder's tensors to `shapes`, by published name.
    pub(super) fn shapes(config: &AudioConfig, kind: Kind, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let (d, ffn) = (config.d_model, config.encoder_ffn_dim);
        let mut add = |name: String, shape: &[usize]| {
            shapes.insert(format!("{}{name}", kind.prefix()), shape.to_vec());
        };
        add("conv1.weight".to_owned(), &[d, config.num_mel_bins, 3]);
        add("conv1.bias".to_owned(), &[d]);
        add("conv2.weight".to_owned(), &[d, d, 3]);
        add("conv2.bias".to_owned(), &[d]);
        add("embed_positions.weight".to_owned(), &[config.max_source_positions, d]);
        add("layer_norm.weight".to_owned(), &[d]);
        add("layer_norm.bias".to_owned(), &[d]);
        for layer in 0..config.encoder_layers {
            for (name, out, inner, bias) in [
                ("self_attn.q_proj", d, d, true),
                ("self_attn.k_proj", d, d, false),
                ("self_attn.v_proj", d, d, true),
                ("self_attn.out_proj", d, d, true),
                ("fc1", ffn, d, true),
                ("fc2", d, ffn, true),
            ] {
                add(format!("layers.{layer}.{name}.weight"), &[out, inner]);
                if bias {
                    add(format!("layers.{layer}.{name}.bias"), &[out]);
                }
            }
            for name in ["self_attn_layer_norm", "final_layer_norm"] {
                add(format!("layers.{layer}.{name}.weight"), &[d]);
                add(format!("layers.{layer}.{name}.bias"), &[d]);
            }
        }
    }

    /// Loads the encoder.
    pub(super) fn load(config: &AudioConfig, kind: Kind, weights: &Weights) -> Result<Self> {
        let prefix = kind.prefix();
        let layers = (0..config.encoder_layers)
            .map(|layer| {
                let name = |part: &str| format!("{prefix}layers.{layer}.{part}");
                let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| name(&format!("self_attn.{part}")));
                Ok(Layer {
                    attention_norm: LayerNorm::load(weights, &name("self_attn_layer_norm"))?,
                    qkv: Linear::load_fused(weights, &qkv)?,
                    out: Linear::load(weights, &name("self_attn.out_proj"))?,
                    final_norm: LayerNorm::load(weights, &name("final_layer_norm"))?,
                    fc1: Linear::load(weights, &name("fc1"))?,
                    fc2: Linear::load(weights, &name("fc2"))?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        // Convolutions as products: the taps of one output lie side by side, tap by tap.
        let conv = |name: &str| {
            let weight = weights.get(&format!("{prefix}{name}.weight"))?;
            let (out, inner, taps) = weight.dims3()?;
            let weight = weight.transpose(1, 2)?.reshape((out, taps * inner))?;
            Linear::new(&weight, Some(weights.get(&format!("{prefix}{name}.bias"))?))
        };
        Ok(Self {
            kind,
            conv1: conv("conv1")?,
            conv2: conv("conv2")?,
            positions: weights.get(&format!("{prefix}embed_positions.weight"))?,
            layers,
            norm: LayerNorm::load(weights, &format!("{prefix}layer_norm"))?,
            heads: config.encoder_attention_heads,
            bins: config.num_mel_bins,
            device: weights.device().clone(),
            dtype: weights.dtype(),
        })
    }

    /// Normed vectors of each clip, (tokens, width): 1500 of Whisper's, of Qwen2-Audio's one for each audio token, of which
    /// there must be at least one.
    pub(super) fn encode(&self, clips: &[&LogMel]) -> Result<Vec<Tensor>> {
        let starts = clips.iter().map(|clip| self.convolve(clip)).collect::<Result<Vec<_>>>()?;
        let lengths = starts.iter().map(|start| start.dim(0)).collect::<Result<Vec<_>>>()?;
        let mut x = match &starts[..] {
            [one] => one.clone(),
            _ => Tensor::cat(&starts, 0)?,
        };
        for layer in &self.layers {
            x = self.layer(layer, &x, &lengths)?;
        }
        let mut start = 0;
        let mut pooled = Vec::with_capacity(clips.len());
        for &length in &lengths {
            if self.kind == Kind::Whisper {
                pooled.push(self.norm.forward(&x.narrow(0, start, length)?)?);
                start += length;
                continue;
            }
            let tokens = length / 2;
            let clip = x.narrow(0, start, tokens * 2)?.contiguous()?;
            let (_, width) = clip.dims2()?;
            let pairs = clip.reshape((tokens, 2, width))?;
            let mean = ((pairs.narrow(1, 0, 1)? + pairs.narrow(1, 1, 1)?)? * 0.5)?.squeeze(1)?;
            pooled.push(self.norm.forward(&mean)?);
            start += length;
        }
        Ok(pooled)
    }

    /// The two convolutions, GELUs and positions: (positions, width).
    fn convolve(&self, clip: &LogMel) -> Result<Tensor> {
        if clip.bins != self.bins
            || clip.frames != FRAMES
            || clip.data.len() != FRAMES * self.bins
            || clip.valid_frames > FRAMES
        {
            candle_core::bail!(
                "expected log-mel features of {} bins and {FRAMES} frames, found {} and {}",
                self.bins,
                clip.bins,
                clip.frames
            );
        }
        let count = match self.kind {
            Kind::Whisper => FRAMES / 2,
            Kind::Qwen2Audio => positions(clip.valid_frames),
        };
        // The second convolution looks at frames -1 to 2 · count - 1 of the first.
        let rows = 2 * count;
        let taps = 3 * self.bins;
        let mut columns = vec![0.0_f32; rows * taps];
        for (row, columns) in columns.chunks_exact_mut(taps).enumerate() {
            for (tap, columns) in columns.chunks_exact_mut(self.bins).enumerate() {
                // Frame row + tap - 1; outside the window is zero.
                let Some(frame) = (row + tap).checked_sub(1).filter(|&frame| frame < FRAMES) else {
                    continue;
                };
                for (value, band) in columns.iter_mut().zip(clip.data.chunks_exact(FRAMES)) {
                    *value = band[frame];
                }
            }
        }
        let columns = Tensor::from_vec(columns, (rows, taps), &self.device)?.to_dtype(self.dtype)?;
        let x = self.conv1.forward_gelu(&columns)?;
        let (_, width) = x.dims2()?;
        // Output t looks at 2t - 1, 2t, 2t + 1.
        let zero = Tensor::zeros((1, width), x.dtype(), x.device())?;
        let before = Tensor::cat(&[&zero, &x.narrow(0, 0, rows - 1)?], 0)?.reshape((count, 2 * width))?;
        let last = x.reshape((count, 2 * width))?.narrow(1, width, width)?;
        let x = self.conv2.forward_gelu(&Tensor::cat(&[&before, &last], 1)?)?;
        x + self.positions.narrow(0, 0, count)?
    }

    fn layer(&self, layer: &Layer, x: &Tensor, lengths: &[usize]) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let head = width / self.heads;
        let scale = 1.0 / (head as f64).sqrt();
        let qkv = layer.qkv.forward(&layer.attention_norm.forward(x)?)?;
        let part = |index: usize| {
            qkv.narrow(1, index * width, width)?
                .reshape((rows, self.heads, head))?
                .transpose(0, 1)?
                .contiguous()
        };
        let (queries, keys, values) = (part(0)?, part(1)?, part(2)?);
        let mut start = 0;
        let mut outs = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let clip = |x: &Tensor| x.narrow(1, start, length);
            outs.push(attend(&clip(&queries)?, &clip(&keys)?, &clip(&values)?, scale, Sight::All)?);
            start += length;
        }
        let attended = match &outs[..] {
            [one] => one.clone(),
            _ => Tensor::cat(&outs, 0)?,
        };
        let x = layer.out.forward_add(&attended, x)?;
        let hidden = layer.fc1.forward_gelu(&layer.final_norm.forward(&x)?)?;
        let x = layer.fc2.forward_add(&hidden, &x)?;
        if x.dtype() == DType::F16 {
            // The reference implementation keeps f16 from overflowing in the same way.
            return x.clamp(-64_504_f64, 64_504_f64);
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `N = ((frames - 1) div 2 + 1 - 2) div 2 + 1` with floor division, as the reference implementation counts.
    #[test]
    fn tokens_are_counted_with_floor_division() {
        for frames in 1..=3000_i64 {
            let positions_there = (frames - 1).div_euclid(2) + 1;
            let expected = (positions_there - 2).div_euclid(2) + 1;
            assert_eq!(positions(frames as usize) as i64, positions_there);
            assert_eq!(audio_tokens(frames as usize) as i64, expected, "{frames}");
        }
        assert_eq!(audio_tokens(0), 0);
        for (samples, tokens) in
            [(1_usize, 0), (320, 0), (321, 1), (16_000, 25), (24_000, 37), (480_000, 750)]
        {
            assert_eq!(audio_tokens(samples.div_ceil(160)), tokens);
        }
    }
}
