//! Attention: over a whole clip, over a prompt, and of one new token a row over the cache.
//!
//! Masks are finite: a row of nothing but minus infinity would turn to NaN.

use std::ops::Range;

use candle_core::{CpuStorage, CustomOp3, D, DType, InplaceOp1, Layout, Result, Shape, Tensor};

use super::{cpu, floats, floats_mut, on_cpu};

/// Queries are worked on in pieces, so that their scores stay small.
const PIECE_CPU: usize = 128;
const PIECE_ACCELERATOR: usize = 1024;

/// What a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All columns.
    All,
    /// The columns up to its own: the last query sees the last column, the one before it ends one earlier, and so on.
    Before {
        /// No more than so many of them, the latest.
        window: Option<usize>,
    },
}

/// Attention of (heads, tokens, width) over keys and values (kv heads, columns, width), to (tokens, heads · width).
pub(crate) fn attend(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    scale: f64,
    sight: Sight,
) -> Result<Tensor> {
    let (heads, tokens, width) = queries.dims3()?;
    let (kv_heads, columns, _) = keys.dims3()?;
    let group = heads / kv_heads;
    let before = columns.saturating_sub(tokens);
    let piece = if queries.device().is_cpu() { PIECE_CPU } else { PIECE_ACCELERATOR };
    #[cfg(feature = "flash-attn")]
    if queries.device().is_cuda()
        && queries.dtype() != DType::F32
        && !matches!(sight, Sight::Before { window: Some(_) })
    {
        return flash(queries, keys, values, scale, sight != Sight::All);
    }
    let keys = keys.transpose(1, 2)?;
    let mut outs = Vec::with_capacity(tokens.div_ceil(piece));
    for start in (0..tokens).step_by(piece) {
        let count = piece.min(tokens - start);
        // The columns that some query of the piece sees.
        let (from, to) = match sight {
            Sight::All => (0, columns),
            Sight::Before { window } => {
                let first = before + start;
                (window.map_or(0, |window| (first + 1).saturating_sub(window)), first + count)
            }
        };
        let part =
            queries.narrow(1, start, count)?.contiguous()?.reshape((kv_heads, group * count, width))?;
        let scores = part.matmul(&keys.narrow(2, from, to - from)?)?;
        let piece = match sight {
            Sight::All => None,
            Sight::Before { window } => Some(Piece { count, own: before + start - from, window }),
        };
        let weights = softmax(scores, scale, piece)?;
        let out = weights.matmul(&values.narrow(1, from, to - from)?)?;
        outs.push(out.reshape((heads, count, width))?);
    }
    let out = match &outs[..] {
        [one] => one.clone(),
        _ => Tensor::cat(&outs, 1)?,
    };
    out.transpose(0, 1)?.reshape((tokens, heads * width))
}

/// Queries that are worked on together, of which each sees some of the columns at hand.
#[derive(Clone, Copy)]
struct Piece {
    /// How many.
    count: usize,
    /// The first query's own column; each other's is one later.
    own: usize,
    /// The most columns that one sees.
    window: Option<usize>,
}

impl Piece {
    /// The columns that a query sees.
    fn seen(&self, query: usize) -> Range<usize> {
        let to = self.own + query + 1;
        self.window.map_or(0, |window| to.saturating_sub(window))..to
    }
}

/// Softmax of scaled scores (kv heads, group · count, columns) over columns: all of them, or those that each query sees.
fn softmax(scores: Tensor, scale: f64, piece: Option<Piece>) -> Result<Tensor> {
    if on_cpu(&scores) {
        scores.inplace_op1(&MaskedSoftmax { scale: scale as f32, piece })?;
        return Ok(scores);
    }
    let dtype = scores.dtype();
    let mut scores = (scores.to_dtype(DType::F32)? * scale)?;
    if let Some(piece) = piece {
        let (kv_heads, rows, columns) = scores.dims3()?;
        let count = piece.count;
        let hidden: Vec<f32> = (0..count)
            .flat_map(|query| {
                let seen = piece.seen(query);
                (0..columns).map(move |column| if seen.contains(&column) { 0.0 } else { f32::MIN })
            })
            .collect();
        let mask = Tensor::from_vec(hidden, (1, 1, count, columns), scores.device())?;
        scores = scores
            .reshape((kv_heads, rows / count, count, columns))?
            .broadcast_add(&mask)?
            .reshape((kv_heads, rows, columns))?;
    }
    candle_nn::ops::softmax_last_dim(&scores)?.to_dtype(dtype)
}

