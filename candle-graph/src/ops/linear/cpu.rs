//! The affine map in row blocks: product, bias and activation while the block is in cache.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::LinearWeights;
use crate::ops::Activation;
use crate::ops::host::HostF32;
use crate::ops::matmul::{Into, matmul};
use crate::ops::simd;

/// Rows of one task: enough to pay for packing the weights, few enough to stay in cache.
const BLOCK: usize = 256;

pub(super) fn linear(
    x: &Tensor,
    weights: &LinearWeights,
    activation: Activation,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (rows, width) = x.dims2()?;
    let prepared = weights.prepared()?;
    let n = prepared.rhs.n();
    let input = HostF32::new(&x)?;
    let mut out = vec![0.0f32; rows * n];
    let arch = pulp::Arch::new();
    let block = |input: &[f32], out: &mut [f32]| {
        let into = match &prepared.bias {
            Some(bias) => {
                out.chunks_exact_mut(n)
                    .for_each(|row| row.copy_from_slice(bias));
                Into::Add
            }
            None => Into::Replace,
        };
        matmul(input, &prepared.rhs, out, into);
        simd::vectorize(
            arch,
            #[inline(always)]
            || activation.apply(out),
        );
    };
    if width == 0 || n == 0 {
        return Tensor::from_vec(out, (rows, n), &Device::Cpu);
    }
    if rows <= BLOCK {
        block(&input, &mut out);
    } else {
        out.par_chunks_mut(BLOCK * n)
            .zip(input.par_chunks(BLOCK * width))
            .for_each(|(out, input)| block(input, out));
    }
    Tensor::from_vec(out, (rows, n), &Device::Cpu)
}
