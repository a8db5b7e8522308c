//! The decoder of text models: Llama, Qwen2, Qwen3 and Gemma 3, which differ in norms, biases, positions and windows.
//! It takes embeddings, so that audio can stand among words.
//!
//! Prompts of a batch are computed together without padding, one after the other along the rows; only attention goes
//! prompt by prompt. What a prompt shares with another need not be computed again: its keys and values are copied.
//! This module must not know config files: a [`DecoderConfig`] says all.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};

use super::nn::attn::{Sight, StepView, attend, attend_step};
use super::nn::cache::Cache;
use super::nn::linear::Linear;
use super::nn::norm::RmsNorm;
use super::nn::rope::{Rope, rotate};
use super::nn::{Gate, gated};
use super::weights::Weights;

/// What a decoder is made of.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each says one way in which families differ")]
pub(super) struct DecoderConfig {
    /// What stands before `model.` in the names of its tensors: `language_model.` in Qwen2-Audio, else nothing.
    pub prefix: &'static str,
    /// Rows of the embedding.
    pub vocabulary: usize,
    /// Width.
    pub hidden: usize,
    /// Width of the feed-forward part.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub width: usize,
    /// The most tokens of prompt and response together.
    pub positions: usize,
    /// Added to the mean square in norms.
    pub epsilon: f64,
    /// Factor of the attention scores.
    pub scale: f64,
    /// Whether the output layer is the embedding.
    pub tied: bool,
    /// Which layers have a bias.
    pub biases: Biases,
    /// Whether queries and keys are normed head by head.
    pub head_norms: bool,
    /// Gemma's ways: norms behind attention and feed-forward too, scaled embeddings, tanh GELU.
    pub gemma: bool,
    /// Whether norm weights are stored less one, as Gemma's are in safetensors.
    pub norms_less_one: bool,
    /// The frequencies of rotary positions, half a head each; layers name one by its place here.
    pub frequencies: Vec<Vec<f32>>,
    /// The layers.
    pub layers: Vec<LayerConfig>,
}

/// Which linear layers have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// What follows attention.
    pub out: bool,
    /// The feed-forward part.
    pub mlp: bool,
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayerConfig {
    /// Its frequencies.
    pub rope: usize,
    /// How many tokens a token sees, itself included; all before it where there is no window.
    pub window: Option<usize>,
}

/// Consecutive tokens of one row of the cache that are computed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The row.
    pub row: usize,
    /// The column of the row's first token: its padding.
    pub pad: usize,
    /// Tokens of the row that the cache holds already.
    pub done: usize,
    /// Tokens to compute.
    pub tokens: usize,
    /// Whether the hidden state of the last token is wanted.
    pub wanted: bool,
}

/// A decoder with its weights.
pub(super) struct Decoder {
    embedding: Tensor,
    /// Factor of embeddings.
    embedding_scale: Option<f64>,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    ropes: Vec<Rope>,
    gate: Gate,
    heads: usize,
    kv_heads: usize,
    width: usize,
    scale: f64,
    device: Device,
    dtype: DType,
}

struct Layer {
    config: LayerConfig,
    input_norm: RmsNorm,
    qkv: Linear,
    /// Norms of queries and keys.
    head_norms: Option<(RmsNorm, RmsNorm)>,
    out: Linear,
    /// Gemma's norm behind attention.
    attended_norm: Option<RmsNorm>,
    feed_norm: RmsNorm,
    gate_up: Linear,
    down: Linear,
    /// Gemma's norm behind the feed-forward part.
    fed_norm: Option<RmsNorm>,
}

/// The name of the norm before the feed-forward part.
fn feed_norm_name(gemma: bool) -> &'static str {
    if gemma { "pre_feedforward_layernorm" } else { "post_attention_layernorm" }
}

