//! States of edges from those at their ends.

mod cpu;
mod gpu;

use candle_core::{Result, Tensor};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{Activation, neighbourhood, work};
use crate::graph::Adjacency;

/// What goes into [`edge_update`]; N nodes, E edges, states of width W.
#[derive(Debug, Clone, Copy)]
pub struct EdgeUpdateInput<'a> {
    /// Of every edge, `[E, W]`.
    pub edge_states: Option<&'a Tensor>,
    /// What every node gives to the edges that leave it, `[N, W]`.
    pub from_sources: &'a Tensor,
    /// What every node gives to the edges that come in, `[N, W]`.
    pub from_targets: &'a Tensor,
    /// The edges.
    pub adjacency: &'a Adjacency,
    /// Applied to the sum.
    pub activation: Activation,
}

/// `activation(e_st + x_s + y_t)` for every edge from s to t, `[E, W]`.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn edge_update(input: EdgeUpdateInput<'_>) -> Result<Tensor> {
    const OPERATION: &str = "edge update";
    let EdgeUpdateInput {
        edge_states,
        from_sources,
        from_targets,
        adjacency,
        activation,
    } = input;
    let width = neighbourhood::check_nodes(OPERATION, from_sources, adjacency)?;
    if neighbourhood::check_nodes(OPERATION, from_targets, adjacency)? != width {
        candle_core::bail!(
            "{OPERATION}: states of shapes {:?} and {:?}",
            from_sources.dims(),
            from_targets.dims()
        );
    }
    if let Some(states) = edge_states {
        neighbourhood::check_edges(OPERATION, states, width, adjacency)?;
    }
    let _work = work::record(|| work::edge_update(&input));
    if adjacency.is_empty() {
        return Tensor::zeros((0, width), from_sources.dtype(), from_sources.device());
    }
    let tensors = edge_states.into_iter().chain([from_sources, from_targets]);
    if fused_on_cpu(tensors.clone()) {
        return cpu::forward(&input);
    }
    if fused_on_gpu(tensors) {
        return gpu::forward(&input);
    }
    let sources = neighbourhood::of_sources(from_sources, adjacency)?;
    let ends = (sources + neighbourhood::of_targets(from_targets, adjacency)?)?;
    activation.forward(&match edge_states {
        Some(states) => (ends + states)?,
        None => ends,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{WIDTHS, assert_close, awkward_edges, randn};

    #[test]
    fn fused_equals_the_reference_on_awkward_graphs() {
        for adjacency in awkward_edges() {
            for width in WIDTHS {
                let (nodes, edges) = (adjacency.num_nodes(), adjacency.len());
                // Both ends are columns of one matrix, as a packed projection gives them.
                let both = randn(&[nodes, 2 * width], 1.0);
                let from_sources = &both.narrow(1, 0, width).unwrap();
                let from_targets = &both.narrow(1, width, width).unwrap();
                let states = randn(&[edges, width], 1.0);
                for edge_states in [None, Some(&states)] {
                    let run = || {
                        edge_update(EdgeUpdateInput {
                            edge_states,
                            from_sources,
                            from_targets,
                            adjacency: &adjacency,
                            activation: Activation::GeluTanh,
                        })
                        .unwrap()
                    };
                    assert_close(&run(), &force_reference(run), 2e-6);
                }
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let adjacency = &awkward_edges()[2];
        let run = |sources: &[usize], targets: &[usize], edges: &[usize]| {
            edge_update(EdgeUpdateInput {
                edge_states: Some(&randn(edges, 1.0)),
                from_sources: &randn(sources, 1.0),
                from_targets: &randn(targets, 1.0),
                adjacency,
                activation: Activation::Identity,
            })
        };
        assert!(run(&[4, 2], &[4, 2], &[7, 2]).is_ok());
        for (sources, targets, edges) in [
            ([3, 2], [4, 2], [7, 2]),
            ([4, 2], [4, 3], [7, 2]),
            ([4, 2], [4, 2], [6, 2]),
        ] {
            let error = run(&sources, &targets, &edges).unwrap_err().to_string();
            assert!(error.contains("edge update"), "{error}");
        }
    }
}
