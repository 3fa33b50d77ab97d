//! What every operation costs.
//!
//! The sizes are those of tensors in memory, and two of three in a product belong to one tensor, so
//! that the products stay far below 2⁶⁴.

use candle_core::Tensor;

use super::Work;
use crate::graph::{Adjacency, Offsets};
use crate::ops::{
    Activation, Affine, AttentionInput, ColumnRotation, EdgeUpdateInput, FeatureMap, GatedSumInput,
    LayerNorm, LinearAttentionInput, LinearWeights, NeighbourSumInput, Reduction, RotationTable,
    WalkInput,
};

/// Of a row norm (scale and shift of every column).
pub(in crate::ops) const AFFINE: usize = 2;
/// Of a layer norm: the sum, the difference to the mean, the square and its sum, the division by
/// the deviation, the factor and the offset.
pub(in crate::ops) const LAYER_NORM: usize = 7;
/// Of the logistic function: exponential function, sum and quotient.
const SIGMOID: usize = 3;
/// Of a logit in a softmax.
pub(in crate::ops) const SOFTMAX: usize = 4;
/// Of a column that is rotated with its partner.
const ROTATION: usize = 3;

impl Activation {
    /// FLOP of one value.
    pub(in crate::ops) fn flops(self) -> usize {
        match self {
            Self::Identity => 0,
            Self::Relu => 1,
            Self::LeakyRelu01
            | Self::LeakyRelu02
            | Self::LeakyRelu025
            | Self::LeakyRelu03
            | Self::LeakyRelu05
            | Self::Elu => 2,
            Self::Selu | Self::Swish => 3,
            // x/2 · (1 + erf(x/√2)).
            Self::Gelu => 5,
            // x / (1 + exp(c·(x + d·x·x·x))).
            Self::GeluTanh => 8,
        }
    }
}

impl LinearWeights {
    /// FLOP of the map for one row.
    pub(in crate::ops) fn flops(&self) -> usize {
        self.out_dim() * (2 * self.in_dim() + usize::from(self.bias().is_some()))
    }
}

/// The work of `flops`, with every tensor of `inputs` read and `written` values of the first one's
/// dtype written.
pub(in crate::ops) fn work<'a>(
    flops: usize,
    inputs: impl IntoIterator<Item = &'a Tensor>,
    written: usize,
) -> Work {
    let mut inputs = inputs.into_iter().peekable();
    let size = inputs.peek().map_or(0, |t| t.dtype().size_in_bytes());
    let read: usize = inputs
        .map(|t| t.elem_count() * t.dtype().size_in_bytes())
        .sum();
    Work {
        flops: flops as u64,
        bytes: (read + written * size) as u64,
    }
}

fn columns(x: &Tensor) -> usize {
    x.dims().last().copied().unwrap_or(0)
}

pub(in crate::ops) fn rows(x: &Tensor) -> usize {
    x.dims().first().copied().unwrap_or(0)
}

/// Ordered pairs of nodes of the same graph.
fn pairs(node_ptr: &Offsets) -> usize {
    node_ptr.lengths().map(|n| n * n).sum()
}

/// `flops` for every value of `x`, which goes in with `more` and gives a tensor of its own shape.
pub(in crate::ops) fn pointwise<'a>(
    flops: usize,
    x: &'a Tensor,
    more: impl IntoIterator<Item = &'a Tensor>,
) -> Work {
    let values = x.elem_count();
    work(flops * values, std::iter::once(x).chain(more), values)
}

/// Of an activation by itself.
pub(in crate::ops) fn activation(x: &Tensor, activation: Activation) -> Work {
    match activation {
        // The tensor itself is given back.
        Activation::Identity => Work::default(),
        _ => pointwise(activation.flops(), x, []),
    }
}

pub(in crate::ops) fn linear(x: &Tensor, weights: &LinearWeights, activation: Activation) -> Work {
    let (rows, out) = (rows(x), weights.out_dim());
    work(
        rows * (weights.flops() + out * activation.flops()),
        std::iter::once(x).chain(weights.tensors()),
        rows * out,
    )
}

/// The hidden values stay inside.
pub(in crate::ops) fn feed_forward(
    x: &Tensor,
    [input, output]: [&LinearWeights; 2],
    activation: Activation,
) -> Work {
    let hidden = input.out_dim() * activation.flops();
    work(
        rows(x) * (input.flops() + hidden + output.flops()),
        (std::iter::once(x).chain(input.tensors())).chain(output.tensors()),
        rows(x) * output.out_dim(),
    )
}

