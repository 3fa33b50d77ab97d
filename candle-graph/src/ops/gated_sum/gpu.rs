//! Gated sums by a kernel of GPUs, behind the matrix product of the edge states.

use candle_core::{Result, Shape, Tensor};

use super::{GATE_EPS, GatedSumInput, GatedSumOutput};
use crate::ops::kernels::columns::{THREADS, columns, kernel_of_columns, tiles};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, rows_or, strided_rows};
use crate::ops::linear::product;

static GATED_SUM: Kernel = kernel_of_columns!("gated_sum");

pub(super) fn forward(input: &GatedSumInput<'_>) -> Result<GatedSumOutput> {
    let (count, width) = input.own.dims2()?;
    let (adjacency, dtype) = (input.adjacency, input.own.dtype());
    let [own, sent, gate_target, gate_source] = [
        strided_rows(input.own)?,
        strided_rows(input.sent)?,
        strided_rows(input.gate_target)?,
        strided_rows(input.gate_source)?,
    ];
    let states = strided_rows(input.edge_states)?;
    let residual = rows_or(input.residual, &own)?;
    let product = product(input.edge_states, input.gate_edge.weight())?;
    let vector_or = |vector: Option<&Tensor>| match vector {
        Some(vector) => vector.contiguous(),
        None => Ok(own.clone()),
    };
    let (bias, weights) = (
        vector_or(input.gate_edge.bias())?,
        vector_or(input.weights)?,
    );
    let norms = [input.norm_node, input.norm_edge];
    let [node_scale, edge_scale] = norms.map(|norm| norm.scale.contiguous());
    let [node_shift, edge_shift] = norms.map(|norm| norm.shift.contiguous());
    let launch = Launch {
        kernel: &GATED_SUM,
        dtype,
        constants: &[
            ("COLUMNS", columns(width)),
            ("ACTIVATION", input.activation.number()),
            ("WITH_BIAS", usize::from(input.gate_edge.bias().is_some())),
            ("WITH_WEIGHTS", usize::from(input.weights.is_some())),
            ("WITH_RESIDUAL", usize::from(input.residual.is_some())),
        ],
        outputs: &[
            (Shape::from((count, width)), dtype),
            (Shape::from((adjacency.len(), width)), dtype),
        ],
        inputs: &[
            &own,
            &sent,
            &gate_target,
            &gate_source,
            &product,
            &bias,
            &states,
            &weights,
            &node_scale?,
            &node_shift?,
            &edge_scale?,
            &edge_shift?,
            &residual,
            adjacency.tensors()?.0,
            adjacency.ptr().cumulative()?,
        ],
        values: &[
            Value::count(width)?,
            Value::count(row_stride(&own))?,
            Value::count(row_stride(&sent))?,
            Value::count(row_stride(&gate_target))?,
            Value::count(row_stride(&gate_source))?,
            Value::count(row_stride(&states))?,
            Value::count(row_stride(&residual))?,
            Value::F32(GATE_EPS),
        ],
        groups: [count, tiles(width)],
        threads: THREADS,
    };
    let [nodes, edge_states] = launch.run_for()?;
    Ok(GatedSumOutput { nodes, edge_states })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, bail};

    use super::*;
    use crate::graph::Adjacency;
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{
        agrees, agrees_in, awkward_graphs, difference, packed, randn, uneven_graph,
    };
    use crate::ops::{Activation, Affine, LinearWeights, force_reference, gated_sum};

    /// Options of a case, by bit.
    const WEIGHTS: usize = 1;
    const RESIDUAL: usize = 2;
    const BIAS: usize = 4;

    struct Case {
        adjacency: Adjacency,
        /// Own, sent, both shares in the gate, residual; edge states, weights; map and its bias;
        /// scale and shift of both norms.
        tensors: Vec<Tensor>,
    }

    impl Case {
        fn new(adjacency: Adjacency, width: usize) -> Self {
            let (nodes, edges) = (adjacency.num_nodes(), adjacency.len());
            let [own, sent] = packed(nodes, width);
            let [gate_target, gate_source] = packed(nodes, width);
            let [residual, _] = packed(nodes, width);
            let [states, _] = packed(edges, width);
            let weights = randn(&[edges, 1], 1.0).sqr().unwrap();
            let map = randn(&[width, width], 1.0 / (width as f32).sqrt());
            let mut tensors = vec![
                own,
                sent,
                gate_target,
                gate_source,
                residual,
                states,
                weights,
                map,
            ];
            tensors.extend((0..5).map(|_| randn(&[width], 1.0)));
            Self { adjacency, tensors }
        }

        /// Node and edge states below each other.
        fn run(&self, tensors: &[Tensor], options: usize, act: Activation) -> Result<Tensor> {
            let [
                own,
                sent,
                gate_target,
                gate_source,
                residual,
                states,
                weights,
                map,
                rest @ ..,
            ] = tensors
            else {
                bail!("{} tensors", tensors.len());
            };
            let bias = (options & BIAS > 0).then(|| rest[0].clone());
            let norm = |at: usize| Affine {
                scale: rest[at].clone(),
                shift: rest[at + 1].clone(),
            };
            let made = gated_sum(GatedSumInput {
                own,
                sent,
                gate_target,
                gate_source,
                edge_states: states,
                gate_edge: &LinearWeights::new(map.clone(), bias)?,
                weights: (options & WEIGHTS > 0).then_some(weights),
                adjacency: &self.adjacency,
                norm_node: &norm(1),
                norm_edge: &norm(3),
                activation: act,
                residual: (options & RESIDUAL > 0).then_some(residual),
            })?;
            Tensor::cat(&[made.nodes, made.edge_states], 0)
        }
    }

    #[test]
    fn every_option_and_width() {
        for adjacency in awkward_graphs() {
            for options in [0, WEIGHTS, RESIDUAL, BIAS, 7] {
                let case = Case::new(adjacency.clone(), 12);
                agrees(2e-6, || case.run(&case.tensors, options, Activation::Relu));
            }
            for width in [1, 52, 130] {
                let case = Case::new(adjacency.clone(), width);
                agrees(2e-6, || case.run(&case.tensors, 7, Activation::Swish));
            }
        }
    }

    #[test]
    fn gates_that_are_almost_closed_or_open_keep_their_digits() {
        let mut case = Case::new(uneven_graph(), 7);
        for shift in [-16.0, 30.0, -200.0] {
            case.tensors[2] = (randn(&[10, 7], 1.0) + shift).unwrap();
            agrees(4e-6, || {
                case.run(&case.tensors, WEIGHTS, Activation::Identity)
            });
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let case = Case::new(uneven_graph(), 12);
        let tensors: Vec<&Tensor> = case.tensors.iter().collect();
        agrees_in(DType::F16, &tensors, |tensors| {
            case.run(tensors, 7, Activation::Relu)
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let case = Case::new(uneven_graph(), 12);
        let run = || case.run(&case.tensors, 7, Activation::Relu);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("        BARRIER(); ", "", error);
        assert_caught("edge < until", "edge <= until", error);
        assert_caught("edge < until", "edge + 1u < until", error);
        assert_caught("0u && column < width", "0u && column <= width", error);
        assert_caught("if (column < width)", "if (column <= width)", error);
        assert_caught("sum_gate += gate;", "sum_gate += 1.0f;", error);
    }
}
