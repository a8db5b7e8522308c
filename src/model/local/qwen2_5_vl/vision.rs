//! The vision tower: patches to tokens.
//!
//! Images of a batch are computed together, one after the other along the rows; only attention goes image by image, and
//! in most blocks window by window, all windows of one size at once. It follows
//! `Qwen2_5_VisionTransformerPretrainedModel` of transformers 5.24.0; the order of the windows is our own and is undone
//! at the end.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};

use super::config::{Processor, VISION_THETA, VisionConfig};
use super::layout::Layout;
use super::patches;
use crate::model::local::nn::attn::{Sight, attend, attend_windows};
use crate::model::local::nn::linear::Linear;
use crate::model::local::nn::norm::RmsNorm;
use crate::model::local::nn::rope::{Rope, rotate};
use crate::model::local::nn::{Gate, gated};
use crate::model::local::weights::Weights;
use crate::types::RgbImage;

/// Added to the mean square in norms; no config says it.
const EPSILON: f64 = 1e-6;

/// The tower with its weights.
pub(super) struct VisionTower {
    config: VisionConfig,
    processor: Processor,
    patch: Linear,
    blocks: Vec<Block>,
    norm: RmsNorm,
    merge_in: Linear,
    merge_out: Linear,
    rope: Rope,
    device: Device,
    dtype: DType,
}

struct Block {
    full: bool,
    norm: RmsNorm,
    qkv: Linear,
    out: Linear,
    feed_norm: RmsNorm,
    gate_up: Linear,
    down: Linear,
}

/// What attention needs to know of a batch.
struct Sights {
    /// Cosines and sines of all patches.
    tables: (Tensor, Tensor),
    /// Patches of each image.
    images: Vec<usize>,
    /// Patches of a window, and how many such windows lie side by side.
    windows: Vec<(usize, usize)>,
}

impl VisionTower {
    /// Adds the tower's tensors to `shapes`, by published name.
    pub(super) fn shapes(config: &VisionConfig, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let VisionConfig { hidden, ffn, patch, frames, merge, out, .. } = *config;
        let mut add = |name: String, shape: &[usize]| {
            shapes.insert(format!("visual.{name}"), shape.to_vec());
        };
        add("patch_embed.proj.weight".to_owned(), &[hidden, super::config::CHANNELS, frames, patch, patch]);
        let merged = hidden * merge * merge;
        add("merger.ln_q.weight".to_owned(), &[hidden]);
        add("merger.mlp.0.weight".to_owned(), &[merged, merged]);
        add("merger.mlp.0.bias".to_owned(), &[merged]);
        add("merger.mlp.2.weight".to_owned(), &[out, merged]);
        add("merger.mlp.2.bias".to_owned(), &[out]);
        for block in 0..config.depth {
            for (name, to, from) in [
                ("attn.qkv", 3 * hidden, hidden),
                ("attn.proj", hidden, hidden),
                ("mlp.gate_proj", ffn, hidden),
                ("mlp.up_proj", ffn, hidden),
                ("mlp.down_proj", hidden, ffn),
            ] {
                add(format!("blocks.{block}.{name}.weight"), &[to, from]);
                add(format!("blocks.{block}.{name}.bias"), &[to]);
            }
            for name in ["norm1", "norm2"] {
                add(format!("blocks.{block}.{name}.weight"), &[hidden]);
            }
        }
    }

