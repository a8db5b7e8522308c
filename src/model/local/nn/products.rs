//! Products of few rows with a weight matrix: decoding, and prompts of a few words.
//!
//! They read the weights once and pack nothing, unlike a general matrix product, which for few rows spends most of its time
//! on packing. Each value is summed in an order that depends on the inner size alone, never on how many rows are
//! computed together, so a row's result does not depend on its batch. This module must not know tensors.

#![expect(
    clippy::inline_always,
    reason = "kernels must be compiled into the function that has the instruction set"
)]

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::cpu::arch;

/// `out[row][n] = inputs[row] · weights[n]`, plus `bias[n]`: a product for few rows, which reads the weights once
/// and packs nothing. `inputs` is (rows, k), `weights` (n, k), `out` (rows, n).
pub(super) fn few_rows(inputs: &[f32], weights: &[f32], k: usize, bias: Option<&[f32]>, out: &mut [f32]) {
    if k == 0 || out.is_empty() || inputs.len() < k {
        return out.fill(0.0);
    }
    let rows = inputs.len() / k;
    let n = weights.len() / k;
    let tasks = rayon::current_num_threads() * 4;
    let chunk = n.div_ceil(tasks).max((1 << 15) / (k * rows)).next_multiple_of(24);
    if rows == 1 {
        out.par_chunks_mut(chunk).zip(weights.par_chunks(chunk * k)).for_each(|(out, weights)| {
            arch().dispatch(Products { inputs, weights, k, out });
        });
        if let Some(bias) = bias {
            out.iter_mut().zip(bias).for_each(|(out, bias)| *out += bias);
        }
        return;
    }
    // Computed with the rows innermost, so that each task writes one piece, then turned.
    let mut turned = vec![0.0; n * rows];
    turned.par_chunks_mut(chunk * rows).zip(weights.par_chunks(chunk * k)).for_each(|(out, weights)| {
        arch().dispatch(Products { inputs, weights, k, out });
    });
    out.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
        let values = turned.iter().skip(row).step_by(rows);
        match bias {
            None => out.iter_mut().zip(values).for_each(|(out, value)| *out = *value),
            Some(bias) => {
                out.iter_mut().zip(values).zip(bias).for_each(|((out, value), bias)| *out = value + bias);
            }
        }
    });
}

/// `out[n][row] = inputs[row] · weights[n]` in one task.
pub(super) struct Products<'a> {
    /// (rows, k).
    pub inputs: &'a [f32],
    /// (n, k).
    pub weights: &'a [f32],
    /// The inner size; above zero.
    pub k: usize,
    /// (n, rows).
    pub out: &'a mut [f32],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As many sums at once as there are registers for: 16 with AVX2, 32 elsewhere.
        let few = size_of::<S::f32s>() == 32;
        match (self.inputs.len() / self.k, few) {
            (0, _) => {}
            (1, _) => self.exactly::<S, Eight, 1>(simd),
            (2, _) => self.exactly::<S, Four, 2>(simd),
            (3, _) => self.exactly::<S, Four, 3>(simd),
            (4, false) => self.exactly::<S, Four, 4>(simd),
            (5, false) => self.exactly::<S, Four, 5>(simd),
            (6, false) => self.exactly::<S, Four, 6>(simd),
            (7, false) => self.exactly::<S, Three, 7>(simd),
            (8, false) => self.exactly::<S, Three, 8>(simd),
            (_, false) => self.many::<S, 8>(simd),
            (_, true) => self.many::<S, 4>(simd),
        }
    }
}

