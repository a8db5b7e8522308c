//! Linear layers, with what follows them done in the same pass.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp2, InplaceOp1, InplaceOp2, Layout, Result, Shape, Tensor};

use super::{cpu, floats, floats_mut, on_cpu, products};
use crate::model::local::weights::Weights;

/// Up to this many rows our own kernel takes less processor time than candle's packed product (measured with AVX-512: 8 rows
/// a third, 32 rows two thirds, 64 rows the same, 128 rows half as much again).
const FEW: usize = 64;

/// `y = x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
    /// The bias again, for our own kernels.
    host_bias: Option<Arc<[f32]>>,
}

impl Linear {
    /// A layer from its weight (out, in) and bias (out).
    pub(crate) fn new(weight: &Tensor, bias: Option<Tensor>) -> Result<Self> {
        let weight = weight.contiguous()?;
        let host_bias = match &bias {
            Some(bias) if on_cpu(bias) => Some(bias.to_vec1::<f32>()?.into()),
            _ => None,
        };
        Ok(Self { weight, bias, host_bias })
    }

    /// The layer `name` of a checkpoint; a bias that is not there is none.
    pub(crate) fn load(weights: &Weights, name: &str) -> Result<Self> {
        Self::new(&weights.get(&format!("{name}.weight"))?, weights.find(&format!("{name}.bias"))?)
    }

    /// Several layers with the same input as one; a bias that one of them lacks is zero.
    pub(crate) fn load_fused(weights: &Weights, names: &[String]) -> Result<Self> {
        let mut parts = Vec::with_capacity(names.len());
        let mut biases = Vec::with_capacity(names.len());
        let mut any = false;
        for name in names {
            let part = weights.get(&format!("{name}.weight"))?;
            let bias = weights.find(&format!("{name}.bias"))?;
            any |= bias.is_some();
            biases.push(match bias {
                Some(bias) => bias,
                None => Tensor::zeros(part.dim(0)?, part.dtype(), part.device())?,
            });
            parts.push(part);
        }
        let bias = if any { Some(Tensor::cat(&biases, 0)?) } else { None };
        Self::new(&Tensor::cat(&parts, 0)?, bias)
    }

    /// (rows, in) to (rows, out).
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.apply(x, false, None)
    }

    /// The same with the exact (erf) GELU behind it.
    pub(crate) fn forward_gelu(&self, x: &Tensor) -> Result<Tensor> {
        self.apply(x, true, None)
    }

    /// The same with `residual` added.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.apply(x, false, Some(residual))
    }

    fn apply(&self, x: &Tensor, gelu: bool, residual: Option<&Tensor>) -> Result<Tensor> {
        if on_cpu(x) {
            return self.apply_on_cpu(x, gelu, residual);
        }
        let mut y = x.matmul(&self.weight.t()?)?;
        if let Some(bias) = &self.bias {
            y = y.broadcast_add(bias)?;
        }
        if gelu {
            y = y.gelu_erf()?;
        }
        match residual {
            Some(residual) => y + residual,
            None => Ok(y),
        }
    }

    fn apply_on_cpu(&self, x: &Tensor, gelu: bool, residual: Option<&Tensor>) -> Result<Tensor> {
        let few = x.dim(0)? <= FEW;
        let y = if few {
            x.contiguous()?.apply_op2_no_bwd(&self.weight, &FewRows { bias: self.host_bias.clone() })?
        } else {
            x.matmul(&self.weight.t()?)?
        };
        let bias = if few { None } else { self.host_bias.clone() };
        if bias.is_none() && !gelu && residual.is_none() {
            return Ok(y);
        }
        // In place: `y` is ours alone.
        let finish = Finish { bias, gelu };
        match residual {
            Some(residual) => y.inplace_op2(&residual.contiguous()?, &finish)?,
            None => y.inplace_op1(&finish)?,
        }
        Ok(y)
    }
}

/// A product of few rows, with its bias.
struct FewRows {
    bias: Option<Arc<[f32]>>,
}

impl CustomOp2 for FewRows {
    fn name(&self) -> &'static str {
        "few-rows"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, k) = x_layout.shape().dims2()?;
        let (n, inner) = weight_layout.shape().dims2()?;
        if inner != k {
            candle_core::bail!("a layer for {inner} values got {k}");
        }
        let mut out = vec![0.0; rows * n];
        products::few_rows(
            floats(x, x_layout)?,
            floats(weight, weight_layout)?,
            k,
            self.bias.as_deref(),
            &mut out,
        );
        Ok((CpuStorage::F32(out), Shape::from((rows, n))))
    }
}

/// Bias, GELU and residual behind a product.
struct Finish {
    bias: Option<Arc<[f32]>>,
    gelu: bool,
}

impl InplaceOp1 for Finish {
    fn name(&self) -> &'static str {
        "finish"
    }

    fn cpu_fwd(&self, y: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let width = layout.shape().dims2()?.1;
        cpu::finish(floats_mut(y, layout)?, width, self.bias.as_deref(), self.gelu, None);
        Ok(())
    }
}

impl InplaceOp2 for Finish {
    fn name(&self) -> &'static str {
        "finish-add"
    }

    fn cpu_fwd(
        &self,
        y: &mut CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<()> {
        if layout.shape() != residual_layout.shape() {
            candle_core::bail!("a residual of another shape");
        }
        let residual = floats(residual, residual_layout)?;
        let width = layout.shape().dims2()?.1;
        cpu::finish(floats_mut(y, layout)?, width, self.bias.as_deref(), self.gelu, Some(residual));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;

    /// Our kernels against candle's operations, which f64 still takes.
    #[test]
    fn all_forms_agree_with_plain_operations() {
        for rows in [1, 7, FEW, FEW + 1, 100] {
            let make = |shape: (usize, usize)| Tensor::rand(-1_f32, 1.0, shape, &Device::Cpu).unwrap();
            let (x, weight, bias, residual) =
                (make((rows, 40)), make((24, 40)), make((1, 24)).squeeze(0).unwrap(), make((rows, 24)));
            let wide = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
            let ours = Linear::new(&weight, Some(bias.clone())).unwrap();
            let plain = Linear::new(&wide(&weight), Some(wide(&bias))).unwrap();
            for (ours, plain) in [
                (ours.forward(&x), plain.forward(&wide(&x))),
                (ours.forward_gelu(&x), plain.forward_gelu(&wide(&x))),
                (ours.forward_add(&x, &residual), plain.forward_add(&wide(&x), &wide(&residual))),
            ] {
                let difference = (wide(&ours.unwrap()) - plain.unwrap()).unwrap().abs().unwrap();
                let largest = difference.max_all().unwrap().to_scalar::<f64>().unwrap();
                assert!(largest < 1e-5, "{rows} rows: {largest}");
            }
        }
    }
}