impl Decoder {
    /// Adds the decoder's tensors to `shapes`, by published name.
    pub(super) fn shapes(config: &DecoderConfig, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let DecoderConfig { hidden, ffn, width, vocabulary, gemma, biases, .. } = *config;
        let (q, kv) = (config.heads * width, config.kv_heads * width);
        let mut add = |name: &str, shape: &[usize]| {
            shapes.insert(format!("{}{name}", config.prefix), shape.to_vec());
        };
        add("model.embed_tokens.weight", &[vocabulary, hidden]);
        add("model.norm.weight", &[hidden]);
        if !config.tied {
            add("lm_head.weight", &[vocabulary, hidden]);
        }
        for layer in 0..config.layers.len() {
            for (name, out, inner, bias) in [
                ("self_attn.q_proj", q, hidden, biases.qkv),
                ("self_attn.k_proj", kv, hidden, biases.qkv),
                ("self_attn.v_proj", kv, hidden, biases.qkv),
                ("self_attn.o_proj", hidden, q, biases.out),
                ("mlp.gate_proj", ffn, hidden, biases.mlp),
                ("mlp.up_proj", ffn, hidden, biases.mlp),
                ("mlp.down_proj", hidden, ffn, biases.mlp),
            ] {
                add(&format!("model.layers.{layer}.{name}.weight"), &[out, inner]);
                if bias {
                    add(&format!("model.layers.{layer}.{name}.bias"), &[out]);
                }
            }
            let norms = [
                ("input_layernorm", true, hidden),
                ("post_attention_layernorm", true, hidden),
                ("pre_feedforward_layernorm", gemma, hidden),
                ("post_feedforward_layernorm", gemma, hidden),
                ("self_attn.q_norm", config.head_norms, width),
                ("self_attn.k_norm", config.head_norms, width),
            ];
            for (name, _, width) in norms.into_iter().filter(|(_, there, _)| *there) {
                add(&format!("model.layers.{layer}.{name}.weight"), &[width]);
            }
        }
    }

