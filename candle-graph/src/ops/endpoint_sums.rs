//! Sums of the states of the edges that leave a node, or come in.

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::dispatch::fused_on_cpu;
use super::half_precision::{is_half, wide};
use super::host::HostF32;
use super::segment::SUM_BLOCK;
use super::simd::{self, Columns, column_groups, lanes};
use super::{Reduction, neighbourhood, segment_reduce, work};
use crate::graph::Adjacency;

/// Values below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 16;

/// For every node the sum of `states` `[E, W]` over the edges that come in, `[N, W]`.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn sum_by_target(states: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    neighbourhood::check_edges("sum by target", states, states.dim(1)?, adjacency)?;
    segment_reduce(states, adjacency.ptr(), Reduction::Sum)
}

/// For every node the sum of `states` `[E, W]` over the edges that leave it, `[N, W]`.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn sum_by_source(states: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let width = states.dim(1)?;
    neighbourhood::check_edges("sum by source", states, width, adjacency)?;
    let shape = (adjacency.num_nodes(), width);
    let _work = work::record(|| work::edge_sum(states, shape.0));
    if adjacency.is_empty() {
        return Tensor::zeros(shape, states.dtype(), states.device());
    }
    if is_half(states) {
        return sum_by_source(&wide(states)?, adjacency)?.to_dtype(states.dtype());
    }
    if !fused_on_cpu([states]) {
        let zeros = Tensor::zeros(shape, states.dtype(), states.device())?;
        return zeros.index_add(adjacency.tensors()?.0, &states.contiguous()?, 0);
    }
    let states = states.contiguous()?;
    let host = HostF32::new(&states)?;
    let (ptr, edges) = by_source(adjacency);
    let mut out = vec![0.0f32; shape.0 * width];
    if width > 0 {
        let arch = pulp::Arch::new();
        let node = |(node, out): (usize, &mut [f32])| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || {
                    let mut sum = Sum {
                        states: &host,
                        edges: &edges[ptr[node]..ptr[node + 1]],
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
    drop(host);
    Tensor::from_vec(out, shape, &Device::Cpu)
}

/// The edges that leave every node: those of node `i` are `edges[ptr[i]..ptr[i + 1]]`, in their
/// order.
fn by_source(adjacency: &Adjacency) -> (Vec<usize>, Vec<u32>) {
    let mut ptr = vec![0usize; adjacency.num_nodes() + 1];
    for &source in adjacency.sources() {
        ptr[source as usize + 1] += 1;
    }
    for node in 1..ptr.len() {
        ptr[node] += ptr[node - 1];
    }
    let mut next = ptr.clone();
    let mut edges = vec![0u32; adjacency.len()];
    for (edge, &source) in adjacency.sources().iter().enumerate() {
        let slot = &mut next[source as usize];
        edges[*slot] = edge as u32;
        *slot += 1;
    }
    (ptr, edges)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, edges, randn};

    #[test]
    fn fused_equals_the_reference_on_awkward_graphs() {
        for adjacency in awkward_edges() {
            for width in WIDTHS {
                let states = randn(&[adjacency.len(), width], 1.0);
                for sum in [sum_by_source, sum_by_target] {
                    let run = || sum(&states, &adjacency).unwrap();
                    assert_close(&run(), &force_reference(run), 4e-6);
                }
            }
        }
    }

    #[test]
    fn leaving_edges_count_for_their_source_and_coming_ones_for_their_target() {
        let adjacency = edges(3, &[[0, 1], [0, 2], [2, 2]]);
        let states = Tensor::new(&[[1f32], [10.0], [100.0]], &Device::Cpu).unwrap();
        let rows = |t: Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(
            rows(sum_by_source(&states, &adjacency).unwrap()),
            [11.0, 0.0, 100.0]
        );
        assert_eq!(
            rows(sum_by_target(&states, &adjacency).unwrap()),
            [0.0, 1.0, 110.0]
        );
        let error = sum_by_source(&randn(&[2, 1], 1.0), &adjacency).unwrap_err();
        assert!(error.to_string().contains("sum by source"), "{error}");
    }
}
