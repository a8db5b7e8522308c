//! Kernels for f32 on the CPU: safe code that `pulp` compiles for several instruction sets and picks from at run time.
//!
//! Each output value is summed in an order that depends on the inner size alone, never on how many rows are computed
//! together, so a row's result does not depend on its batch. This module must not know tensors.

#![expect(
    clippy::inline_always,
    reason = "kernels must be compiled into the function that has the instruction set"
)]

use std::ops::Range;
use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::products::Products;

/// The instruction set, found once.
pub(super) fn arch() -> Arch {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    *ARCH.get_or_init(Arch::new)
}

/// Work that is compiled for each instruction set. A closure would not do: the compiler wraps it in a function of its own that
/// lacks the instruction set.
trait Kernel {
    /// Does it. `FMA` says whether there is an instruction that multiplies and adds; without it `mul_add` is a slow call.
    fn run<const FMA: bool>(self);
}

struct OnSimd<K>(K);

impl<K: Kernel> WithSimd for OnSimd<K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if size_of::<S::f32s>() > size_of::<f32>() { self.0.run::<true>() } else { self.0.run::<false>() }
    }
}

fn run(kernel: impl Kernel) {
    arch().dispatch(OnSimd(kernel));
}

/// `a · b + c`.
#[inline(always)]
fn fused<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// The exponential within 3e-7 of itself, for arguments below 88; what underflows is zero or nearly so, and NaN stays NaN.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    // 1.5 · 2^23: adding it rounds to an integer that is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = fused::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fused::<FMA>(n, -1.428_606_8e-6, fused::<FMA>(n, -0.693_145_75, x));
    // The polynomial of least relative error for |r| up to ln(2) / 2.
    let mut p = 0.008_297_646;
    for factor in [0.041_915_43, 0.166_675_75, 0.499_988_94, 0.999_999_7, 1.000_000_1] {
        p = fused::<FMA>(p, r, factor);
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    p * power
}

/// The error function within 4e-7: a rational function fitted to it on [-3.95, 3.95], where it reaches one.
#[inline(always)]
fn erf<const FMA: bool>(x: f32) -> f32 {
    let x = x.clamp(-3.95, 3.95);
    let z = x * x;
    let mut p = 2.011_777_3e-6;
    for factor in [2.875_922e-4, 3.917_012e-3, 5.320_613e-2, 0.194_028_76, std::f32::consts::FRAC_2_SQRT_PI] {
        p = fused::<FMA>(p, z, factor);
    }
    let mut q = 3.783_962_7e-5;
    for factor in [1.198_123_5e-3, 1.527_009_8e-2, 0.115_587_87, 0.505_285, 1.0] {
        q = fused::<FMA>(q, z, factor);
    }
    (x * p / q).clamp(-1.0, 1.0)
}

/// Rows of at most this many values are worked on in one piece.
const PIECE: usize = 1 << 14;

/// `y = f(y + bias) + residual` over rows as wide as `bias`, where `f` is the exact GELU or nothing.
pub(super) fn finish(
    y: &mut [f32],
    width: usize,
    bias: Option<&[f32]>,
    gelu: bool,
    residual: Option<&[f32]>,
) {
    if width == 0 {
        return;
    }
    let piece = (PIECE / width).max(1) * width;
    match residual {
        None => y.par_chunks_mut(piece).for_each(|y| run(Finish { y, width, bias, gelu, residual: None })),
        Some(residual) => y
            .par_chunks_mut(piece)
            .zip(residual.par_chunks(piece))
            .for_each(|(y, residual)| run(Finish { y, width, bias, gelu, residual: Some(residual) })),
    }
}

struct Finish<'a> {
    y: &'a mut [f32],
    width: usize,
    bias: Option<&'a [f32]>,
    gelu: bool,
    residual: Option<&'a [f32]>,
}

impl Kernel for Finish<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { y, width, bias, gelu, residual } = self;
        if let Some(bias) = bias {
            for y in y.chunks_exact_mut(width) {
                for (y, bias) in y.iter_mut().zip(bias) {
                    *y += bias;
                }
            }
        }
        if gelu {
            for y in y.iter_mut() {
                *y = 0.5 * *y * (1.0 + erf::<FMA>(*y * std::f32::consts::FRAC_1_SQRT_2));
            }
        }
        if let Some(residual) = residual {
            for (y, residual) in y.iter_mut().zip(residual) {
                *y += residual;
            }
        }
    }
}

/// What a gate does to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// `x · sigmoid(x)`.
    Silu,
    /// The GELU by its tanh form.
    GeluTanh,
}

