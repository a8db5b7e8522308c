//! The two norms.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Tensor};

use super::{cpu, floats, on_cpu};
use crate::model::local::weights::Weights;

/// Layer norm with weight and bias.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
}

impl LayerNorm {
    /// The default of `torch.nn.LayerNorm`.
    const EPSILON: f32 = 1e-5;

    pub(crate) fn load(weights: &Weights, name: &str) -> Result<Self> {
        Ok(Self {
            weight: weights.get(&format!("{name}.weight"))?,
            bias: weights.get(&format!("{name}.bias"))?,
        })
    }

    /// Norms the rows of (rows, width).
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.contiguous()?;
        if on_cpu(&x) {
            return x.apply_op3_no_bwd(&self.weight, &self.bias, &LayerNormOp);
        }
        candle_nn::ops::layer_norm(&x, &self.weight, &self.bias, Self::EPSILON)
    }
}

/// Root-mean-square norm with weight.
#[derive(Clone, Debug)]
pub(crate) struct RmsNorm {
    weight: Tensor,
    epsilon: f32,
}

impl RmsNorm {
    /// With `less_one` the weights are stored less one; then the norm is computed in f32, as the reference does, since
    /// 16-bit numbers near one would lose what was stored.
    pub(crate) fn load(weights: &Weights, name: &str, epsilon: f64, less_one: bool) -> Result<Self> {
        let weight = weights.get(&format!("{name}.weight"))?;
        let weight = if less_one { (weight.to_dtype(DType::F32)? + 1.0)? } else { weight };
        Ok(Self { weight, epsilon: epsilon as f32 })
    }

    /// Norms the rows of (rows, width).
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.contiguous()?;
        if on_cpu(&x) {
            return x.apply_op2_no_bwd(&self.weight, &RmsNormOp { epsilon: self.epsilon });
        }
        let wide = x.to_dtype(self.weight.dtype())?;
        candle_nn::ops::rms_norm(&wide, &self.weight, self.epsilon)?.to_dtype(x.dtype())
    }
}

struct LayerNormOp;

impl CustomOp3 for LayerNormOp {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, x_layout)?;
        let (weight, bias) = (floats(weight, weight_layout)?, floats(bias, bias_layout)?);
        let mut out = vec![0.0; x.len()];
        cpu::norm(x, weight, Some(bias), LayerNorm::EPSILON, &mut out);
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }
}

struct RmsNormOp {
    epsilon: f32,
}

impl CustomOp2 for RmsNormOp {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = floats(x, x_layout)?;
        let mut out = vec![0.0; x.len()];
        cpu::norm(x, floats(weight, weight_layout)?, None, self.epsilon, &mut out);
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }
}
