//! The affine map in row blocks: product, bias and activation while the block is in cache.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::{LinearWeights, Prepared};
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
    let arch = pulp::Arch::new();
    map_blocks(x, weights, |_, out| {
        simd::vectorize(
            arch,
            #[inline(always)]
            || activation.apply(out),
        );
    })
}

/// `x·Wᵀ + b` in blocks of rows. `finish` gets the number of a block's first row and the block,
/// while that is in cache. The shapes have been checked.
pub(in crate::ops) fn map_blocks(
    x: &Tensor,
    weights: &LinearWeights,
    finish: impl Fn(usize, &mut [f32]) + Sync,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (rows, width) = x.dims2()?;
    let prepared = weights.prepared()?;
    let n = prepared.rhs.n();
    let input = HostF32::new(&x)?;
    let mut out = vec![0.0f32; rows * n];
    let block = |first: usize, input: &[f32], out: &mut [f32]| {
        prepared.apply(input, out);
        finish(first, out);
    };
    if width == 0 || n == 0 {
        return Tensor::from_vec(out, (rows, n), &Device::Cpu);
    }
    if rows <= BLOCK {
        block(0, &input, &mut out);
    } else {
        let size = even_blocks(rows, BLOCK);
        out.par_chunks_mut(size * n)
            .zip(input.par_chunks(size * width))
            .enumerate()
            .for_each(|(i, (out, input))| block(i * size, input, out));
    }
    Tensor::from_vec(out, (rows, n), &Device::Cpu)
}

/// Rows of a block, `most` at most, when `rows` are cut into an even number of blocks of equal size,
/// so that two threads, or four, have equal shares.
pub(in crate::ops) fn even_blocks(rows: usize, most: usize) -> usize {
    let blocks = rows.div_ceil(most.max(1)).next_multiple_of(2).max(2);
    rows.div_ceil(blocks).max(1)
}

impl Prepared {
    /// `out = input·Wᵀ + b` on this thread.
    pub(in crate::ops) fn apply(&self, input: &[f32], out: &mut [f32]) {
        let into = match &self.bias {
            Some(bias) => {
                out.chunks_exact_mut(self.rhs.n())
                    .for_each(|row| row.copy_from_slice(bias));
                Into::Add
            }
            None => Into::Replace,
        };
        matmul(input, &self.rhs, out, into);
    }
}
