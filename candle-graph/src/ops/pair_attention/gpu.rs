//! Pair attention on GPUs: one kernel between the products of the pair states with the maps E and
//! O_e, which are those of the device's BLAS.

use candle_core::{DType, Error, Result, Shape, Tensor};

use super::reference::next_state;
use super::{PairAttentionInput, PairAttentionOutput, PairAttentionWeights, PairUpdate};
use crate::ops::kernels::{Kernel, Launch, Value, WARP, row_stride, strided_rows};
use crate::ops::{Activation, linear};

static PAIR_ATTENTION: Kernel = Kernel {
    name: "pair_attention",
    source: include_str!("kernels.c"),
};

/// Threads of the largest group: a column each.
pub(super) const WIDEST: usize = 1024;

/// Memory of a group for the states of a block of sources, within what Metal has.
const BLOCK_FLOATS: usize = 4096;

pub(super) fn forward(
    input: &PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    update: Option<&PairUpdate>,
    with_weights: bool,
) -> Result<PairAttentionOutput> {
    let (heads, head_dim, width) = (weights.heads, weights.head_dim, weights.width());
    let layout = input.layout;
    let pairs = layout.num_pairs().map_err(Error::wrap)?;
    let (device, dtype) = (input.pair.device(), input.pair.dtype());
    let [query, key, value] = [
        strided_rows(input.query)?,
        strided_rows(input.key)?,
        strided_rows(input.value)?,
    ];
    let edge = linear(input.pair, &weights.edge, Activation::Identity)?.contiguous()?;
    let logit_weight = weights.logit.contiguous()?;
    let node_ptr = layout.node_ptr();
    let graph_of_node = node_ptr.segment_ids()?;
    let allowed = match input.mask {
        Some(mask) => {
            let mask: Vec<u32> = mask.iter().map(|&on| u32::from(on)).collect();
            Some(Tensor::from_vec(mask, pairs, device)?)
        }
        None => None,
    };
    let edge_value = match &weights.edge_value {
        Some(edge_value) => Some(edge_value.contiguous()?),
        None => None,
    };
    let flag = |on: bool| usize::from(on);
    let constants = [
        ("ACTIVATION", weights.activation.number()),
        ("HEADS", heads),
        ("HEAD_DIM", head_dim),
        ("SOURCES", (BLOCK_FLOATS / width).clamp(1, 8)),
        ("WITH_STATES", flag(update.is_some())),
        ("WITH_WEIGHTS", flag(with_weights)),
        ("WITH_EDGE_VALUE", flag(edge_value.is_some())),
        ("MASKED", flag(allowed.is_some())),
        ("CLAMPED", flag(weights.clamp.is_some())),
    ];
    // What is not asked for has one element that nobody writes or reads.
    let states = match update {
        Some(_) => Shape::from((pairs, width)),
        None => Shape::from(1),
    };
    let attended = match with_weights {
        true => Shape::from((pairs, heads)),
        false => Shape::from(1),
    };
    let launch = Launch {
        kernel: &PAIR_ATTENTION,
        dtype,
        constants: &constants,
        outputs: &[
            (Shape::from((layout.num_nodes(), width)), dtype),
            (states, dtype),
            (attended, DType::F32),
        ],
        inputs: &[
            &query,
            &key,
            &value,
            &edge,
            &logit_weight,
            edge_value.as_ref().unwrap_or(&logit_weight),
            allowed.as_ref().unwrap_or(graph_of_node),
            graph_of_node,
            node_ptr.cumulative()?,
            layout.pair_ptr().map_err(Error::wrap)?.cumulative()?,
        ],
        values: &[
            Value::count(row_stride(&query))?,
            Value::count(row_stride(&key))?,
            Value::count(row_stride(&value))?,
            Value::F32(weights.clamp.unwrap_or(0.0)),
        ],
        groups: [layout.num_nodes(), 1],
        threads: width.next_multiple_of(WARP),
    };
    let [value, state, attended] = launch.run_for()?;
    let pair = match update {
        Some(update) => Some(next_state(input.pair, &state, update)?),
        None => None,
    };
    let weights = match with_weights {
        true => Some(attended.to_dtype(dtype)?),
        false => None,
    };
    Ok(PairAttentionOutput {
        value,
        pair,
        weights,
    })
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::graph::{Offsets, PairLayout};
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{difference, randn};
    use crate::ops::{Affine, LinearWeights, PairOutput, force_reference, pair_attention};

    struct Case {
        tensors: [Tensor; 4],
        layout: PairLayout,
        mask: Option<Vec<bool>>,
        weights: PairAttentionWeights,
        update: PairUpdate,
    }

    impl Case {
        fn new(sizes: &[usize], heads: usize, d: usize, activation: Activation) -> Self {
            let node_ptr = Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap();
            let layout = PairLayout::new(&node_ptr);
            let (nodes, pairs) = (layout.num_nodes(), layout.num_pairs().unwrap());
            let width = heads * d;
            // Factors that keep away from 0, where the root's slope is infinite.
            let bias: Vec<f32> = (0..2 * width)
                .map(|row| {
                    if row % (2 * d) < d {
                        2.0
                    } else {
                        (row as f32).sin()
                    }
                })
                .collect();
            let edge = LinearWeights::new(
                randn(&[2 * width, width], 0.3 / (width as f32).sqrt()),
                Some(Tensor::from_vec(bias, 2 * width, &Device::Cpu).unwrap()),
            );
            let output = randn(&[width, width], 1.0 / (width as f32).sqrt());
            let affine = Affine {
                scale: randn(&[width], 1.0),
                shift: randn(&[width], 1.0),
            };
            Self {
                tensors: [
                    randn(&[nodes, width], 1.0),
                    randn(&[nodes, width], 1.0),
                    randn(&[nodes, width], 1.0),
                    randn(&[pairs, width], 1.0),
                ],
                layout,
                mask: None,
                weights: PairAttentionWeights::new(
                    edge.unwrap(),
                    randn(&[d, heads, 1], 1.0),
                    Some(randn(&[d, heads, d], 0.5)),
                    activation,
                    Some(3.0),
                )
                .unwrap(),
                update: PairUpdate::new(
                    Some(LinearWeights::new(output, Some(randn(&[width], 1.0))).unwrap()),
                    None,
                    None,
                    Some(affine),
                ),
            }
        }

        fn run(&self, output: PairOutput<'_>, with_weights: bool) -> Result<Vec<Tensor>> {
            let [query, key, value, pair] = &self.tensors;
            let input = PairAttentionInput {
                query,
                key,
                value,
                pair,
                layout: &self.layout,
                mask: self.mask.as_deref(),
            };
            let made = pair_attention(input, &self.weights, output, with_weights)?;
            Ok([Some(made.value), made.pair, made.weights]
                .into_iter()
                .flatten()
                .collect())
        }

        /// The largest difference of anything that comes out.
        fn error(&self, with_weights: bool) -> Result<f64> {
            let output = PairOutput::New(&self.update);
            let expected = force_reference(|| self.run(output, with_weights))?;
            let found = self.run(output, with_weights)?;
            assert_eq!(found.len(), expected.len());
            let mut worst = 0.0;
            for (found, expected) in found.iter().zip(&expected) {
                let error = difference(found, expected);
                worst = if error.is_nan() {
                    error
                } else {
                    f64::max(worst, error)
                };
            }
            Ok(worst)
        }
    }

    #[track_caller]
    fn agrees(case: &Case, with_weights: bool) {
        let error = on_kernels(|| case.error(with_weights)).unwrap();
        assert!(error <= 4e-6, "{error:e}");
    }

    #[test]
    fn every_width_of_published_models() {
        for (heads, d) in [(8, 8), (4, 24), (4, 13), (8, 6), (1, 16)] {
            let case = Case::new(&[1, 9, 0, 2], heads, d, Activation::Relu);
            agrees(&case, true);
        }
    }

    #[test]
    fn blocks_of_sources_meet_in_one_softmax() {
        let mut case = Case::new(&[21, 8, 17], 2, 5, Activation::Gelu);
        agrees(&case, true);
        case.weights.edge_value = None;
        case.weights.clamp = None;
        agrees(&case, false);
    }

    #[test]
    fn masked_pairs_are_out_but_their_states_go_on() {
        let mut case = Case::new(&[4, 11], 2, 4, Activation::Identity);
        let pairs = 16 + 121;
        case.mask = Some((0..pairs).map(|pair| pair % 3 != 1).collect());
        agrees(&case, true);
    }

    #[test]
    fn a_dropped_state_costs_nothing_and_changes_nothing() {
        let case = Case::new(&[7], 2, 4, Activation::Relu);
        let [found, expected] = [
            on_kernels(|| case.run(PairOutput::Dropped, false)).unwrap(),
            force_reference(|| case.run(PairOutput::Dropped, false)).unwrap(),
        ];
        assert_eq!(found.len(), 1);
        assert!(difference(&found[0], &expected[0]) <= 4e-6);
    }

    #[test]
    fn broken_kernels_are_caught() {
        let mut case = Case::new(&[3, 21], 2, 4, Activation::Relu);
        case.mask = Some((0..9 + 441).map(|pair| pair % 3 != 1).collect());
        let error = || case.error(true);
        let logits = "        BARRIER();\n        for (uint i = THREAD; i < SOURCES";
        assert_caught(logits, "        for (uint i = THREAD; i < SOURCES", error);
        let softmax = "        BARRIER();\n        UNROLL\n        for (uint s = 0u; s < SOURCES; s++) {\n            // Behind";
        assert_caught(softmax, &softmax[19..], error);
        let values = "    BARRIER();\n    if (column < WIDTH) {\n        for (uint d";
        assert_caught(
            values,
            "    if (column < WIDTH) {\n        for (uint d",
            error,
        );
        assert_caught("    BARRIER_OF_TENSORS();\n", "", error);
        assert_caught("if (source < end) {", "if (source <= end) {", error);
        assert_caught("i < (end - first) * HEADS", "i < (end - first)", error);
        assert_caught("values *= factor;", "", error);
        assert_caught("sum > clamp ? clamp", "sum > clamp ? sum", error);
    }
}
