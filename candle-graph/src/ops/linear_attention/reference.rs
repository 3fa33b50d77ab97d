//! Linear attention in plain candle tensors. The graphs of one size make one batched product, so
//! that there is no padding to compute or to mask.

use candle_core::{D, Result, Tensor};

use super::{FEATURE_EPS, FeatureMap, HeadWidths, LinearAttentionInput};
use crate::ops::by_size::{by_size, restore_order};

pub(super) fn forward(input: &LinearAttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    let heads = input.heads;
    let [query, key, value] = [
        input.query.contiguous()?,
        input.key.contiguous()?,
        input.value.contiguous()?,
    ];
    let groups = by_size(input.node_ptr);
    if groups.is_empty() {
        return value.zeros_like();
    }
    let results = (groups.iter())
        .map(|group| {
            let (count, size) = (group.segments.len(), group.size);
            let rows = group.rows(input.node_ptr, query.device())?;
            let by_head = |tensor: &Tensor, width: usize| {
                tensor
                    .index_select(&rows, 0)?
                    .reshape((count, size, heads, width))?
                    .transpose(1, 2)?
                    .contiguous()
            };
            let query = features(&by_head(&query, widths.query)?, input.feature_map, false)?;
            let key = features(&by_head(&key, widths.query)?, input.feature_map, true)?;
            let value = by_head(&value, widths.value)?;
            weighted(&query, &key, &value)?
                .transpose(1, 2)?
                .contiguous()?
                .reshape((count * size, heads * widths.value))
        })
        .collect::<Result<Vec<_>>>()?;
    restore_order(&results, &groups, input.node_ptr)
}

/// φ of `[graphs, heads, nodes, d]`.
fn features(x: &Tensor, feature_map: FeatureMap<'_>, of_keys: bool) -> Result<Tensor> {
    let FeatureMap::PositiveRandom { projection } = feature_map;
    let (graphs, heads, nodes, width) = x.dims4()?;
    let root = (width as f64).powf(-0.25);
    let projected = (x * root)?
        .reshape((graphs * heads * nodes, width))?
        .matmul(&projection.t()?)?
        .reshape((graphs, heads, nodes, ()))?;
    let half_square = (x.sqr()?.sum_keepdim(D::Minus1)? * (0.5 * root * root))?;
    // The stabiliser cancels, but for what is added to the features: no gradient belongs to it.
    let of_rows = projected.detach().max_keepdim(D::Minus1)?;
    let largest = match of_keys {
        true => of_rows.max_keepdim(2)?,
        false => of_rows,
    };
    projected
        .broadcast_sub(&half_square)?
        .broadcast_sub(&largest)?
        .exp()?
        + FEATURE_EPS
}

/// The values weighted by the products of features, all `[graphs, heads, nodes, _]`.
fn weighted(query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor> {
    let context = key.t()?.contiguous()?.matmul(value)?;
    let sums = key.sum_keepdim(2)?.t()?.contiguous()?;
    query.matmul(&context)?.broadcast_div(&query.matmul(&sums)?)
}