    /// Loads the tower.
    pub(super) fn load(config: &VisionConfig, processor: &Processor, weights: &Weights) -> Result<Self> {
        let norm = |name: &str| RmsNorm::load(weights, &format!("visual.{name}"), EPSILON, false);
        let blocks = (0..config.depth)
            .map(|block| {
                let name = |part: &str| format!("visual.blocks.{block}.{part}");
                Ok(Block {
                    full: config.full.contains(&block),
                    norm: norm(&format!("blocks.{block}.norm1"))?,
                    qkv: Linear::load(weights, &name("attn.qkv"))?,
                    out: Linear::load(weights, &name("attn.proj"))?,
                    feed_norm: norm(&format!("blocks.{block}.norm2"))?,
                    gate_up: Linear::load_fused(
                        weights,
                        &["gate_proj", "up_proj"].map(|part| name(&format!("mlp.{part}"))),
                    )?,
                    down: Linear::load(weights, &name("mlp.down_proj"))?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        // A convolution whose steps are as long as it is wide is a product.
        let patch = weights.get("visual.patch_embed.proj.weight")?;
        let patch = patch.reshape((config.hidden, config.patch_values()))?;
        // Half of a head turns by rows, half by columns.
        let half = Rope::frequencies(config.hidden / config.heads / 2, VISION_THETA);
        let axes: Vec<usize> = (0..2).flat_map(|axis| std::iter::repeat_n(axis, half.len())).collect();
        let device = weights.device().clone();
        Ok(Self {
            config: config.clone(),
            processor: processor.clone(),
            patch: Linear::new(&patch, None)?,
            blocks,
            norm: norm("merger.ln_q")?,
            merge_in: Linear::load(weights, "visual.merger.mlp.0")?,
            merge_out: Linear::load(weights, "visual.merger.mlp.2")?,
            // Turned in f32 whatever the model computes in, as in the reference.
            rope: Rope::new(&[&half[..], &half[..]].concat(), &axes, DType::F32, &device),
            device,
            dtype: weights.dtype(),
        })
    }

    /// The tower's config.
    pub(super) fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// What becomes of pixels.
    pub(super) fn processor(&self) -> &Processor {
        &self.processor
    }

    /// The tokens of each image, row by row: (tokens, width of the text model).
    pub(super) fn encode(&self, images: &[&RgbImage]) -> Result<Vec<Tensor>> {
        let merge = self.config.merge;
        let unit = merge * merge;
        let mut rows = Vec::new();
        let mut positions = Vec::new();
        let mut layouts = Vec::with_capacity(images.len());
        let mut windows: Vec<(usize, usize)> = Vec::new();
        for image in images {
            let grid = patches::grid(image, &self.config).map_err(candle_core::Error::msg)?;
            let layout = Layout::new(grid, self.config.window);
            // In the tower's order from the start, so that nothing has to be moved.
            patches::append(image, &self.config, &self.processor, &layout.order, &mut rows)?;
            positions.extend(layout.patch_positions(grid, merge));
            for &(length, count) in &layout.windows {
                match windows.last_mut() {
                    Some((last, known)) if *last == length * unit => *known += count,
                    _ => windows.push((length * unit, count)),
                }
            }
            layouts.push(layout);
        }
        let rows = Tensor::from_vec(rows, (positions.len(), self.config.patch_values()), &self.device)?;
        let sights = Sights {
            tables: self.rope.at(&positions)?,
            images: layouts.iter().map(|layout| layout.order.len() * unit).collect(),
            windows,
        };
        let mut x = self.patch.forward(&rows.to_dtype(self.dtype)?)?;
        for block in &self.blocks {
            x = self.block(block, &x, &sights)?;
        }
        let merged = self.norm.forward(&x)?.reshape((positions.len() / unit, self.config.hidden * unit))?;
        let tokens = self.merge_out.forward(&self.merge_in.forward_gelu(&merged)?)?;
        let mut start = 0;
        layouts
            .iter()
            .map(|layout| {
                let inverse = Tensor::new(layout.inverse(), &self.device)?;
                let own = tokens.narrow(0, start, layout.order.len())?;
                start += layout.order.len();
                own.index_select(&inverse, 0)
            })
            .collect()
    }

    fn block(&self, block: &Block, x: &Tensor, sights: &Sights) -> Result<Tensor> {
        let (rows, hidden) = x.dims2()?;
        let width = hidden / self.config.heads;
        let scale = 1.0 / (width as f64).sqrt();
        let qkv = block.qkv.forward(&block.norm.forward(x)?)?;
        let part = |index: usize| {
            qkv.narrow(1, index * hidden, hidden)?.reshape((rows, self.config.heads, width))?.transpose(0, 1)
        };
        let turned = |x: Tensor| rotate(&x.to_dtype(DType::F32)?, &sights.tables)?.to_dtype(self.dtype);
        let (queries, keys, values) = (turned(part(0)?)?, turned(part(1)?)?, part(2)?.contiguous()?);
        let mut start = 0;
        let mut outs = Vec::new();
        let mut piece = |length: usize| -> Result<[Tensor; 3]> {
            let own = |x: &Tensor| x.narrow(1, start, length);
            let pieces = [own(&queries)?, own(&keys)?, own(&values)?];
            start += length;
            Ok(pieces)
        };
        if block.full {
            for &length in &sights.images {
                let [queries, keys, values] = piece(length)?;
                outs.push(attend(&queries, &keys, &values, scale, Sight::All)?);
            }
        } else {
            for &(length, count) in &sights.windows {
                let [queries, keys, values] = piece(length * count)?;
                outs.push(attend_windows(&queries, &keys, &values, scale, length)?);
            }
        }
        let attended = match &outs[..] {
            [one] => one.clone(),
            _ => Tensor::cat(&outs, 0)?,
        };
        let x = block.out.forward_add(&attended, x)?;
        let pairs = block.gate_up.forward(&block.feed_norm.forward(&x)?)?;
        block.down.forward_add(&gated(&pairs, Gate::Silu)?, &x)
    }
}
