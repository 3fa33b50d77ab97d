//! Attention by a kernel of GPUs.

use candle_core::{Error, Result, Shape, Tensor};

use super::{AttentionInput, HeadWidths};
use crate::graph::PairLayout;
use crate::ops::kernels::{Kernel, Launch, Value, WARP, row_stride, strided_rows};

static ATTENTION: Kernel = Kernel {
    name: "attention",
    source: include_str!("kernels.c"),
};

/// Nodes of a graph from which several warps share out its keys.
const WARPS_FROM: usize = 96;

/// Memory of a group for keys and values, within what Metal has.
const STAGED_FLOATS: usize = 4096;

pub(super) fn forward(input: &AttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    let [query, key, value] = [
        strided_rows(input.query)?,
        strided_rows(input.key)?,
        strided_rows(input.value)?,
    ];
    let (heads, nodes) = (input.heads, input.node_ptr.total());
    let warps = match input.node_ptr.max_length() >= WARPS_FROM {
        true => 4,
        false => 1,
    };
    let keys = STAGED_FLOATS / (warps * (widths.query + widths.value));
    let constants = [
        ("HEAD_DIM", widths.query),
        ("VALUE_DIM", widths.value),
        ("KEYS", keys.clamp(1, WARP)),
        ("WITH_BIAS", usize::from(input.bias.is_some())),
    ];
    let node_ptr = input.node_ptr.cumulative()?;
    let layout = PairLayout::new(input.node_ptr);
    // Stands for the bias where there is none.
    let (bias, pair_ptr) = match input.bias {
        Some(bias) => {
            let pair_ptr = layout.pair_ptr().map_err(Error::wrap)?;
            (bias.contiguous()?, pair_ptr.cumulative()?)
        }
        None => (query.clone(), node_ptr),
    };
    let tiles = input.node_ptr.tiles(WARP)?;
    let launch = Launch {
        kernel: &ATTENTION,
        dtype: query.dtype(),
        constants: &constants,
        outputs: &[(Shape::from((nodes, heads * widths.value)), query.dtype())],
        inputs: &[
            &query,
            &key,
            &value,
            &bias,
            tiles.table(),
            node_ptr,
            pair_ptr,
        ],
        values: &[
            Value::count(heads)?,
            Value::count(row_stride(&query))?,
            Value::count(row_stride(&key))?,
            Value::count(row_stride(&value))?,
            Value::F32(input.scale as f32),
        ],
        groups: [tiles.len(), heads],
        threads: warps * WARP,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::graph::Offsets;
    use crate::ops::attention;
    use crate::ops::force_reference;
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{agrees, difference, randn};

    struct Case {
        packed: Tensor,
        bias: Tensor,
        node_ptr: Offsets,
        heads: usize,
        widths: HeadWidths,
    }

    impl Case {
        fn new(sizes: &[usize], heads: usize, query: usize, value: usize) -> Self {
            let nodes: usize = sizes.iter().sum();
            let pairs: usize = sizes.iter().map(|n| n * n).sum();
            Self {
                packed: randn(&[nodes, heads * (2 * query + value)], 1.0),
                bias: randn(&[pairs, heads], 1.0),
                node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
                heads,
                widths: HeadWidths { query, value },
            }
        }

        fn run(&self, with_bias: bool, dtype: DType) -> Result<Tensor> {
            let packed = self.packed.to_dtype(dtype)?;
            let width = self.heads * self.widths.query;
            let bias = self.bias.to_dtype(dtype)?;
            attention(AttentionInput {
                query: &packed.narrow(1, 0, width)?,
                key: &packed.narrow(1, width, width)?,
                value: &packed.narrow(1, 2 * width, self.heads * self.widths.value)?,
                node_ptr: &self.node_ptr,
                heads: self.heads,
                scale: 1.0 / (self.widths.query as f64).sqrt(),
                bias: with_bias.then_some(&bias),
            })
        }

        fn error(&self) -> Result<f64> {
            let expected = force_reference(|| self.run(true, DType::F32))?;
            Ok(difference(&self.run(true, DType::F32)?, &expected))
        }
    }

    #[test]
    fn every_head_width_of_published_models() {
        for width in [6, 8, 12, 13, 16, 24, 32, 64, 96] {
            let case = Case::new(&[1, 23, 2, 0, 40], 2, width, width);
            for with_bias in [false, true] {
                agrees(2e-6, || case.run(with_bias, DType::F32));
            }
        }
        let case = Case::new(&[5, 33], 3, 7, 11);
        agrees(2e-6, || case.run(true, DType::F32));
    }

    #[test]
    fn warps_share_out_the_keys_of_a_large_graph() {
        let case = Case::new(&[3, 131, 0, 1], 2, 16, 8);
        for with_bias in [false, true] {
            agrees(2e-6, || case.run(with_bias, DType::F32));
        }
    }

    #[test]
    fn a_pair_with_a_bias_of_minus_infinity_is_out_and_a_target_without_pairs_gets_zeros() {
        let mut case = Case::new(&[3, 100], 1, 4, 4);
        let mut bias = vec![0f32; 9 + 10_000];
        bias[1] = f32::NEG_INFINITY;
        bias[3..6].fill(f32::NEG_INFINITY);
        bias[9..9 + 100].fill(f32::NEG_INFINITY);
        bias[9 + 199] = f32::NEG_INFINITY;
        case.bias = Tensor::from_vec(bias, (10_009, 1), &Device::Cpu).unwrap();
        agrees(2e-6, || case.run(true, DType::F32));
    }

    #[test]
    fn half_precision_differs_by_the_rounding_of_inputs_and_outputs() {
        let case = Case::new(&[9, 40], 2, 8, 8);
        let exact = force_reference(|| case.run(true, DType::F32)).unwrap();
        for (dtype, tolerance) in [(DType::F16, 2e-3), (DType::BF16, 1.6e-2)] {
            let found = on_kernels(|| case.run(true, dtype)).unwrap();
            assert_eq!(found.dtype(), dtype);
            let error = difference(&found.to_dtype(DType::F32).unwrap(), &exact);
            assert!(error <= tolerance, "{dtype:?}: {error}");
        }
    }

    #[test]
    fn broken_kernels_are_caught() {
        let case = Case::new(&[3, 131], 2, 8, 8);
        let staged = "        BARRIER();\n        for (uint k";
        assert_caught(staged, "        for (uint k", || case.error());
        let before =
            "        BARRIER();\n        for (uint i = THREAD; i < WARPS * KEYS * HEAD_DIM";
        let without = "        for (uint i = THREAD; i < WARPS * KEYS * HEAD_DIM";
        assert_caught(before, without, || case.error());
        let met = "        BARRIER();\n        if (warp == 0u)";
        assert_caught(met, "        if (warp == 0u)", || case.error());
        assert_caught("source >= end ||", "source > end ||", || case.error());
        assert_caught(
            "warp == 0u && row < end",
            "warp == 0u && row <= end",
            || case.error(),
        );
        assert_caught("total *= factor;", "", || case.error());
        assert_caught("met[THREAD] - both", "largest - both", || case.error());
    }
}