struct MaskedSoftmax {
    scale: f32,
    piece: Option<Piece>,
}

impl InplaceOp1 for MaskedSoftmax {
    fn name(&self) -> &'static str {
        "masked-softmax"
    }

    fn cpu_fwd(&self, scores: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let width = layout.dims().last().copied().unwrap_or(0);
        cpu::softmax(floats_mut(scores, layout)?, width, self.scale, |row| match self.piece {
            Some(piece) => piece.seen(row % piece.count),
            None => 0..width,
        });
        Ok(())
    }
}

/// What one step of decoding looks at.
pub(crate) struct StepView<'a> {
    /// The first column of each row that holds a token.
    pub firsts: &'a [usize],
    /// Columns filled, the new token's included.
    pub filled: usize,
    /// For accelerators: zeros and large negative numbers (rows, 1, 1, filled), or nothing where no row is padded.
    pub mask: Option<&'a Tensor>,
    /// Factor of the scores.
    pub scale: f64,
}

impl StepView<'_> {
    /// The mask that `firsts` asks for.
    pub(crate) fn mask(firsts: &[usize], filled: usize, like: &Tensor) -> Result<Option<Tensor>> {
        if on_cpu(like) || firsts.iter().all(|&first| first == 0) {
            return Ok(None);
        }
        let hidden: Vec<f32> = firsts
            .iter()
            .flat_map(|&first| (0..filled).map(move |column| if column < first { f32::MIN } else { 0.0 }))
            .collect();
        Tensor::from_vec(hidden, (firsts.len(), 1, 1, filled), like.device()).map(Some)
    }
}

/// Attention of one query a row, (rows, heads, width), over the cache (rows, kv heads, capacity, width), to
/// (rows, heads · width).
pub(crate) fn attend_step(
    queries: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    view: &StepView<'_>,
) -> Result<Tensor> {
    let (rows, heads, width) = queries.dims3()?;
    if on_cpu(queries) {
        let op = Step { firsts: view.firsts.to_vec(), filled: view.filled, scale: view.scale as f32 };
        return queries.contiguous()?.apply_op3_no_bwd(keys, values, &op);
    }
    let kv_heads = keys.dim(1)?;
    let queries = queries.reshape((rows, kv_heads, heads / kv_heads, width))?;
    let keys = keys.narrow(2, 0, view.filled)?;
    let values = values.narrow(2, 0, view.filled)?;
    let dtype = queries.dtype();
    let mut scores = (queries.matmul(&keys.transpose(2, 3)?)?.to_dtype(DType::F32)? * view.scale)?;
    if let Some(mask) = view.mask {
        scores = scores.broadcast_add(mask)?;
    }
    let weights = candle_nn::ops::softmax(&scores, D::Minus1)?.to_dtype(dtype)?;
    weights.matmul(&values)?.reshape((rows, heads * width))
}

struct Step {
    firsts: Vec<usize>,
    filled: usize,
    scale: f32,
}

impl CustomOp3 for Step {
    fn name(&self) -> &'static str {
        "attend-step"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        queries_layout: &Layout,
        keys: &CpuStorage,
        keys_layout: &Layout,
        values: &CpuStorage,
        values_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, heads, width) = queries_layout.shape().dims3()?;
        let (cache_rows, kv_heads, capacity, _) = keys_layout.shape().dims4()?;
        if cache_rows != rows || self.firsts.len() != rows || self.filled > capacity || kv_heads == 0 {
            candle_core::bail!(
                "a step of {rows} rows does not fit a cache of {cache_rows} rows and {capacity} columns"
            );
        }
        let step = cpu::Step {
            queries: floats(queries, queries_layout)?,
            keys: floats(keys, keys_layout)?,
            values: floats(values, values_layout)?,
            firsts: &self.firsts,
            filled: self.filled,
            capacity,
            width,
            group: heads / kv_heads,
            kv_heads,
            scale: self.scale,
        };
        let mut out = vec![0.0; rows * heads * width];
        cpu::attend_step(&step, &mut out);
        Ok((CpuStorage::F32(out), Shape::from((rows, heads * width))))
    }
}