    /// Loads the decoder.
    pub(super) fn load(config: &DecoderConfig, weights: &Weights) -> Result<Self> {
        let (prefix, gemma) = (config.prefix, config.gemma);
        let norm = |name: &str| RmsNorm::load(weights, name, config.epsilon, config.norms_less_one);
        let layers = config
            .layers
            .iter()
            .enumerate()
            .map(|(layer, &config_of_layer)| {
                let name = |part: &str| format!("{prefix}model.layers.{layer}.{part}");
                let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| name(&format!("self_attn.{part}")));
                let gate_up = ["gate_proj", "up_proj"].map(|part| name(&format!("mlp.{part}")));
                let norm = |part: &str| norm(&name(part));
                let norm_if = |there: bool, part: &str| there.then(|| norm(part)).transpose();
                let head_norms = norm_if(config.head_norms, "self_attn.q_norm")?
                    .zip(norm_if(config.head_norms, "self_attn.k_norm")?);
                Ok(Layer {
                    config: config_of_layer,
                    input_norm: norm("input_layernorm")?,
                    qkv: Linear::load_fused(weights, &qkv)?,
                    head_norms,
                    out: Linear::load(weights, &name("self_attn.o_proj"))?,
                    attended_norm: norm_if(gemma, "post_attention_layernorm")?,
                    feed_norm: norm(feed_norm_name(gemma))?,
                    gate_up: Linear::load_fused(weights, &gate_up)?,
                    down: Linear::load(weights, &name("mlp.down_proj"))?,
                    fed_norm: norm_if(gemma, "post_feedforward_layernorm")?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let embedding = weights.get(&format!("{prefix}model.embed_tokens.weight"))?;
        let head = if config.tied {
            Linear::new(&embedding, None)?
        } else {
            Linear::load(weights, &format!("{prefix}lm_head"))?
        };
        let (device, dtype) = (weights.device().clone(), weights.dtype());
        let embedding_scale = gemma.then(|| rounded((config.hidden as f64).sqrt(), dtype)).transpose()?;
        Ok(Self {
            embedding,
            embedding_scale,
            layers,
            norm: norm(&format!("{prefix}model.norm"))?,
            head,
            ropes: config.frequencies.iter().map(|f| Rope::new(f.clone(), dtype, &device)).collect(),
            gate: if gemma { Gate::GeluTanh } else { Gate::Silu },
            heads: config.heads,
            kv_heads: config.kv_heads,
            width: config.width,
            scale: config.scale,
            device,
            dtype,
        })
    }

    /// An empty cache for `rows` rows of `columns` tokens.
    pub(super) fn cache(&self, rows: usize, columns: usize) -> Result<Cache> {
        Cache::new(self.layers.len(), (rows, self.kv_heads, columns, self.width), self.dtype, &self.device)
    }

    /// The embeddings of ids: (ids, width).
    pub(super) fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        let x = self.embedding.index_select(&Tensor::new(ids, &self.device)?, 0)?;
        match self.embedding_scale {
            Some(scale) => x * scale,
            None => Ok(x),
        }
    }

    /// The cosines and sines at positions, for each of the model's frequencies.
    fn tables(&self, positions: &[u32]) -> Result<Vec<(Tensor, Tensor)>> {
        self.ropes.iter().map(|rope| rope.at(positions)).collect()
    }

    /// Computes the tokens of the segments, whose embeddings lie one after the other in `x` (tokens, width), and fills
    /// the cache. Gives the last hidden states of the segments that want it, (wanted, width).
    pub(super) fn prefill(&self, x: Tensor, segments: &[Segment], cache: &Cache) -> Result<Option<Tensor>> {
        let positions: Vec<u32> = segments
            .iter()
            .flat_map(|segment| segment.done as u32..(segment.done + segment.tokens) as u32)
            .collect();
        let tables = self.tables(&positions)?;
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            let (queries, keys, values) = self.project(layer, &x, &tables)?;
            let last = index + 1 == self.layers.len();
            let mut outs = Vec::with_capacity(segments.len());
            let mut kept = Vec::new();
            let mut start = 0;
            for segment in segments {
                let part = |all: &Tensor| all.narrow(1, start, segment.tokens);
                let column = segment.pad + segment.done;
                cache.write_row(index, segment.row, column, &part(&keys)?, &part(&values)?)?;
                let end = start + segment.tokens;
                // Behind the last layer only the last token of a prompt is of use.
                let (from, tokens) = if last { (end - 1, 1) } else { (start, segment.tokens) };
                if !last || segment.wanted {
                    let (keys, values) =
                        cache.row(index, segment.row, segment.pad, column + segment.tokens)?;
                    let queries = queries.narrow(1, from, tokens)?;
                    let sight = Sight::Before { window: layer.config.window };
                    outs.push(attend(&queries, &keys, &values, self.scale, sight)?);
                    kept.push(from as u32);
                }
                start = end;
            }
            if outs.is_empty() {
                return Ok(None);
            }
            let attended = match &outs[..] {
                [one] => one.clone(),
                _ => Tensor::cat(&outs, 0)?,
            };
            if last {
                x = x.index_select(&Tensor::new(kept, &self.device)?, 0)?;
            }
            x = self.after_attention(layer, &attended, &x)?;
        }
        Ok(Some(x))
    }

    /// Computes one new token for each row, whose embeddings are `x` (rows, width), and gives the hidden states. All go
    /// into `column`; row `i` begins at column `firsts[i]`.
    pub(super) fn step(&self, x: Tensor, column: usize, firsts: &[usize], cache: &Cache) -> Result<Tensor> {
        let positions: Vec<u32> = firsts.iter().map(|&first| (column - first) as u32).collect();
        let tables = self.tables(&positions)?;
        let filled = column + 1;
        // Layers with equal windows look at the same columns.
        let mut views: Vec<(Option<usize>, Vec<usize>, Option<Tensor>)> = Vec::new();
        for window in self.layers.iter().map(|layer| layer.config.window) {
            if !views.iter().any(|(known, _, _)| *known == window) {
                let earliest = window.map_or(0, |window| filled.saturating_sub(window));
                let firsts: Vec<usize> = firsts.iter().map(|&first| first.max(earliest)).collect();
                let mask = StepView::mask(&firsts, filled, &x)?;
                views.push((window, firsts, mask));
            }
        }
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            let (queries, keys, values) = self.project(layer, &x, &tables)?;
            let by_row = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(2);
            cache.write_column(index, column, &by_row(&keys)?, &by_row(&values)?)?;
            let (keys, values) = cache.layer(index)?;
            let Some((_, firsts, mask)) = views.iter().find(|(window, _, _)| *window == layer.config.window)
            else {
                candle_core::bail!("layer {index} has no view");
            };
            let view = StepView { firsts, filled, mask: mask.as_ref(), scale: self.scale };
            let attended = attend_step(&queries.transpose(0, 1)?.contiguous()?, keys, values, &view)?;
            x = self.after_attention(layer, &attended, &x)?;
        }
        Ok(x)
    }

