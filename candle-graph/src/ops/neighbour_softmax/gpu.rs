//! Softmax aggregation by a kernel of GPUs.

use candle_core::{Result, Shape, Tensor};

use super::MESSAGE_EPS;
use crate::graph::Adjacency;
use crate::ops::Activation;
use crate::ops::kernels::columns::{THREADS, columns, kernel_of_columns, tiles};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, strided_rows};

static NEIGHBOUR_SOFTMAX: Kernel = kernel_of_columns!("neighbour_softmax");

pub(super) fn forward(
    nodes: &Tensor,
    edge_states: &Tensor,
    adjacency: &Adjacency,
) -> Result<Tensor> {
    let (count, width) = nodes.dims2()?;
    let (nodes, states) = (strided_rows(nodes)?, strided_rows(edge_states)?);
    let launch = Launch {
        kernel: &NEIGHBOUR_SOFTMAX,
        dtype: nodes.dtype(),
        constants: &[
            ("COLUMNS", columns(width)),
            ("ACTIVATION", Activation::Relu.number()),
        ],
        outputs: &[(Shape::from((count, width)), nodes.dtype())],
        inputs: &[
            &nodes,
            &states,
            adjacency.tensors()?.0,
            adjacency.ptr().cumulative()?,
        ],
        values: &[
            Value::count(width)?,
            Value::count(row_stride(&nodes))?,
            Value::count(row_stride(&states))?,
            Value::F32(MESSAGE_EPS),
        ],
        groups: [count, tiles(width)],
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{
        agrees, agrees_in_half, awkward_graphs, difference, packed, uneven_graph,
    };
    use crate::ops::{force_reference, neighbour_softmax};

    fn operands(adjacency: &Adjacency, width: usize) -> [Tensor; 2] {
        let [_, nodes] = packed(adjacency.num_nodes(), width);
        let [states, _] = packed(adjacency.len(), width);
        [(nodes * 3.0).unwrap(), states]
    }

    #[test]
    fn every_width() {
        for adjacency in awkward_graphs() {
            for width in [1, 52, 130] {
                let [nodes, states] = operands(&adjacency, width);
                agrees(2e-6, || neighbour_softmax(&nodes, &states, &adjacency));
            }
        }
    }

    #[test]
    fn messages_of_nothing_are_as_small_as_their_constant() {
        let adjacency = uneven_graph();
        let [nodes, states] = operands(&adjacency, 3).map(|t| (t.abs().unwrap() * -1.0).unwrap());
        let found = on_kernels(|| neighbour_softmax(&nodes, &states, &adjacency)).unwrap();
        let found = found.to_vec2::<f32>().unwrap();
        assert_eq!(found[0], [0.0; 3]);
        for value in &found[7] {
            assert!((value - MESSAGE_EPS).abs() < 1e-3 * MESSAGE_EPS, "{value}");
        }
    }

    #[test]
    fn messages_beyond_the_range_of_exp_and_half_precision() {
        let adjacency = uneven_graph();
        let [nodes, states] = operands(&adjacency, 12);
        let large = (&nodes * 300.0).unwrap();
        agrees(2e-6, || neighbour_softmax(&large, &states, &adjacency));
        agrees_in_half(&[&nodes, &states], |t| {
            neighbour_softmax(&t[0], &t[1], &adjacency)
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let adjacency = uneven_graph();
        let [nodes, states] = operands(&adjacency, 12);
        let run = || neighbour_softmax(&nodes, &states, &adjacency);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught(
            "        BARRIER();\n        if (LANE",
            "        if (LANE",
            error,
        );
        assert_caught("edge < until", "edge <= until", error);
        assert_caught("block_total *= factor;", "", error);
        assert_caught("highest[other] - both", "0.0f", error);
        assert_caught("LANE == 0u && column < width", "column < width", error);
    }
}
