//! Sums of the states of the edges that leave a node, or come in.

mod cpu;
mod gpu;

use candle_core::{Result, Tensor};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::half_precision::{is_half, wide};
use super::{Reduction, neighbourhood, segment_reduce, work};
use crate::graph::Adjacency;

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
    if fused_on_cpu([states]) {
        cpu::sum_by_source(states, adjacency)
    } else if fused_on_gpu([states]) {
        gpu::sum_by_source(states, adjacency)
    } else if is_half(states) {
        sum_by_source(&wide(states)?, adjacency)?.to_dtype(states.dtype())
    } else {
        let zeros = Tensor::zeros(shape, states.dtype(), states.device())?;
        zeros.index_add(adjacency.tensors()?.0, &states.contiguous()?, 0)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

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
