//! What [`pair_attention`](super::pair_attention) costs.

use candle_core::Tensor;

use super::{PairAttentionInput, PairAttentionWeights, PairUpdate};
use crate::ops::LinearWeights;
use crate::ops::work::{self, Work};

/// `inputs` are all tensors that go in.
pub(super) fn cost<'a>(
    input: &PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    update: Option<&PairUpdate>,
    with_weights: bool,
    inputs: impl IntoIterator<Item = &'a Tensor>,
) -> Work {
    let (heads, width) = (weights.heads, weights.width());
    let nodes = work::rows(input.query);
    let (pairs, pair_width) = (work::rows(input.pair), weights.edge.in_dim());
    let attending = match input.mask {
        Some(mask) => mask.iter().filter(|&&taken| taken).count(),
        None => pairs,
    };
    let enhanced = usize::from(weights.edge_value.is_some());
    // ê: the map, then K + Q, its product with E_w, the root, the sum with E_b.
    let state = weights.edge.flops() + width * (4 + weights.activation.flops());
    // The logit, its two bounds and the softmax, the sums of V and ê.
    let bounds = 2 * usize::from(weights.clamp.is_some());
    let attend = 2 * width + heads * (bounds + work::SOFTMAX) + 2 * width * (1 + enhanced);
    // The quotients of both sums; the product with W_Ev and its sum with the first.
    let node = width * (1 + enhanced) + enhanced * width * (2 * weights.head_dim + 1);
    let (stated, updated) = match update {
        // Only pairs that attend need their ê.
        None => (attending, 0),
        Some(update) => (pairs, update_flops(update, pair_width)),
    };
    let new_pair = match update {
        Some(_) => pairs * pair_width,
        None => 0,
    };
    work::work(
        stated * state + attending * attend + pairs * updated + nodes * node,
        inputs,
        nodes * width + new_pair + pairs * heads * usize::from(with_weights),
    )
}

/// FLOP of the next state of one pair, from ê on.
fn update_flops(update: &PairUpdate, width: usize) -> usize {
    let output = update.output.as_ref().map_or(0, LinearWeights::flops);
    // The residual sum is always there.
    let columns = 1
        + usize::from(update.residual_scale.is_some())
        + work::LAYER_NORM * usize::from(update.layer_norm.is_some())
        + work::AFFINE * usize::from(update.affine.is_some());
    output + width * columns
}