impl Products<'_> {
    /// For exactly `C` input rows.
    #[inline(always)]
    fn exactly<S: Simd, T: Tile, const C: usize>(self, simd: S) {
        let Self { inputs, weights, k, out } = self;
        let blocks = weights.chunks_exact(k * T::ROWS);
        let rest = blocks.remainder();
        let (body, tail) = out.split_at_mut(out.len() - rest.len() / k * C);
        for (weights, out) in blocks.zip(body.chunks_mut(T::ROWS * C)) {
            T::run::<S, C>(simd, weights, inputs, k, out, C);
        }
        for (weights, out) in rest.chunks_exact(k).zip(tail.chunks_mut(C)) {
            One::run::<S, C>(simd, weights, inputs, k, out, C);
        }
    }

    /// For more input rows than `C`, `C` at a time.
    #[inline(always)]
    fn many<S: Simd, const C: usize>(self, simd: S) {
        let Self { inputs, weights, k, out } = self;
        let rows = inputs.len() / k;
        // Weight rows that stay near while all inputs pass by; long rows are near enough a few at a time.
        let chunk = if k <= 1024 { 48 } else { Three::ROWS };
        for (weights, out) in weights.chunks(k * chunk).zip(out.chunks_mut(rows * chunk)) {
            let groups = inputs.chunks_exact(k * C);
            let mut rest = groups.remainder();
            let mut row = 0;
            for inputs in groups {
                down::<S, C>(simd, weights, inputs, k, &mut out[row..], rows);
                row += C;
            }
            if rest.len() >= k * 4 {
                down::<S, 4>(simd, weights, &rest[..k * 4], k, &mut out[row..], rows);
                rest = &rest[k * 4..];
                row += 4;
            }
            match rest.len() / k {
                0 => {}
                1 => down::<S, 1>(simd, weights, rest, k, &mut out[row..], rows),
                2 => down::<S, 2>(simd, weights, rest, k, &mut out[row..], rows),
                _ => down::<S, 3>(simd, weights, rest, k, &mut out[row..], rows),
            }
        }
    }
}

/// Some weight rows against `C` input rows.
#[inline(always)]
fn down<S: Simd, const C: usize>(
    simd: S,
    weights: &[f32],
    inputs: &[f32],
    k: usize,
    out: &mut [f32],
    rows: usize,
) {
    let blocks = weights.chunks_exact(k * Three::ROWS);
    let rest = blocks.remainder();
    let mut start = 0;
    for weights in blocks {
        Three::run::<S, C>(simd, weights, inputs, k, &mut out[start..], rows);
        start += Three::ROWS * rows;
    }
    for weights in rest.chunks_exact(k) {
        One::run::<S, C>(simd, weights, inputs, k, &mut out[start..], rows);
        start += rows;
    }
}

/// Some weight rows that are worked on together.
trait Tile {
    /// How many.
    const ROWS: usize;

    /// The dot products of the weight rows with `C` input rows, all of length `k`. The sums of a weight row lie side by side
    /// in `out`, those of the next one `stride` further on.
    fn run<S: Simd, const C: usize>(
        simd: S,
        weights: &[f32],
        inputs: &[f32],
        k: usize,
        out: &mut [f32],
        stride: usize,
    );
}

/// One [`Tile`]. Written out for each number of rows: the sums must be in registers, and arrays of arrays are not
/// reliably taken apart by the compiler.
macro_rules! tile {
    ($name:ident, $rows:literal, $($weights:ident $sums:ident $index:literal),*) => {
        struct $name;

        impl Tile for $name {
            const ROWS: usize = $rows;

            #[inline(always)]
            fn run<S: Simd, const C: usize>(
                simd: S,
                weights: &[f32],
                inputs: &[f32],
                k: usize,
                out: &mut [f32],
                stride: usize,
            ) {
                let inputs: [&[f32]; C] = std::array::from_fn(|row| &inputs[row * k..][..k]);
                let steps = k / (size_of::<S::f32s>() / size_of::<f32>());
                let heads: [&[S::f32s]; C] =
                    std::array::from_fn(|row| &S::as_simd_f32s(inputs[row]).0[..steps]);
                $(
                    let $weights = &weights[$index * k..][..k];
                    let mut $sums = [simd.splat_f32s(0.0); C];
                )*
                {
                    $(let $weights = &S::as_simd_f32s($weights).0[..steps];)*
                    for step in 0..steps {
                        $(let $weights = $weights[step];)*
                        for row in 0..C {
                            let input = heads[row][step];
                            $($sums[row] = simd.mul_add_e_f32s($weights, input, $sums[row]);)*
                        }
                    }
                }
                $(
                    let tail = S::as_simd_f32s($weights).1;
                    let out_row = &mut out[$index * stride..][..C];
                    for row in 0..C {
                        let mut sum = simd.reduce_sum_f32s($sums[row]);
                        for (weight, input) in tail.iter().zip(S::as_simd_f32s(inputs[row]).1) {
                            sum += weight * input;
                        }
                        out_row[row] = sum;
                    }
                )*
            }
        }
    };
}

