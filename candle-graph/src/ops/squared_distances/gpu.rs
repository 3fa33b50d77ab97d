//! Squared distances by a kernel of GPUs.

use candle_core::{Result, Shape, Tensor};

use crate::graph::Adjacency;
use crate::ops::kernels::columns::{THREADS, columns, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value, WARP, row_stride, strided_rows};

static SQUARED_DISTANCES: Kernel = kernel_of_columns!("squared_distances");

pub(super) fn forward(positions: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    let (_, width) = positions.dims2()?;
    let positions = strided_rows(positions)?;
    let (sources, targets) = adjacency.tensors()?;
    let (edges, columns) = (adjacency.len(), columns(width).min(WARP));
    let launch = Launch {
        kernel: &SQUARED_DISTANCES,
        dtype: positions.dtype(),
        constants: &[("COLUMNS", columns)],
        outputs: &[(Shape::from((edges, 1)), positions.dtype())],
        inputs: &[&positions, sources, targets],
        values: &[
            Value::count(edges)?,
            Value::count(width)?,
            Value::count(row_stride(&positions))?,
        ],
        groups: [edges.div_ceil(THREADS / columns), 1],
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{
        agrees, agrees_in_half, awkward_graphs, difference, packed, uneven_graph,
    };
    use crate::ops::{force_reference, squared_distances};

    #[test]
    fn every_width() {
        for adjacency in awkward_graphs() {
            for width in [1, 3, 52, 130] {
                let [_, positions] = packed(adjacency.num_nodes(), width);
                agrees(2e-6, || squared_distances(&positions, &adjacency));
            }
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let adjacency = uneven_graph();
        let [_, positions] = packed(10, 7);
        agrees_in_half(&[&positions], |t| squared_distances(&t[0], &adjacency));
    }

    #[test]
    fn broken_kernels_are_caught() {
        let adjacency = uneven_graph();
        let [_, positions] = packed(10, 7);
        let run = || squared_distances(&positions, &adjacency);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("edge < edges && THREAD", "edge <= edges && THREAD", error);
        assert_caught("column < width", "column <= width", error);
        assert_caught("sum += SHUFFLE_XOR(sum, lanes);", "", error);
    }
}