    /// The logits behind hidden states (rows, width): one vector of f32 a row.
    pub(super) fn logits(&self, hidden: &Tensor) -> Result<Vec<Vec<f32>>> {
        self.head.forward(&self.norm.forward(hidden)?)?.to_dtype(DType::F32)?.to_vec2()
    }

    /// Turned queries (heads, tokens, width), turned keys and values (kv heads, tokens, width).
    fn project(
        &self,
        layer: &Layer,
        x: &Tensor,
        tables: &[(Tensor, Tensor)],
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let Some(tables) = tables.get(layer.config.rope) else {
            candle_core::bail!("a layer names frequencies {} that are not there", layer.config.rope);
        };
        let tokens = x.dim(0)?;
        let qkv = layer.qkv.forward(&layer.input_norm.forward(x)?)?;
        let (q, kv) = (self.heads * self.width, self.kv_heads * self.width);
        let part = |start: usize, heads: usize, norm: Option<&RmsNorm>| {
            let part = qkv.narrow(1, start, heads * self.width)?;
            let part = match norm {
                Some(norm) => norm.forward(&part.reshape((tokens * heads, self.width))?)?,
                None => part,
            };
            part.reshape((tokens, heads, self.width))?.transpose(0, 1)
        };
        let norms = layer.head_norms.as_ref();
        let queries = rotate(&part(0, self.heads, norms.map(|(query, _)| query))?, tables)?;
        let keys = rotate(&part(q, self.kv_heads, norms.map(|(_, key)| key))?, tables)?;
        Ok((queries, keys, part(q + kv, self.kv_heads, None)?))
    }

    /// What a layer does behind attention: the sum with `x`, and the feed-forward part.
    fn after_attention(&self, layer: &Layer, attended: &Tensor, x: &Tensor) -> Result<Tensor> {
        let x = match &layer.attended_norm {
            Some(norm) => (norm.forward(&layer.out.forward(attended)?)? + x)?,
            None => layer.out.forward_add(attended, x)?,
        };
        let pairs = layer.gate_up.forward(&layer.feed_norm.forward(&x)?)?;
        let fed = gated(&pairs, self.gate)?;
        match &layer.fed_norm {
            Some(norm) => norm.forward(&layer.down.forward(&fed)?)? + x,
            None => layer.down.forward_add(&fed, &x),
        }
    }
}

/// A number as the model's number format holds it.
fn rounded(value: f64, dtype: DType) -> Result<f64> {
    let value = Tensor::new(value as f32, &Device::Cpu)?.to_dtype(dtype)?;
    Ok(f64::from(value.to_dtype(DType::F32)?.to_scalar::<f32>()?))
}