tile!(One, 1, w0 s0 0);
tile!(Three, 3, w0 s0 0, w1 s1 1, w2 s2 2);
tile!(Four, 4, w0 s0 0, w1 s1 1, w2 s2 2, w3 s3 3);
tile!(Eight, 8, w0 s0 0, w1 s1 1, w2 s2 2, w3 s3 3, w4 s4 4, w5 s5 5, w6 s6 6, w7 s7 7);

#[cfg(test)]
mod tests {
    use super::super::cpu::tests::noise;
    use super::*;

    #[test]
    fn products_of_few_rows_are_right_and_do_not_depend_on_the_batch() {
        for (rows, n, k) in [
            (1, 1, 1),
            (1, 5, 17),
            (2, 9, 64),
            (5, 7, 33),
            (6, 8, 16),
            (13, 130, 96),
            (7, 3, 5),
            (31, 100, 70),
            (22, 31, 1100),
        ] {
            let (inputs, weights, bias) = (noise(rows * k, 1), noise(n * k, 2), noise(n, 3));
            let mut out = vec![f32::NAN; rows * n];
            few_rows(&inputs, &weights, k, Some(&bias), &mut out);
            for row in 0..rows {
                let mut alone = vec![f32::NAN; n];
                few_rows(&inputs[row * k..][..k], &weights, k, Some(&bias), &mut alone);
                assert_eq!(&out[row * n..][..n], &alone[..]);
                for column in 0..n {
                    let expected: f64 = (0..k)
                        .map(|i| f64::from(inputs[row * k + i]) * f64::from(weights[column * k + i]))
                        .sum::<f64>()
                        + f64::from(bias[column]);
                    assert!((f64::from(out[row * n + column]) - expected).abs() < 3e-5);
                }
            }
        }
    }

    /// Every instruction set that this machine has, with every number of rows that has a kernel of its own.
    #[test]
    fn products_are_right_on_other_instruction_sets() {
        let (n, k) = (19, 53);
        let weights = noise(n * k, 2);
        for rows in 1..=13 {
            let inputs = noise(rows * k, rows as u32);
            let check = |out: &[f32]| {
                for row in 0..rows {
                    for column in 0..n {
                        let (input, weight) = (&inputs[row * k..][..k], &weights[column * k..][..k]);
                        let exact: f64 =
                            input.iter().zip(weight).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                        assert!((f64::from(out[column * rows + row]) - exact).abs() < 1e-5);
                    }
                }
            };
            let mut out = vec![f32::NAN; n * rows];
            Simd::vectorize(
                pulp::Scalar::new(),
                Products { inputs: &inputs, weights: &weights, k, out: &mut out },
            );
            check(&out);
            #[cfg(target_arch = "x86_64")]
            if let Some(avx2) = pulp::x86::V3::try_new() {
                out.fill(f32::NAN);
                Simd::vectorize(avx2, Products { inputs: &inputs, weights: &weights, k, out: &mut out });
                check(&out);
            }
            out.fill(f32::NAN);
            arch().dispatch(Products { inputs: &inputs, weights: &weights, k, out: &mut out });
            check(&out);
        }
    }
}
