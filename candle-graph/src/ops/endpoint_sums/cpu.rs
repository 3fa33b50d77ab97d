//! Sums by source, a node at a time.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use crate::graph::Adjacency;
use crate::ops::host::HostF32;
use crate::ops::segment::SUM_BLOCK;
use crate::ops::simd::{self, Columns, column_groups, lanes};

/// Values below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 16;

pub(super) fn sum_by_source(states: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let (_, width) = states.dims2()?;
    let count = adjacency.num_nodes();
    let states = states.contiguous()?;
    let host = HostF32::new(&states)?;
    let by_source = adjacency.by_source()?;
    let mut out = vec![0.0f32; count * width];
    if width > 0 {
        let arch = pulp::Arch::new();
        let node = |(node, out): (usize, &mut [f32])| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    let mut sum = Sum {
                        states: &host,
                        edges: &by_source.edges()[by_source.ptr().range(node)],
                        out,
                    };
                    column_groups(0..width, &mut sum);
                },
            );
        };
        if adjacency.len() * width < THREADS_FROM {
            out.chunks_exact_mut(width).enumerate().for_each(node);
        } else {
            out.par_chunks_exact_mut(width).enumerate().for_each(node);
        }
    }
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// The sum of one node.
struct Sum<'a> {
    states: &'a [f32],
    edges: &'a [u32],
    out: &'a mut [f32],
}

impl Columns for Sum<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let width = self.out.len();
        let mut sum = [0.0f32; C];
        for block in self.edges.chunks(SUM_BLOCK) {
            let mut partial = [0.0f32; C];
            for &edge in block {
                let values = lanes::<C>(self.states, edge as usize * width + first);
                for c in 0..C {
                    partial[c] += values[c];
                }
            }
            for c in 0..C {
                sum[c] += partial[c];
            }
        }
        self.out[first..first + C].copy_from_slice(&sum);
    }
}
