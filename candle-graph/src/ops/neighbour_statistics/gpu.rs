//! Neighbour statistics by a kernel of GPUs.

use candle_core::{Result, Shape, Tensor};

use crate::graph::Adjacency;
use crate::ops::kernels::columns::{THREADS, columns, kernel_of_columns, tiles};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, strided_rows};

static NEIGHBOUR_STATISTICS: Kernel = kernel_of_columns!("neighbour_statistics");

pub(super) fn forward(
    targets: &Tensor,
    sources: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let (count, width) = targets.dims2()?;
    let (targets, sources) = (strided_rows(targets)?, strided_rows(sources)?);
    let states = strided_rows(edge_states)?;
    let launch = Launch {
        kernel: &NEIGHBOUR_STATISTICS,
        dtype: targets.dtype(),
        constants: &[("COLUMNS", columns(width))],
        outputs: &[(Shape::from((count, 3 * width)), targets.dtype())],
        inputs: &[
            &targets,
            &sources,
            &states,
            adjacency.tensors()?.0,
            adjacency.ptr().cumulative()?,
        ],
        values: &[
            Value::count(width)?,
            Value::count(row_stride(&targets))?,
            Value::count(row_stride(&sources))?,
            Value::count(row_stride(&states))?,
        ],
        groups: [count, tiles(width)],
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{
        agrees, agrees_in_half, awkward_graphs, difference, packed, uneven_graph,
    };
    use crate::ops::{force_reference, neighbour_statistics};

    fn operands(adjacency: &Adjacency, width: usize) -> [Tensor; 3] {
        let [targets, sources] = packed(adjacency.num_nodes(), width);
        let [states, _] = packed(adjacency.len(), width);
        [targets, sources, states]
    }

    #[test]
    fn every_width() {
        for adjacency in awkward_graphs() {
            for width in [1, 52, 130] {
                let [targets, sources, states] = operands(&adjacency, width);
                agrees(2e-6, || {
                    neighbour_statistics(&targets, &sources, &states, &adjacency)
                });
            }
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let adjacency = uneven_graph();
        let [targets, sources, states] = operands(&adjacency, 12);
        agrees_in_half(&[&targets, &sources, &states], |t| {
            neighbour_statistics(&t[0], &t[1], &t[2], &adjacency)
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let adjacency = uneven_graph();
        let [targets, sources, states] = operands(&adjacency, 12);
        let run = || neighbour_statistics(&targets, &sources, &states, &adjacency);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("        BARRIER(); ", "", error);
        assert_caught("edge < until", "edge <= until", error);
        assert_caught("0u && column < width", "0u && column <= width", error);
        assert_caught("largest = LOWEST", "largest = 0.0f", error);
        assert_caught(
            "received > 0u ? highest",
            "received < 9999u ? highest",
            error,
        );
    }
}