/// The fused kernel for 16-bit formats on CUDA.
#[cfg(feature = "flash-attn")]
fn flash(queries: &Tensor, keys: &Tensor, values: &Tensor, scale: f64, causal: bool) -> Result<Tensor> {
    let (heads, tokens, width) = queries.dims3()?;
    let order = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(0)?.contiguous();
    candle_flash_attn::flash_attn(&order(queries)?, &order(keys)?, &order(values)?, scale as f32, causal)?
        .reshape((tokens, heads * width))
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn noise(shape: &[usize]) -> Tensor {
        Tensor::rand(-1_f32, 1.0, shape, &Device::Cpu).unwrap()
    }

    fn largest_difference(a: &Tensor, b: &Tensor) -> f32 {
        let b = b.to_dtype(DType::F32).unwrap();
        (a - b).unwrap().abs().unwrap().max_all().unwrap().to_scalar().unwrap()
    }

    /// f64 takes candle's own operations and the mask, f32 our kernels: they must agree.
    #[test]
    fn both_ways_of_attention_agree() {
        let wide = |x: &Tensor| x.to_dtype(DType::F64).unwrap();
        let windowed = |window| Sight::Before { window };
        for (tokens, columns, sight) in [
            (1, 1, windowed(None)),
            (5, 9, windowed(None)),
            (5, 9, windowed(Some(3))),
            (300, 310, windowed(None)),
            (300, 310, windowed(Some(40))),
            (300, 310, windowed(Some(1000))),
            (140, 140, Sight::All),
        ] {
            let (q, k, v) = (noise(&[6, tokens, 8]), noise(&[2, columns, 8]), noise(&[2, columns, 8]));
            let ours = attend(&q, &k, &v, 0.4, sight).unwrap();
            let plain = attend(&wide(&q), &wide(&k), &wide(&v), 0.4, sight).unwrap();
            assert!(largest_difference(&ours, &plain) < 1e-5, "{tokens} {columns} {sight:?}");
        }
        let (q, k, v) = (noise(&[2, 6, 8]), noise(&[2, 3, 12, 8]), noise(&[2, 3, 12, 8]));
        let firsts = [4, 0];
        let mask = StepView::mask(&firsts, 9, &wide(&q)).unwrap();
        assert!(mask.is_some());
        let view = StepView { firsts: &firsts, filled: 9, mask: mask.as_ref(), scale: 0.4 };
        let ours = attend_step(&q, &k, &v, &view).unwrap();
        let plain = attend_step(&wide(&q), &wide(&k), &wide(&v), &view).unwrap();
        assert!(largest_difference(&ours, &plain) < 1e-5);
    }

    /// The last query of a longer prompt sees the same as a query alone with the same columns, or with those of its window.
    #[test]
    fn a_piece_of_a_prompt_equals_the_whole() {
        let alone = noise(&[4, 1, 8]);
        let (k, v) = (noise(&[2, 20, 8]), noise(&[2, 20, 8]));
        let windowed = attend(&alone, &k, &v, 0.3, Sight::Before { window: Some(6) }).unwrap();
        let (k, v) = (k.narrow(1, 14, 6).unwrap(), v.narrow(1, 14, 6).unwrap());
        let cut = attend(&alone, &k, &v, 0.3, Sight::Before { window: None }).unwrap();
        assert!(largest_difference(&windowed, &cut) < 1e-6);
        let (q, k, v) = (noise(&[4, 20, 8]), noise(&[2, 20, 8]), noise(&[2, 20, 8]));
        let whole = attend(&q, &k, &v, 0.3, Sight::Before { window: None }).unwrap();
        let tail = attend(&q.narrow(1, 13, 7).unwrap(), &k, &v, 0.3, Sight::Before { window: None }).unwrap();
        assert!(largest_difference(&whole.narrow(0, 13, 7).unwrap(), &tail) < 1e-6);
    }
}
