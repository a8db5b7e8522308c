//! Whisper's decoder: a token a row at a time, over a cache of its own tokens and one of the encoder's vectors.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};

use super::config::WhisperConfig;
use crate::model::local::nn::attn::{StepView, attend_step};
use crate::model::local::nn::cache::Cache;
use crate::model::local::nn::linear::Linear;
use crate::model::local::nn::norm::LayerNorm;
use crate::model::local::weights::Weights;

/// The decoder.
pub(super) struct WhisperDecoder {
    embedding: Tensor,
    positions: Tensor,
    layers: Vec<Layer>,
    norm: LayerNorm,
    head: Linear,
    heads: usize,
    width: usize,
    most: usize,
    device: Device,
    dtype: DType,
}

struct Layer {
    own_norm: LayerNorm,
    qkv: Linear,
    own_out: Linear,
    cross_norm: LayerNorm,
    cross_query: Linear,
    cross_kv: Linear,
    cross_out: Linear,
    final_norm: LayerNorm,
    fc1: Linear,
    fc2: Linear,
}

/// The state of rows that are decoded together. All have the same number of tokens.
pub(super) struct State {
    own: Cache,
    cross: Cache,
    heard: usize,
    filled: usize,
}

impl State {
    /// Keeps the named rows and drops the others.
    pub(super) fn keep(&mut self, rows: &[u32]) -> Result<()> {
        self.own.keep(rows)?;
        self.cross.keep(rows)
    }
}

