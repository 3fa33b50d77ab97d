//! Linear attention by kernels of GPUs. Features and their sums are f32 whatever the dtype.

use candle_core::{DType, Result, Shape, Tensor};

use super::{FeatureMap, HeadWidths, LinearAttentionInput};
use crate::graph::Offsets;
use crate::ops::kernels::{Kernel, Launch, Value, WARP, row_stride, strided_rows};
use crate::ops::linear::product;
use crate::ops::{Reduction, RotationTable, rotate, segment_reduce};

static ROW_STATISTIC: Kernel = Kernel {
    name: "row_statistic",
    source: include_str!("statistic.c"),
};
static FEATURES: Kernel = Kernel {
    name: "attention_features",
    source: include_str!("features.c"),
};
static KEY_VALUE_SUMS: Kernel = Kernel {
    name: "key_value_sums",
    source: include_str!("sums.c"),
};
static WEIGHTED_VALUES: Kernel = Kernel {
    name: "weighted_values",
    source: include_str!("sums.c"),
};

const THREADS: usize = 128;
const WARPS: usize = THREADS / WARP;

/// Rows whose products one group sums; larger graphs are cut into tiles of so many.
const ROWS_OF_SUM: usize = 512;

/// Features that a group of [`KEY_VALUE_SUMS`] holds.
const FEATURES_OF_GROUP: usize = 32;

/// What a row statistic is.
#[derive(Debug, Clone, Copy)]
enum Statistic<'a> {
    Largest,
    LargestSize,
    /// Of the row over the value of its graph.
    Squares(&'a Tensor),
}

/// Sizes and constants that the kernels share.
struct Plan<'a> {
    input: &'a LinearAttentionInput<'a>,
    widths: HeadWidths,
    map: usize,
    eps: f32,
}

pub(super) fn forward(input: &LinearAttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    let (map, eps) = match input.feature_map {
        FeatureMap::PositiveRandom { .. } => (0, 0.0),
        FeatureMap::Relu { eps } => (1, eps as f32),
        FeatureMap::Simple => (2, 0.0),
    };
    let plan = Plan {
        input,
        widths,
        map,
        eps,
    };
    let heads = input.heads;
    let query = plan.features(input.query, false)?;
    let key = plan.features(input.key, true)?;
    let (turned_query, turned_key) = match &input.rotation {
        Some(rotation) => {
            let turned = |features: &Tensor, table: &RotationTable| {
                let table = RotationTable {
                    cos: table.cos.to_dtype(DType::F32)?,
                    sin: table.sin.to_dtype(DType::F32)?,
                };
                rotate(features, &table, rotation.pairs, heads)?.contiguous()
            };
            (turned(&query, rotation.query)?, turned(&key, rotation.key)?)
        }
        None => (query.clone(), key.clone()),
    };
    plan.weighted([&turned_query, &query], [&turned_key, &key])
}