/// `out = gate(gates) · ups`, where each row of `pairs` holds `width` gates and then `width` ups.
pub(super) fn gated(pairs: &[f32], width: usize, gate: Gate, out: &mut [f32]) {
    if width == 0 {
        return;
    }
    let rows = (PIECE / width).max(1);
    out.par_chunks_mut(rows * width)
        .zip(pairs.par_chunks(rows * 2 * width))
        .for_each(|(out, pairs)| run(Gated { pairs, width, gate, out }));
}

struct Gated<'a> {
    pairs: &'a [f32],
    width: usize,
    gate: Gate,
    out: &'a mut [f32],
}

impl Kernel for Gated<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { pairs, width, gate, out } = self;
        for (out, pair) in out.chunks_exact_mut(width).zip(pairs.chunks_exact(2 * width)) {
            let (gates, ups) = pair.split_at(width);
            match gate {
                Gate::Silu => {
                    for ((out, &gate), &up) in out.iter_mut().zip(gates).zip(ups) {
                        *out = gate / inverse_sigmoid::<FMA>(gate) * up;
                    }
                }
                Gate::GeluTanh => {
                    // 0.5 (1 + tanh u) is sigmoid(2u).
                    const TWICE: f32 = 2.0 * 0.797_884_6;
                    for ((out, &gate), &up) in out.iter_mut().zip(gates).zip(ups) {
                        let cubed = gate * gate * gate;
                        let inner = TWICE * fused::<FMA>(0.044_715, cubed, gate);
                        *out = gate / inverse_sigmoid::<FMA>(inner) * up;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn inverse_sigmoid<const FMA: bool>(x: f32) -> f32 {
    let negated = if x < -88.0 { 88.0 } else { -x };
    1.0 + exp::<FMA>(negated)
}

/// Softmax in place of `scale · row`, of which the values `valid(row)` count and the rest become zero.
pub(super) fn softmax(
    scores: &mut [f32],
    width: usize,
    scale: f32,
    valid: impl Fn(usize) -> Range<usize> + Sync,
) {
    if width == 0 {
        return;
    }
    let rows = (PIECE / width).max(1);
    scores.par_chunks_mut(rows * width).enumerate().for_each(|(piece, scores)| {
        for (row, scores) in scores.chunks_exact_mut(width).enumerate() {
            let Range { start, end } = valid(piece * rows + row);
            let (row, later) = scores.split_at_mut(end.min(width));
            let (earlier, row) = row.split_at_mut(start.min(row.len()));
            run(SoftmaxRow { row, scale });
            earlier.fill(0.0);
            later.fill(0.0);
        }
    });
}

struct SoftmaxRow<'a> {
    row: &'a mut [f32],
    scale: f32,
}

impl Kernel for SoftmaxRow<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        softmax_row::<FMA>(self.row, self.scale);
    }
}

/// Softmax of one row in place. A NaN makes the whole row NaN.
#[inline(always)]
fn softmax_row<const FMA: bool>(row: &mut [f32], scale: f32) {
    const LANES: usize = 16;
    let mut tops = [f32::NEG_INFINITY; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            tops[lane] = if block[lane] > tops[lane] { block[lane] } else { tops[lane] };
        }
    }
    let top = tops.iter().chain(rest).fold(f32::NEG_INFINITY, |top, &value| top.max(value));
    let mut sums = [0.0_f32; LANES];
    let (blocks, rest) = row.as_chunks_mut::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            block[lane] = exp::<FMA>((block[lane] - top) * scale);
            sums[lane] += block[lane];
        }
    }
    let mut sum = sums.iter().sum::<f32>();
    for value in rest {
        *value = exp::<FMA>((*value - top) * scale);
        sum += *value;
    }
    let factor = 1.0 / sum;
    for value in row {
        *value *= factor;
    }
}

/// What [`attend_step`] works on.
pub(super) struct Step<'a> {
    /// (rows, heads, width): one query for each row.
    pub queries: &'a [f32],
    /// (rows, kv heads, capacity, width).
    pub keys: &'a [f32],
    /// (rows, kv heads, capacity, width).
    pub values: &'a [f32],
    /// The first column of each row that holds a token.
    pub firsts: &'a [usize],
    /// Columns filled.
    pub filled: usize,
    /// Columns there are.
    pub capacity: usize,
    /// Width of a head.
    pub width: usize,
    /// Query heads for each kv head.
    pub group: usize,
    /// Kv heads.
    pub kv_heads: usize,
    /// Factor of the scores.
    pub scale: f32,
}