impl WhisperDecoder {
    /// Adds the decoder's tensors to `shapes`.
    pub(super) fn shapes(config: &WhisperConfig, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let (d, ffn) = (config.encoder.d_model, config.ffn);
        let mut add = |name: String, shape: &[usize]| {
            shapes.insert(format!("model.decoder.{name}"), shape.to_vec());
        };
        add("embed_tokens.weight".to_owned(), &[config.vocabulary, d]);
        add("embed_positions.weight".to_owned(), &[config.positions, d]);
        add("layer_norm.weight".to_owned(), &[d]);
        add("layer_norm.bias".to_owned(), &[d]);
        for layer in 0..config.layers {
            for attention in ["self_attn", "encoder_attn"] {
                for (name, bias) in
                    [("q_proj", true), ("k_proj", false), ("v_proj", true), ("out_proj", true)]
                {
                    add(format!("layers.{layer}.{attention}.{name}.weight"), &[d, d]);
                    if bias {
                        add(format!("layers.{layer}.{attention}.{name}.bias"), &[d]);
                    }
                }
            }
            for (name, out, inner) in [("fc1", ffn, d), ("fc2", d, ffn)] {
                add(format!("layers.{layer}.{name}.weight"), &[out, inner]);
                add(format!("layers.{layer}.{name}.bias"), &[out]);
            }
            for name in ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"] {
                add(format!("layers.{layer}.{name}.weight"), &[d]);
                add(format!("layers.{layer}.{name}.bias"), &[d]);
            }
        }
    }

    /// Loads the decoder.
    pub(super) fn load(config: &WhisperConfig, weights: &Weights) -> Result<Self> {
        let layers = (0..config.layers)
            .map(|layer| {
                let name = |part: &str| format!("model.decoder.layers.{layer}.{part}");
                let norm = |part: &str| LayerNorm::load(weights, &name(part));
                let linear = |part: &str| Linear::load(weights, &name(part));
                let fused = |parts: &[&str]| {
                    Linear::load_fused(weights, &parts.iter().map(|part| name(part)).collect::<Vec<_>>())
                };
                Ok(Layer {
                    own_norm: norm("self_attn_layer_norm")?,
                    qkv: fused(&["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"])?,
                    own_out: linear("self_attn.out_proj")?,
                    cross_norm: norm("encoder_attn_layer_norm")?,
                    cross_query: linear("encoder_attn.q_proj")?,
                    cross_kv: fused(&["encoder_attn.k_proj", "encoder_attn.v_proj"])?,
                    cross_out: linear("encoder_attn.out_proj")?,
                    final_norm: norm("final_layer_norm")?,
                    fc1: linear("fc1")?,
                    fc2: linear("fc2")?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let embedding = weights.get("model.decoder.embed_tokens.weight")?;
        Ok(Self {
            head: Linear::new(&embedding, None)?,
            embedding,
            positions: weights.get("model.decoder.embed_positions.weight")?,
            layers,
            norm: LayerNorm::load(weights, "model.decoder.layer_norm")?,
            heads: config.heads,
            width: config.encoder.d_model / config.heads,
            most: config.positions,
            device: weights.device().clone(),
            dtype: weights.dtype(),
        })
    }

    /// The state before the first token of rows that heard what the encoder made of them, (positions, width) each, with
    /// room for `tokens` tokens.
    pub(super) fn begin(&self, heard: &[Tensor], tokens: usize) -> Result<State> {
        let (rows, layers) = (heard.len(), self.layers.len());
        let Some(length) = heard.first().map(|row| row.dim(0)).transpose()? else {
            candle_core::bail!("nothing was heard");
        };
        let shape = |columns| (rows, self.heads, columns, self.width);
        let own = Cache::new(layers, shape(tokens.min(self.most)), self.dtype, &self.device)?;
        let cross = Cache::new(layers, shape(length), self.dtype, &self.device)?;
        for (index, layer) in self.layers.iter().enumerate() {
            for (row, heard) in heard.iter().enumerate() {
                let pairs = layer.cross_kv.forward(heard)?;
                let part = |which: usize| {
                    let all = self.heads * self.width;
                    pairs
                        .narrow(1, which * all, all)?
                        .reshape((length, self.heads, self.width))?
                        .transpose(0, 1)
                };
                cross.write_row(index, row, 0, &part(0)?, &part(1)?)?;
            }
        }
        Ok(State { own, cross, heard: length, filled: 0 })
    }

    /// Computes one token a row and gives the hidden states behind them, (rows, width).
    pub(super) fn step(&self, ids: &[u32], state: &mut State) -> Result<Tensor> {
        let rows = ids.len();
        if state.filled >= self.most {
            candle_core::bail!("the decoder takes {} tokens", self.most);
        }
        let position = self.positions.narrow(0, state.filled, 1)?;
        let mut x =
            self.embedding.index_select(&Tensor::new(ids, &self.device)?, 0)?.broadcast_add(&position)?;
        let scale = 1.0 / (self.width as f64).sqrt();
        let firsts = vec![0; rows];
        let own_view = StepView { firsts: &firsts, filled: state.filled + 1, mask: None, scale };
        let cross_view = StepView { firsts: &firsts, filled: state.heard, mask: None, scale };
        let all = self.heads * self.width;
        for (index, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv.forward(&layer.own_norm.forward(&x)?)?;
            let part = |which: usize| {
                qkv.narrow(1, which * all, all)?.contiguous()?.reshape((rows, self.heads, self.width))
            };
            let column = |which: usize| part(which)?.unsqueeze(2);
            state.own.write_column(index, state.filled, &column(1)?, &column(2)?)?;
            let (keys, values) = state.own.layer(index)?;
            let attended = attend_step(&part(0)?, keys, values, &own_view)?;
            x = layer.own_out.forward_add(&attended, &x)?;
            let query = layer.cross_query.forward(&layer.cross_norm.forward(&x)?)?;
            let (keys, values) = state.cross.layer(index)?;
            let query = query.reshape((rows, self.heads, self.width))?;
            let attended = attend_step(&query, keys, values, &cross_view)?;
            x = layer.cross_out.forward_add(&attended, &x)?;
            let hidden = layer.fc1.forward_gelu(&layer.final_norm.forward(&x)?)?;
            x = layer.fc2.forward_add(&hidden, &x)?;
        }
        state.filled += 1;
        Ok(x)
    }

    /// The logits behind hidden states (rows, width): one vector of f32 a row.
    pub(super) fn logits(&self, hidden: &Tensor) -> Result<Vec<Vec<f32>>> {
        self.head.forward(&self.norm.forward(hidden)?)?.to_dtype(DType::F32)?.to_vec2()
    }
}
