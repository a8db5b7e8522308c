//! Parts that models are made of. On the CPU in f32 they run on our own kernels, elsewhere on candle's.

pub(super) mod attn;
pub(super) mod cache;
mod cpu;
pub(super) mod linear;
pub(super) mod norm;
mod products;
pub(super) mod rope;

pub(crate) use cpu::Gate;

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

/// `gate(gates) · ups` of rows that hold the gates and then the ups: (rows, 2 · width) to (rows, width).
pub(crate) fn gated(pairs: &Tensor, gate: Gate) -> Result<Tensor> {
    if on_cpu(pairs) {
        return pairs.contiguous()?.apply_op1_no_bwd(&Gated(gate));
    }
    let width = pairs.dim(1)? / 2;
    let gates = pairs.narrow(1, 0, width)?.contiguous()?;
    let ups = pairs.narrow(1, width, width)?.contiguous()?;
    let gates = match gate {
        Gate::Silu => gates.silu()?,
        // Candle's plain GELU is the tanh form.
        Gate::GeluTanh => gates.gelu()?,
    };
    gates * ups
}

struct Gated(Gate);

impl CustomOp1 for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn cpu_fwd(&self, pairs: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, double) = layout.shape().dims2()?;
        let width = double / 2;
        let mut out = vec![0.0; rows * width];
        cpu::gated(floats(pairs, layout)?, width, self.0, &mut out);
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }
}
