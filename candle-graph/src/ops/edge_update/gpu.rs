//! Edge updates by a kernel of GPUs.

use candle_core::{Result, Shape, Tensor};

use super::EdgeUpdateInput;
use crate::ops::kernels::columns::{THREADS, columns, groups_of_rows, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, rows_or, strided_rows};

static EDGE_UPDATE: Kernel = kernel_of_columns!("edge_update");

/// The shapes have been checked.
pub(super) fn forward(input: &EdgeUpdateInput<'_>) -> Result<Tensor> {
    let (edges, width) = (input.adjacency.len(), input.from_sources.dim(1)?);
    let from_sources = strided_rows(input.from_sources)?;
    let from_targets = strided_rows(input.from_targets)?;
    let states = rows_or(input.edge_states, &from_sources)?;
    let (sources, targets) = input.adjacency.tensors()?;
    let launch = Launch {
        kernel: &EDGE_UPDATE,
        dtype: from_sources.dtype(),
        constants: &[
            ("COLUMNS", columns(width)),
            ("ACTIVATION", input.activation.number()),
            ("WITH_STATES", usize::from(input.edge_states.is_some())),
        ],
        outputs: &[(Shape::from((edges, width)), from_sources.dtype())],
        inputs: &[&states, &from_sources, &from_targets, sources, targets],
        values: &[
            Value::count(edges)?,
            Value::count(width)?,
            Value::count(row_stride(&states))?,
            Value::count(row_stride(&from_sources))?,
            Value::count(row_stride(&from_targets))?,
        ],
        groups: groups_of_rows(edges, width),
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Adjacency;
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{
        agrees, agrees_in_half, awkward_graphs, difference, packed, randn, uneven_graph,
    };
    use crate::ops::{Activation, edge_update, force_reference};

    /// Both ends as columns of one matrix.
    struct Case {
        adjacency: Adjacency,
        ends: [Tensor; 2],
        states: Tensor,
    }

    impl Case {
        fn new(adjacency: Adjacency, width: usize) -> Self {
            Self {
                ends: packed(adjacency.num_nodes(), width),
                states: randn(&[adjacency.len(), width], 1.0),
                adjacency,
            }
        }

        fn run(&self, with_states: bool, activation: Activation) -> Result<Tensor> {
            edge_update(EdgeUpdateInput {
                edge_states: with_states.then_some(&self.states),
                from_sources: &self.ends[0],
                from_targets: &self.ends[1],
                adjacency: &self.adjacency,
                activation,
            })
        }
    }

    #[test]
    fn every_width_with_and_without_states() {
        for adjacency in awkward_graphs() {
            for width in [1, 52, 130] {
                let case = Case::new(adjacency.clone(), width);
                agrees(2e-6, || case.run(true, Activation::Gelu));
            }
            let case = Case::new(adjacency, 12);
            agrees(2e-6, || case.run(false, Activation::Identity));
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let case = Case::new(uneven_graph(), 12);
        agrees_in_half(&[&case.ends[0], &case.ends[1], &case.states], |t| {
            edge_update(EdgeUpdateInput {
                edge_states: Some(&t[2]),
                from_sources: &t[0],
                from_targets: &t[1],
                adjacency: &case.adjacency,
                activation: Activation::Relu,
            })
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let case = Case::new(uneven_graph(), 7);
        let run = || case.run(true, Activation::Gelu);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("edge < edges", "edge <= edges", error);
        assert_caught("column < width", "column <= width", error);
        assert_caught("targets[edge] *", "sources[edge] *", error);
    }
}
