//! Pair attention in plain candle tensors.

use candle_core::{Error, Result, Tensor};

use super::{PairAttentionInput, PairAttentionOutput, PairAttentionWeights, PairUpdate};
use crate::ops::segment::{Reduction, segment_reduce, segment_softmax};
use crate::ops::{Activation, linear, residual_affine};

pub(super) fn forward(
    input: &PairAttentionInput<'_>,
    weights: &PairAttentionWeights,
    update: Option<&PairUpdate>,
    with_weights: bool,
) -> Result<PairAttentionOutput> {
    let (heads, head_dim, width) = (weights.heads, weights.head_dim, weights.width());
    let layout = input.layout;
    let pairs = layout.num_pairs().map_err(Error::wrap)?;
    let (source, target) = (layout.source_ids()?, layout.target_ids()?);
    let by_target = layout.by_target()?;

    let edge = linear(input.pair, &weights.edge, Activation::Identity)?
        .reshape((pairs, heads, 2, head_dim))?;
    let part = |i: usize| edge.narrow(2, i, 1)?.contiguous()?.reshape((pairs, width));
    let score = (input.key.index_select(source, 0)? + input.query.index_select(target, 0)?)?;
    let score = (score * part(0)?)?;
    let score = signed_sqrt(&score)?;
    let state = weights.activation.forward(&(score + part(1)?)?)?;

    let by_head = state.reshape((pairs, heads, head_dim))?;
    let logit_weight = weights.logit.squeeze(2)?.t()?.contiguous()?.unsqueeze(0)?;
    let mut logits = by_head.broadcast_mul(&logit_weight)?.sum(2)?;
    if let Some(bound) = weights.clamp {
        logits = logits.clamp(-bound, bound)?;
    }
    if let Some(mask) = input.mask {
        // Far below every clamped or unclamped logit, yet finite, so that no NaN can arise.
        let penalty: Vec<f32> = mask
            .iter()
            .map(|&on| if on { 0.0 } else { -1e30 })
            .collect();
        let penalty =
            Tensor::from_vec(penalty, (pairs, 1), logits.device())?.to_dtype(logits.dtype())?;
        logits = logits.broadcast_add(&penalty)?;
    }
    let alpha = segment_softmax(&logits, by_target)?;

    let spread = alpha.unsqueeze(2)?;
    let weighted = |values: Tensor| -> Result<Tensor> {
        let product = values
            .reshape((pairs, heads, head_dim))?
            .broadcast_mul(&spread)?;
        segment_reduce(&product.reshape((pairs, width))?, by_target, Reduction::Sum)
    };
    let mut value = weighted(input.value.index_select(source, 0)?)?;
    if let Some(edge_value) = &weights.edge_value {
        let nodes = layout.num_nodes();
        let per_head = weighted(state.clone())?
            .reshape((nodes, heads, head_dim))?
            .transpose(0, 1)?
            .contiguous()?;
        let mapped = per_head
            .matmul(&edge_value.transpose(0, 1)?.contiguous()?)?
            .transpose(0, 1)?
            .contiguous()?
            .reshape((nodes, width))?;
        value = (value + mapped)?;
    }

    let pair = match update {
        Some(update) => Some(next_state(input.pair, &state, update)?),
        None => None,
    };
    Ok(PairAttentionOutput {
        value,
        pair,
        weights: with_weights.then_some(alpha),
    })
}

/// The pair state after `update`.
pub(super) fn next_state(pair: &Tensor, state: &Tensor, update: &PairUpdate) -> Result<Tensor> {
    let mut branch = match &update.output {
        Some(output) => linear(state, output, Activation::Identity)?,
        None => state.clone(),
    };
    if let Some(scale) = &update.residual_scale {
        branch = branch.broadcast_mul(&scale.reshape((1, 1))?)?;
    }
    let Some(norm) = &update.layer_norm else {
        return residual_affine(pair, &branch, update.affine.as_ref(), None);
    };
    let next = norm.forward(&(pair + branch)?)?;
    match &update.affine {
        Some(affine) => affine.forward(&next),
        None => Ok(next),
    }
}

/// `sign(x)·√|x|`. The root is kept away from 0, where its slope is infinite and would turn masked
/// gradients into NaN.
fn signed_sqrt(x: &Tensor) -> Result<Tensor> {
    let root = x.abs()?.maximum(f64::from(f32::MIN_POSITIVE))?.sqrt()?;
    let zero = x.zeros_like()?;
    let positive = x.gt(&zero)?.where_cond(&root, &zero)?;
    x.lt(&zero)?.where_cond(&root.neg()?, &positive)
}
