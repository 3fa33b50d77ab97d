//! What the operations along edges share: checks of shapes, and the states at both ends of every
//! edge as tensors.

use candle_core::{Result, Tensor, bail};

use crate::graph::Adjacency;

/// Checks that `nodes` has a row for every node; gives its width.
pub(super) fn check_nodes(operation: &str, nodes: &Tensor, adjacency: &Adjacency) -> Result<usize> {
    match *nodes.dims() {
        [rows, width] if rows == adjacency.num_nodes() => Ok(width),
        _ => bail!(
            "{operation}: node states of shape {:?} for {} nodes",
            nodes.dims(),
            adjacency.num_nodes()
        ),
    }
}

/// Checks that `states` has a row of `width` for every edge.
pub(super) fn check_edges(
    operation: &str,
    states: &Tensor,
    width: usize,
    adjacency: &Adjacency,
) -> Result<()> {
    if states.dims() != [adjacency.len(), width] {
        bail!(
            "{operation}: edge states of shape {:?}, expected [{}, {width}]",
            states.dims(),
            adjacency.len()
        );
    }
    Ok(())
}

/// The row of `nodes` that belongs to the source of every edge.
pub(super) fn of_sources(nodes: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    nodes.contiguous()?.index_select(adjacency.tensors()?.0, 0)
}

/// The row of `nodes` that belongs to the target of every edge.
pub(super) fn of_targets(nodes: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    nodes.contiguous()?.index_select(adjacency.tensors()?.1, 0)
}