/// Attention of one new token a row over the columns of its cache; `out` has the shape of the queries.
pub(super) fn attend_step(step: &Step<'_>, out: &mut [f32]) {
    let Step { width, group, kv_heads, capacity, .. } = *step;
    if width == 0 || group == 0 {
        return;
    }
    let heads = out.par_chunks_mut(group * width).zip(step.queries.par_chunks(group * width));
    heads.enumerate().for_each(|(index, (out, queries))| {
        let first = step.firsts.get(index / kv_heads).copied().unwrap_or(0).min(step.filled);
        let columns = step.filled - first;
        let start = (index * capacity + first) * width;
        let keys = &step.keys[start..start + columns * width];
        let values = &step.values[start..start + columns * width];
        // (columns, group), then turned to one row a query.
        let mut turned = vec![0.0; columns * group];
        arch().dispatch(Products { inputs: queries, weights: keys, k: width, out: &mut turned });
        let mut scores = vec![0.0; columns];
        for (query, out) in out.chunks_exact_mut(width).enumerate() {
            let column_scores = turned.iter().skip(query).step_by(group);
            scores.iter_mut().zip(column_scores).for_each(|(score, value)| *score = *value);
            run(Mix { scores: &mut scores, scale: step.scale, values, out });
        }
    });
}

/// `out += softmax(scale · scores) · values`.
struct Mix<'a> {
    scores: &'a mut [f32],
    scale: f32,
    values: &'a [f32],
    out: &'a mut [f32],
}

impl Kernel for Mix<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { scores, scale, values, out } = self;
        softmax_row::<FMA>(scores, scale);
        for (score, values) in scores.iter().zip(values.chunks_exact(out.len())) {
            for (out, value) in out.iter_mut().zip(values) {
                *out = fused::<FMA>(*score, *value, *out);
            }
        }
    }
}

/// Root-mean-square norm of rows as wide as `weight`, or layer norm where there is a `bias`.
pub(super) fn norm(x: &[f32], weight: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
    if weight.is_empty() {
        return;
    }
    let piece = (PIECE / weight.len()).max(1) * weight.len();
    out.par_chunks_mut(piece)
        .zip(x.par_chunks(piece))
        .for_each(|(out, x)| run(Norm { x, weight, bias, epsilon, out }));
}

struct Norm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    epsilon: f32,
    out: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { x, weight, bias, epsilon, out } = self;
        let width = weight.len();
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let Some(bias) = bias else {
                let factor = 1.0 / (dot::<FMA>(x, x) / width as f32 + epsilon).sqrt();
                for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                    *out = x * factor * weight;
                }
                continue;
            };
            let mean = sum(x) / width as f32;
            for (out, x) in out.iter_mut().zip(x) {
                *out = x - mean;
            }
            let factor = 1.0 / (dot::<FMA>(out, out) / width as f32 + epsilon).sqrt();
            for ((out, weight), bias) in out.iter_mut().zip(weight).zip(bias) {
                *out = *out * factor * weight + bias;
            }
        }
    }
}

