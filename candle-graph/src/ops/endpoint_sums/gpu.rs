//! Sums by source by the kernel of neighbour sums: the edges of a source are its neighbours.

use candle_core::{Result, Tensor};

use crate::graph::Adjacency;
use crate::ops::neighbour_sum::gathered_sum;

pub(super) fn sum_by_source(states: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let by_source = adjacency.by_source()?;
    gathered_sum(states, by_source.tensor()?, by_source.ptr())
}

#[cfg(test)]
mod tests {
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{
        agrees, agrees_in_half, awkward_graphs, difference, packed, uneven_graph,
    };
    use crate::ops::{force_reference, sum_by_source, sum_by_target};

    #[test]
    fn both_ends_and_every_width() {
        for adjacency in awkward_graphs() {
            for width in [1, 12, 130] {
                let [states, _] = packed(adjacency.len(), width);
                agrees(2e-6, || sum_by_source(&states, &adjacency));
                agrees(2e-6, || sum_by_target(&states, &adjacency));
            }
        }
        let adjacency = uneven_graph();
        let [states, _] = packed(adjacency.len(), 12);
        agrees_in_half(&[&states], |t| sum_by_source(&t[0], &adjacency));
        let expected = force_reference(|| sum_by_source(&states, &adjacency)).unwrap();
        assert_caught("sources[edge]", "edge", || {
            Ok(difference(&sum_by_source(&states, &adjacency)?, &expected))
        });
    }
}
