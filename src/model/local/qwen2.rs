//! The text model: Qwen2, which takes embeddings, so that audio can stand among words.
//!
//! Prompts of a batch are computed together without padding, one after the other along the rows; only attention goes
//! prompt by prompt. What a prompt shares with another need not be computed again: its keys and values are copied.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};

use super::config::TextConfig;
use super::nn::attn::{StepView, attend, attend_step};
use super::nn::cache::Cache;
use super::nn::linear::Linear;
use super::nn::norm::RmsNorm;
use super::nn::rope::{Rope, rotate};
use super::nn::swiglu;
use super::weights::Weights;

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

/// The text model.
pub(super) struct Qwen2 {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    rope: Rope,
    heads: usize,
    kv_heads: usize,
    width: usize,
    scale: f64,
    device: Device,
    dtype: DType,
}

struct Layer {
    input_norm: RmsNorm,
    qkv: Linear,
    out: Linear,
    post_norm: RmsNorm,
    gate_up: Linear,
    down: Linear,
}

impl Qwen2 {
    /// Adds the text model's tensors to `shapes`, by published name.
    pub(super) fn shapes(config: &TextConfig, shapes: &mut BTreeMap<String, Vec<usize>>) {
        let (d, ffn, width) = (config.hidden_size, config.intermediate_size, config.head_width());
        let (q, kv) = (config.num_attention_heads * width, config.kv_heads() * width);
        let mut add = |name: String, shape: &[usize]| {
            shapes.insert(format!("language_model.{name}"), shape.to_vec());
        };
        add("model.embed_tokens.weight".to_owned(), &[config.vocab_size, d]);
        add("model.norm.weight".to_owned(), &[d]);
        if !config.tie_word_embeddings {
            add("lm_head.weight".to_owned(), &[config.vocab_size, d]);
        }
        for layer in 0..config.num_hidden_layers {
            for (name, out, inner, bias) in [
                ("self_attn.q_proj", q, d, true),
                ("self_attn.k_proj", kv, d, true),
                ("self_attn.v_proj", kv, d, true),
                ("self_attn.o_proj", d, q, false),
                ("mlp.gate_proj", ffn, d, false),
                ("mlp.up_proj", ffn, d, false),
                ("mlp.down_proj", d, ffn, false),
            ] {
                add(format!("model.layers.{layer}.{name}.weight"), &[out, inner]);
                if bias {
                    add(format!("model.layers.{layer}.{name}.bias"), &[out]);
                }
            }
            for name in ["input_layernorm", "post_attention_layernorm"] {
                add(format!("model.layers.{layer}.{name}.weight"), &[d]);
            }
        }
    }

    /// Loads the text model.
    pub(super) fn load(config: &TextConfig, weights: &Weights) -> Result<Self> {
        let layers = (0..config.num_hidden_layers)
            .map(|layer| {
                let name = |part: &str| format!("language_model.model.layers.{layer}.{part}");
                let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| name(&format!("self_attn.{part}")));
                let gate_up = ["gate_proj", "up_proj"].map(|part| name(&format!("mlp.{part}")));
                let norm = |part: &str| RmsNorm::load(weights, &name(part), config.rms_norm_eps);
                Ok(Layer {
                    input_norm: norm("input_layernorm")?,
                    qkv: Linear::load_fused(weights, &qkv)?,
                    out: Linear::load(weights, &name("self_attn.o_proj"))?,
                    post_norm: norm("post_attention_layernorm")?,
                    gate_up: Linear::load_fused(weights, &gate_up)?,
                    down: Linear::load(weights, &name("mlp.down_proj"))?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let embedding = weights.get("language_model.model.embed_tokens.weight")?;
        let head = if config.tie_word_embeddings {
            Linear::new(&embedding, None)?
        } else {
            Linear::load(weights, "language_model.lm_head")?
        };
        let width = config.head_width();
        let (device, dtype) = (weights.device().clone(), weights.dtype());
        Ok(Self {
            embedding,
            layers,
            norm: RmsNorm::load(weights, "language_model.model.norm", config.rms_norm_eps)?,
            head,
            rope: Rope::new(width, config.max_position_embeddings, config.theta(), dtype, &device)?,
            heads: config.num_attention_heads,
            kv_heads: config.kv_heads(),
            width,
            scale: 1.0 / (width as f64).sqrt(),
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
        self.embedding.index_select(&Tensor::new(ids, &self.device)?, 0)
    }

    /// Computes the tokens of the segments, whose embeddings lie one after the other in `x` (tokens, width), and fills
    /// the cache. Gives the last hidden states of the segments that want it, (wanted, width).
    pub(super) fn prefill(&self, x: Tensor, segments: &[Segment], cache: &Cache) -> Result<Option<Tensor>> {
        let positions: Vec<u32> = segments
            .iter()
            .flat_map(|segment| segment.done as u32..(segment.done + segment.tokens) as u32)
            .collect();
        let tables = self.rope.at(&positions)?;
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
                    outs.push(attend(&queries, &keys, &values, self.scale, true)?);
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
            x = Self::feed_forward(layer, &layer.out.forward_add(&attended, &x)?)?;
        }
        Ok(Some(x))
    }

    /// Computes one new token for each row, whose embeddings are `x` (rows, width), and gives the hidden states. All go
    /// into `column`; row `i` begins at column `firsts[i]`.
    pub(super) fn step(&self, x: Tensor, column: usize, firsts: &[usize], cache: &Cache) -> Result<Tensor> {
        let positions: Vec<u32> = firsts.iter().map(|&first| (column - first) as u32).collect();
        let tables = self.rope.at(&positions)?;
        let mask = StepView::mask(firsts, column + 1, &x)?;
        let view = StepView { firsts, filled: column + 1, mask: mask.as_ref(), scale: self.scale };
        let mut x = x;
        for (index, layer) in self.layers.iter().enumerate() {
            let (queries, keys, values) = self.project(layer, &x, &tables)?;
            let by_row = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(2);
            cache.write_column(index, column, &by_row(&keys)?, &by_row(&values)?)?;
            let (keys, values) = cache.layer(index)?;
            let attended = attend_step(&queries.transpose(0, 1)?.contiguous()?, keys, values, &view)?;
            x = Self::feed_forward(layer, &layer.out.forward_add(&attended, &x)?)?;
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
        tables: &(Tensor, Tensor),
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let tokens = x.dim(0)?;
        let qkv = layer.qkv.forward(&layer.input_norm.forward(x)?)?;
        let (q, kv) = (self.heads * self.width, self.kv_heads * self.width);
        let part = |start: usize, heads: usize| {
            qkv.narrow(1, start, heads * self.width)?.reshape((tokens, heads, self.width))?.transpose(0, 1)
        };
        let queries = rotate(&part(0, self.heads)?, tables)?;
        let keys = rotate(&part(q, self.kv_heads)?, tables)?;
        Ok((queries, keys, part(q + kv, self.kv_heads)?))
    }

    fn feed_forward(layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let pairs = layer.gate_up.forward(&layer.post_norm.forward(x)?)?;
        layer.down.forward_add(&swiglu(&pairs)?, x)
    }
}