#[inline(always)]
fn sum(x: &[f32]) -> f32 {
    let (blocks, rest) = x.as_chunks::<16>();
    let mut sums = [0.0_f32; 16];
    for block in blocks {
        for lane in 0..16 {
            sums[lane] += block[lane];
        }
    }
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

#[inline(always)]
fn dot<const FMA: bool>(x: &[f32], y: &[f32]) -> f32 {
    let ((blocks_x, rest_x), (blocks_y, rest_y)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    let mut sums = [0.0_f32; 16];
    for (x, y) in blocks_x.iter().zip(blocks_y) {
        for lane in 0..16 {
            sums[lane] = fused::<FMA>(x[lane], y[lane], sums[lane]);
        }
    }
    sums.iter().sum::<f32>() + rest_x.iter().zip(rest_y).map(|(x, y)| x * y).sum::<f32>()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random.
    pub(in super::super) fn noise(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    #[test]
    fn exp_and_erf_are_close_to_the_exact_functions() {
        for step in -87_000..=88_000 {
            let x = step as f32 / 1000.0;
            let exact = f64::from(x).exp();
            for found in [exp::<false>(x), exp::<true>(x)] {
                assert!(((f64::from(found) - exact) / exact).abs() < 4e-7, "{x}");
            }
        }
        assert!(exp::<true>(f32::NAN).is_nan() && exp::<true>(f32::NEG_INFINITY) < 1e-37);
        // erf by its Taylor series, which is exact enough in f64 for these arguments.
        for step in -4500..=4500 {
            let x = f64::from(step) / 1000.0;
            let (mut term, mut sum) = (x, x);
            for n in 1..120 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            let exact = sum * std::f64::consts::FRAC_2_SQRT_PI;
            for found in [erf::<false>(x as f32), erf::<true>(x as f32)] {
                assert!((f64::from(found) - exact).abs() < 5e-7, "{x}: {found} {exact}");
            }
        }
    }

    #[test]
    fn softmax_counts_only_what_is_valid() {
        let width = 37;
        let mut scores = noise(5 * width, 7);
        let before = scores.clone();
        softmax(&mut scores, width, 3.0, |row| 2 * row..8 * row + 1);
        for row in 0..5 {
            let valid = 2 * row..(8 * row + 1).min(width);
            let exact: Vec<f64> =
                before[row * width..][..width].iter().map(|&x| (3.0 * f64::from(x)).exp()).collect();
            let total: f64 = exact[valid.clone()].iter().sum();
            for (column, &value) in scores[row * width..][..width].iter().enumerate() {
                let expected = if valid.contains(&column) { exact[column] / total } else { 0.0 };
                assert!((f64::from(value) - expected).abs() < 1e-6);
            }
        }
        let mut broken = vec![0.0, f32::NAN, 1.0];
        softmax(&mut broken, 3, 1.0, |_| 0..3);
        assert!(broken.iter().all(|value| value.is_nan()));
    }

    #[test]
    fn a_step_of_attention_looks_only_at_filled_columns() {
        let (rows, kv_heads, group, width, capacity, filled) = (2, 2, 3, 8, 10, 7);
        let queries = noise(rows * kv_heads * group * width, 1);
        let mut keys = noise(rows * kv_heads * capacity * width, 2);
        let values = noise(keys.len(), 3);
        // What lies outside must not matter.
        keys[..2 * width].fill(f32::NAN);
        let step = Step {
            queries: &queries,
            keys: &keys,
            values: &values,
            firsts: &[2, 0],
            filled,
            capacity,
            width,
            group,
            kv_heads,
            scale: 0.5,
        };
        let mut out = vec![0.0; queries.len()];
        attend_step(&step, &mut out);
        for row in 0..rows {
            for head in 0..kv_heads * group {
                let query = &queries[(row * kv_heads * group + head) * width..][..width];
                let cell = |column: usize| ((row * kv_heads + head / group) * capacity + column) * width;
                let scores: Vec<f64> = (step.firsts[row]..filled)
                    .map(|column| {
                        let key = &keys[cell(column)..][..width];
                        let dot: f64 =
                            query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                        (0.5 * dot).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                for i in 0..width {
                    let expected: f64 = (step.firsts[row]..filled)
                        .zip(&scores)
                        .map(|(column, score)| score / total * f64::from(values[cell(column) + i]))
                        .sum();
                    let found = f64::from(out[(row * kv_heads * group + head) * width + i]);
                    assert!((found - expected).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn norms_and_gates_are_right() {
        let (x, weight, bias) = (noise(3 * 21, 1), noise(21, 2), noise(21, 3));
        let mut out = vec![0.0; x.len()];
        norm(&x, &weight, Some(&bias), 1e-5, &mut out);
        let row = &x[21..42];
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 21.0;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 21.0;
        let expected =
            (f64::from(row[4]) - mean) / (variance + 1e-5).sqrt() * f64::from(weight[4]) + f64::from(bias[4]);
        assert!((f64::from(out[25]) - expected).abs() < 1e-6);
        norm(&x, &weight, None, 1e-6, &mut out);
        let square = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / 21.0;
        let expected = f64::from(row[4]) / (square + 1e-6).sqrt() * f64::from(weight[4]);
        assert!((f64::from(out[25]) - expected).abs() < 1e-6);
        let mut gated = [0.0; 2];
        super::gated(&[1.5, -200.0, 2.0, 3.0], 2, Gate::Silu, &mut gated);
        assert!((gated[0] - 1.5 / (1.0 + (-1.5_f32).exp()) * 2.0).abs() < 1e-6 && gated[1].abs() < 1e-20);
        super::gated(&[1.5, -200.0, 2.0, 3.0], 2, Gate::GeluTanh, &mut gated);
        let inner = (2.0 / std::f32::consts::PI).sqrt() * (1.5 + 0.044_715 * 1.5_f32.powi(3));
        let gelu = 0.5 * 1.5 * (1.0 + inner.tanh());
        assert!((gated[0] - gelu * 2.0).abs() < 1e-6 && gated[1].abs() < 1e-20);
        let mut y = [1.0, 2.0];
        finish(&mut y, 1, Some(&[-1.0]), true, Some(&[10.0, 20.0]));
        assert!((y[0] - 10.0).abs() < 1e-6 && (y[1] - 20.841_345).abs() < 1e-5);
    }
}