impl Plan<'_> {
    fn node_ptr(&self) -> &Offsets {
        self.input.node_ptr
    }

    fn dtype(&self) -> DType {
        self.input.query.dtype()
    }

    /// A number for each of `parts` groups of columns of every row, f32 `[rows, parts]`.
    fn statistic(&self, x: &Tensor, parts: usize, statistic: Statistic<'_>) -> Result<Tensor> {
        let (rows, width) = x.dims2()?;
        let ids = self.node_ptr().segment_ids()?;
        let (number, by) = match statistic {
            Statistic::Largest => (0, None),
            Statistic::LargestSize => (1, None),
            Statistic::Squares(by) => (2, Some(by)),
        };
        // Stands for what is not read.
        let nothing = match by {
            Some(_) => None,
            None => Some(Tensor::zeros(1, DType::F32, x.device())?),
        };
        let by = by.or(nothing.as_ref()).unwrap_or(x);
        let launch = Launch {
            kernel: &ROW_STATISTIC,
            dtype: x.dtype(),
            constants: &[("STAT", number), ("MAP", self.map)],
            outputs: &[(Shape::from((rows, parts)), DType::F32)],
            inputs: &[x, by, ids],
            values: &[
                Value::count(rows)?,
                Value::count(parts)?,
                Value::count(width / parts)?,
                Value::count(row_stride(x))?,
                Value::F32(self.eps),
            ],
            groups: [(rows * parts).div_ceil(WARPS), 1],
            threads: THREADS,
        };
        launch.run_for_one()
    }

    /// φ of queries or keys, f32 `[nodes, heads · features]`.
    fn features(&self, x: &Tensor, of_keys: bool) -> Result<Tensor> {
        let (heads, widths) = (self.input.heads, self.widths);
        let x = strided_rows(x)?;
        let (rows, _) = x.dims2()?;
        let simple = matches!(self.input.feature_map, FeatureMap::Simple);
        let projected = match self.input.feature_map {
            FeatureMap::PositiveRandom { projection } => {
                let by_head = x.reshape((rows * heads, widths.query))?;
                product(&by_head, projection)?.reshape((rows, heads * widths.features))?
            }
            _ => x.clone(),
        };
        let parts = match simple || self.input.pairs_straddle(widths) {
            true => 1,
            false => heads,
        };
        let over_graphs = |of_rows: &Tensor, reduction: Reduction| {
            segment_reduce(of_rows, self.node_ptr(), reduction)
        };
        let (scales, norms) = if simple {
            let sizes = over_graphs(
                &self.statistic(&x, 1, Statistic::LargestSize)?,
                Reduction::Max,
            )?;
            let squares = self.statistic(&x, 1, Statistic::Squares(&sizes))?;
            let squares = over_graphs(&squares, Reduction::Sum)?;
            (sizes, Some(squares))
        } else {
            let largest = self.statistic(&projected, parts, Statistic::Largest)?;
            match of_keys {
                true => (over_graphs(&largest, Reduction::Max)?, None),
                false => (largest, None),
            }
        };
        let by_graph = usize::from(of_keys || simple);
        let launch = Launch {
            kernel: &FEATURES,
            dtype: self.dtype(),
            constants: &[
                ("MAP", self.map),
                ("BY_GRAPH", by_graph),
                ("HEAD_DIM", widths.query),
                ("FEATURES", widths.features),
            ],
            outputs: &[(Shape::from((rows, heads * widths.features)), DType::F32)],
            inputs: &[
                &x,
                &projected,
                &scales,
                norms.as_ref().unwrap_or(&scales),
                self.node_ptr().segment_ids()?,
            ],
            values: &[
                Value::count(rows)?,
                Value::count(heads)?,
                Value::count(row_stride(&x))?,
                Value::count(parts)?,
                Value::F32((widths.query as f32).powf(-0.25)),
                Value::F32(self.eps),
            ],
            groups: [(rows * heads).div_ceil(WARPS), 1],
            threads: THREADS,
        };
        launch.run_for_one()
    }

    /// The result from the features of queries and keys, each turned and as they were.
    fn weighted(&self, query: [&Tensor; 2], key: [&Tensor; 2]) -> Result<Tensor> {
        let (heads, widths) = (self.input.heads, self.widths);
        let node_ptr = self.node_ptr();
        let (nodes, ptr) = (node_ptr.total(), node_ptr.cumulative()?);
        let value = strided_rows(self.input.value)?;
        let rotated = self.input.rotation.is_some();
        let constants = [
            ("SIMPLE", usize::from(self.map == 2)),
            ("FEATURES", widths.features),
            ("VALUE_DIM", widths.value),
            ("KEEPS_LONELY", usize::from(self.map == 2 && !rotated)),
        ];
        let tiles = node_ptr.tiles(ROWS_OF_SUM)?;
        let of_one = widths.features * (widths.value + 1);
        let sums = Launch {
            kernel: &KEY_VALUE_SUMS,
            dtype: self.dtype(),
            constants: &constants,
            outputs: &[(Shape::from((tiles.len(), heads * of_one)), DType::F32)],
            inputs: &[key[0], key[1], &value, tiles.table(), ptr],
            values: &[
                Value::count(heads)?,
                Value::count(ROWS_OF_SUM)?,
                Value::count(row_stride(&value))?,
            ],
            groups: [
                tiles.len(),
                heads * widths.features.div_ceil(FEATURES_OF_GROUP),
            ],
            threads: THREADS,
        };
        let mut sums = sums.run_for_one()?;
        if tiles.len() != node_ptr.num_segments() || node_ptr.lengths().any(|n| n == 0) {
            sums = segment_reduce(&sums, tiles.per_segment(), Reduction::Sum)?;
        }
        let tiles = node_ptr.tiles(WARP)?;
        let launch = Launch {
            kernel: &WEIGHTED_VALUES,
            dtype: self.dtype(),
            constants: &constants,
            outputs: &[(Shape::from((nodes, heads * widths.value)), self.dtype())],
            inputs: &[query[0], query[1], &sums, &value, tiles.table(), ptr],
            values: &[Value::count(heads)?, Value::count(row_stride(&value))?],
            groups: [tiles.len(), heads],
            threads: THREADS,
        };
        launch.run_for_one()
    }
}
