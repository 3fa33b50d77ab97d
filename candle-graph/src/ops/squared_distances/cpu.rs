//! Squared distances without the differences as tensors.

use candle_core::{Device, Result, Tensor};

use crate::graph::Adjacency;
use crate::ops::host::HostF32;
use crate::ops::simd;

/// Sums that run side by side.
const LANES: usize = 16;

pub(super) fn forward(positions: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let (_, width) = positions.dims2()?;
    let positions = positions.contiguous()?;
    let positions = HostF32::new(&positions)?;
    let mut out = vec![0.0f32; adjacency.len()];
    let position = |node: u32| &positions[node as usize * width..][..width];
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            let ends = adjacency.sources().iter().zip(adjacency.targets());
            for (out, (&source, &target)) in out.iter_mut().zip(ends) {
                *out = squared_distance(position(source), position(target));
            }
        },
    );
    Tensor::from_vec(out, (adjacency.len(), 1), &Device::Cpu)
}

#[inline(always)]
fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += (a[lane] - b[lane]) * (a[lane] - b[lane]);
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| (a - b) * (a - b));
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}
