//! Parts that models are made of. On the CPU in f32 they run on our own kernels, elsewhere on candle's.

pub(super) mod attn;
pub(super) mod cache;
mod cpu;
pub(super) mod linear;
pub(super) mod norm;
mod products;
pub(super) mod rope;

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor};

/// Whether our own kernels take a tensor.
fn on_cpu(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == DType::F32
}

/// The f32 values of a contiguous tensor on the CPU.
fn floats<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let CpuStorage::F32(values) = storage else { candle_core::bail!("expected f32 values") };
    match layout.contiguous_offsets() {
        Some((from, to)) => Ok(&values[from..to]),
        None => candle_core::bail!("expected a contiguous tensor"),
    }
}

/// The same, to be changed in place.
fn floats_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let CpuStorage::F32(values) = storage else { candle_core::bail!("expected f32 values") };
    match layout.contiguous_offsets() {
        Some((from, to)) => Ok(&mut values[from..to]),
        None => candle_core::bail!("expected a contiguous tensor"),
    }
}

/// `silu(gate) · up` of rows that hold the gates and then the ups: (rows, 2 · width) to (rows, width).
pub(crate) fn swiglu(pairs: &Tensor) -> Result<Tensor> {
    if on_cpu(pairs) {
        return pairs.contiguous()?.apply_op1_no_bwd(&SwiGlu);
    }
    let width = pairs.dim(1)? / 2;
    let gates = pairs.narrow(1, 0, width)?.contiguous()?;
    let ups = pairs.narrow(1, width, width)?.contiguous()?;
    gates.silu()? * ups
}

struct SwiGlu;

impl CustomOp1 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(&self, pairs: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, double) = layout.shape().dims2()?;
        let width = double / 2;
        let mut out = vec![0.0; rows * width];
        cpu::swiglu(floats(pairs, layout)?, width, &mut out);
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }
}
