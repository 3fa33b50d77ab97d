//! Both maps a block of rows at a time, so that the hidden values never leave the cache.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use crate::ops::host::HostF32;
use crate::ops::linear::even_blocks;
use crate::ops::{Activation, LinearWeights, simd};

/// Rows of one task at most.
const BLOCK: usize = 192;

/// Multiplications below which threads cost more than they save.
const PARALLEL_FROM: usize = 8_000_000;

pub(super) fn feed_forward(
    x: &Tensor,
    [input, output]: [&LinearWeights; 2],
    activation: Activation,
) -> Result<Tensor> {
    let x = x.contiguous()?;
    let (rows, width) = x.dims2()?;
    let (first, second) = (input.prepared()?, output.prepared()?);
    let (hidden, n) = (first.rhs.n(), second.rhs.n());
    let values = HostF32::new(&x)?;
    let mut out = vec![0.0f32; rows * n];
    if rows == 0 || width == 0 || hidden == 0 || n == 0 {
        return Tensor::from_vec(out, (rows, n), &Device::Cpu);
    }
    let arch = pulp::Arch::new();
    let block = |scratch: &mut Vec<f32>, x: &[f32], out: &mut [f32]| {
        scratch.resize(x.len() / width * hidden, 0.0);
        first.apply(x, scratch);
        simd::vectorize(
            arch,
            #[inline(always)]
            || activation.apply(scratch),
        );
        second.apply(scratch, out);
    };
    let multiplications = rows.saturating_mul(hidden).saturating_mul(width + n);
    if multiplications < PARALLEL_FROM {
        let mut scratch = Vec::new();
        for (x, out) in values.chunks(BLOCK * width).zip(out.chunks_mut(BLOCK * n)) {
            block(&mut scratch, x, out);
        }
    } else {
        let size = even_blocks(rows, BLOCK);
        out.par_chunks_mut(size * n)
            .zip(values.par_chunks(size * width))
            .for_each_init(Vec::new, |scratch, (out, x)| block(scratch, x, out));
    }
    Tensor::from_vec(out, (rows, n), &Device::Cpu)
}
