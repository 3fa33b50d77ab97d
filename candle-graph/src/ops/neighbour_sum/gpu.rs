//! Neighbour sums by a kernel of GPUs.

use candle_core::{Result, Shape, Tensor};

use super::NeighbourSumInput;
use crate::graph::Offsets;
use crate::ops::Activation;
use crate::ops::kernels::columns::{THREADS, columns, kernel_of_columns, tiles};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, rows_or, strided_rows};

static NEIGHBOUR_SUM: Kernel = kernel_of_columns!("neighbour_sum");

pub(super) fn forward(input: &NeighbourSumInput<'_>, groups: usize) -> Result<Tensor> {
    let terms = Terms {
        rows: input.nodes,
        order: input.adjacency.tensors()?.0,
        ptr: input.adjacency.ptr(),
        states: input.edge_states,
        weights: input.weights,
        groups,
        self_weight: input.self_weight,
    };
    sum(&terms)
}

/// The sum of the rows `order[ptr[i]..ptr[i + 1]]` for every segment i.
pub(in crate::ops) fn gathered_sum(rows: &Tensor, order: &Tensor, ptr: &Offsets) -> Result<Tensor> {
    sum(&Terms {
        rows,
        order,
        ptr,
        states: None,
        weights: None,
        groups: 1,
        self_weight: None,
    })
}

/// What is summed: rows by number, with what belongs to every number.
struct Terms<'a> {
    rows: &'a Tensor,
    order: &'a Tensor,
    ptr: &'a Offsets,
    states: Option<&'a Tensor>,
    weights: Option<&'a Tensor>,
    /// Columns of the weights.
    groups: usize,
    self_weight: Option<&'a Tensor>,
}

fn sum(terms: &Terms<'_>) -> Result<Tensor> {
    let (_, width) = terms.rows.dims2()?;
    let segments = terms.ptr.num_segments();
    let rows = strided_rows(terms.rows)?;
    let states = rows_or(terms.states, &rows)?;
    let weights = rows_or(terms.weights, &rows)?;
    let self_weight = match terms.self_weight {
        Some(weight) => weight.contiguous()?,
        None => rows.clone(),
    };
    let launch = Launch {
        kernel: &NEIGHBOUR_SUM,
        dtype: rows.dtype(),
        constants: &[
            ("COLUMNS", columns(width)),
            ("ACTIVATION", Activation::Relu.number()),
            ("WITH_STATES", usize::from(terms.states.is_some())),
            ("WITH_WEIGHTS", usize::from(terms.weights.is_some())),
            ("WITH_SELF", usize::from(terms.self_weight.is_some())),
        ],
        outputs: &[(Shape::from((segments, width)), rows.dtype())],
        inputs: &[
            &rows,
            &states,
            &weights,
            &self_weight,
            terms.order,
            terms.ptr.cumulative()?,
        ],
        values: &[
            Value::count(width)?,
            Value::count(row_stride(&rows))?,
            Value::count(row_stride(&states))?,
            Value::count(row_stride(&weights))?,
            Value::count((width / terms.groups).max(1))?,
        ],
        groups: [segments, tiles(width)],
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
    use crate::ops::{force_reference, neighbour_sum};

    struct Case {
        adjacency: Adjacency,
        nodes: Tensor,
        states: Tensor,
        weights: Tensor,
        own: Tensor,
    }

    impl Case {
        fn new(adjacency: Adjacency, width: usize, groups: usize) -> Self {
            let [_, nodes] = packed(adjacency.num_nodes(), width);
            let [states, _] = packed(adjacency.len(), width);
            Self {
                nodes,
                states,
                weights: randn(&[adjacency.len(), groups], 1.0),
                own: randn(&[1], 1.0),
                adjacency,
            }
        }

        /// With the options whose bit is set: states, weights, the own state.
        fn run(&self, options: usize) -> Result<Tensor> {
            neighbour_sum(NeighbourSumInput {
                nodes: &self.nodes,
                adjacency: &self.adjacency,
                edge_states: (options & 1 > 0).then_some(&self.states),
                weights: (options & 2 > 0).then_some(&self.weights),
                self_weight: (options & 4 > 0).then_some(&self.own),
            })
        }
    }

    #[test]
    fn every_option_and_width() {
        for adjacency in awkward_graphs() {
            for options in [0, 1, 2, 4, 7] {
                let case = Case::new(adjacency.clone(), 12, 3);
                agrees(2e-6, || case.run(options));
            }
            for (width, groups) in [(1, 1), (52, 4), (130, 2)] {
                let case = Case::new(adjacency.clone(), width, groups);
                agrees(2e-6, || case.run(7));
            }
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let case = Case::new(uneven_graph(), 12, 3);
        let tensors = [&case.nodes, &case.states, &case.weights, &case.own];
        agrees_in_half(&tensors, |t| {
            neighbour_sum(NeighbourSumInput {
                nodes: &t[0],
                adjacency: &case.adjacency,
                edge_states: Some(&t[1]),
                weights: Some(&t[2]),
                self_weight: Some(&t[3]),
            })
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let case = Case::new(uneven_graph(), 12, 3);
        let expected = force_reference(|| case.run(7)).unwrap();
        let error = || Ok(difference(&case.run(7)?, &expected));
        assert_caught("        BARRIER(); ", "", error);
        assert_caught("edge < until", "edge <= until", error);
        assert_caught("TERMS_OF_BLOCK) {", "LANES) {", error);
        assert_caught("LANE == 0u && column < width", "column < width", error);
        assert_caught("0u && column < width", "0u && column <= width", error);
    }
}