/// A pair and head: the product of query and key, its factor, the bias, the softmax, and the sum of
/// the values, which are divided at the end.
pub(in crate::ops) fn attention(input: &AttentionInput<'_>) -> Work {
    let logits = pairs(input.node_ptr) * input.heads;
    let of_logit = 1 + usize::from(input.bias.is_some()) + SOFTMAX;
    let products = pairs(input.node_ptr) * 2 * (columns(input.query) + columns(input.value));
    let values = input.value.elem_count();
    work(
        logits * of_logit + products + values,
        [input.query, input.key, input.value]
            .into_iter()
            .chain(input.bias),
        values,
    )
}

/// Features of queries and keys, their rotation, both products with the sum of the keys' features and
/// values, the denominators, and the quotients. `features` is the number of a head.
pub(in crate::ops) fn linear_attention(input: &LinearAttentionInput<'_>, features: usize) -> Work {
    let (nodes, heads) = (rows(input.query), input.heads);
    let width = columns(input.query);
    let values = columns(input.value);
    let all_features = heads * features;
    let (of_features, projection) = match input.feature_map {
        // The projection, the squared length, and for every feature its share in the largest, the
        // difference to that and to the length, the exponential function and the offset.
        FeatureMap::PositiveRandom { projection } => (
            2 * width * features + 2 * width + 5 * all_features,
            Some(projection),
        ),
        FeatureMap::Relu { .. } => (2 * all_features, None),
        FeatureMap::Simple => (3 * all_features, None),
    };
    let rotated = ROTATION * all_features * usize::from(input.rotation.is_some());
    let products = 4 * features * values + 3 * all_features + values;
    let tables = (input.rotation.iter())
        .flat_map(|rotation| [rotation.query, rotation.key])
        .flat_map(|table| [&table.cos, &table.sin]);
    work(
        nodes * (2 * (of_features + rotated) + products),
        ([input.query, input.key, input.value].into_iter())
            .chain(projection)
            .chain(tables),
        nodes * values,
    )
}

/// Of sums over the edges: every value of every edge goes into one.
pub(in crate::ops) fn edge_sum(states: &Tensor, nodes: usize) -> Work {
    let values = states.elem_count();
    work(values, [states], nodes * columns(states))
}

pub(in crate::ops) fn segment_reduce(
    values: &Tensor,
    segments: &Offsets,
    reduction: Reduction,
) -> Work {
    let out = segments.num_segments() * columns(values);
    let divided = match reduction {
        Reduction::Mean => out,
        Reduction::Sum | Reduction::Max => 0,
    };
    work(values.elem_count() + divided, [values], out)
}

pub(in crate::ops) fn segment_softmax(values: &Tensor) -> Work {
    pointwise(SOFTMAX + 1, values, [])
}

/// The rows that are added to are read and written, the others stay.
pub(in crate::ops) fn add_rows_at(rows_to_add: &Tensor, at: &[u32]) -> Work {
    let touched = at.chunk_by(|a, b| a == b).count() * columns(rows_to_add);
    work(rows_to_add.elem_count(), [rows_to_add], 2 * touched)
}

/// A message is `x_j`, or `relu(x_j + e_ij)`, times its weight.
pub(in crate::ops) fn neighbour_sum(input: &NeighbourSumInput<'_>) -> Work {
    let width = columns(input.nodes);
    let of_message =
        1 + 2 * usize::from(input.edge_states.is_some()) + usize::from(input.weights.is_some());
    let own = 2 * usize::from(input.self_weight.is_some()) * input.nodes.elem_count();
    let options = [input.edge_states, input.weights, input.self_weight];
    work(
        input.adjacency.len() * width * of_message + own,
        std::iter::once(input.nodes).chain(options.into_iter().flatten()),
        input.nodes.elem_count(),
    )
}

/// The message of three operations, the softmax, the product with the message and its sum.
pub(in crate::ops) fn neighbour_softmax(nodes: &Tensor, edge_states: &Tensor) -> Work {
    let values = nodes.elem_count();
    work(
        edge_states.elem_count() * (3 + SOFTMAX + 2) + values,
        [nodes, edge_states],
        values,
    )
}

/// The message of two sums, its share in the sum and the largest; the mean.
pub(in crate::ops) fn neighbour_statistics(
    targets: &Tensor,
    sources: &Tensor,
    edge_states: &Tensor,
) -> Work {
    let values = targets.elem_count();
    work(
        edge_states.elem_count() * 4 + values,
        [targets, sources, edge_states],
        3 * values,
    )
}

pub(in crate::ops) fn edge_update(input: &EdgeUpdateInput<'_>) -> Work {
    let values = input.adjacency.len() * columns(input.from_sources);
    let flops = 1 + usize::from(input.edge_states.is_some()) + input.activation.flops();
    work(
        values * flops,
        [input.from_sources, input.from_targets]
            .into_iter()
            .chain(input.edge_states),
        values,
    )
}

/// An edge: the map, the sum of three, the gate and its weight, the two sums that take it. A node: the
/// quotient and the sum with its own. Both: norm, activation and residual sum.
pub(in crate::ops) fn gated_sum<'a>(
    input: &GatedSumInput<'_>,
    inputs: impl IntoIterator<Item = &'a Tensor>,
) -> Work {
    let (nodes, edges) = (input.own.elem_count(), input.edge_states.elem_count());
    let after = AFFINE + input.activation.flops() + usize::from(input.residual.is_some());
    let gate = 2 + SIGMOID + usize::from(input.weights.is_some()) + 2 + 1;
    work(
        rows(input.edge_states) * input.gate_edge.flops()
            + edges * (gate + after)
            + nodes * (3 + after),
        inputs,
        nodes + edges,
    )
}

/// Difference, square and sum in every column.
pub(in crate::ops) fn squared_distances(positions: &Tensor, adjacency: &Adjacency) -> Work {
    work(
        3 * adjacency.len() * columns(positions),
        [positions],
        adjacency.len(),
    )
}

/// The angles, their sine and cosine.
pub(in crate::ops) fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Work {
    let angles = rows(t) * rows(frequencies);
    work(angles * (2 * columns(t) + 2), [t, frequencies], 2 * angles)
}

/// The map, of whose results some columns are rotated.
pub(in crate::ops) fn rotated_linear(
    x: &Tensor,
    weights: &LinearWeights,
    rotations: &[ColumnRotation<'_>],
) -> Work {
    let rotated: usize = rotations.iter().map(|r| r.columns.len()).sum();
    let tables = rotations.iter().flat_map(|r| [&r.table.cos, &r.table.sin]);
    work(
        rows(x) * (weights.flops() + ROTATION * rotated),
        std::iter::once(x).chain(weights.tensors()).chain(tables),
        rows(x) * weights.out_dim(),
    )
}

/// Both parts of a pair have two products and a sum.
pub(in crate::ops) fn rotate(x: &Tensor, table: &RotationTable) -> Work {
    pointwise(ROTATION, x, [&table.cos, &table.sin])
}

/// The residual sum, the norm, and the sum with the other branch.
pub(in crate::ops) fn residual_affine(
    residual: &Tensor,
    x: &Tensor,
    affine: Option<&Affine>,
    add: Option<&Tensor>,
) -> Work {
    let flops = 1 + AFFINE * usize::from(affine.is_some()) + usize::from(add.is_some());
    let norm = affine.into_iter().flat_map(|a| [&a.scale, &a.shift]);
    pointwise(flops, x, std::iter::once(residual).chain(norm).chain(add))
}

/// Of a layer norm by itself, or of a sum with `residual`.
pub(in crate::ops) fn layer_norm(norm: &LayerNorm, x: &Tensor, residual: Option<&Tensor>) -> Work {
    let flops = LAYER_NORM + usize::from(residual.is_some());
    pointwise(
        flops,
        x,
        [&norm.weight, &norm.bias].into_iter().chain(residual),
    )
}

/// FLOP of one step of a walk from every node, over the edges of its graph.
fn step_of_walks(input: &WalkInput<'_>) -> usize {
    let edges = |nodes: std::ops::Range<usize>| -> usize {
        let ptr = input.adjacency.ptr();
        nodes.map(|node| ptr.range(node).len()).sum()
    };
    let graphs = input.node_ptr.ranges();
    graphs
        .map(|nodes| 2 * nodes.len() * edges(nodes.clone()))
        .sum()
}

pub(in crate::ops) fn pair_walks(input: &WalkInput<'_>, times: usize) -> Work {
    let pairs: usize = input.node_ptr.lengths().map(|n| n * n).sum();
    let flops = (times - 1) * step_of_walks(input);
    work(flops, [input.probabilities], pairs * times)
}

pub(in crate::ops) fn return_probabilities(input: &WalkInput<'_>, times: &[usize]) -> Work {
    let steps = times.iter().copied().max().unwrap_or(0);
    let written = input.node_ptr.total() * times.len();
    work(steps * step_of_walks(input), [input.probabilities], written)
}
