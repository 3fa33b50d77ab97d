//! Linear attention in plain candle tensors. The graphs of one size make one batched product, so
//! that there is no padding to compute or to mask.

use candle_core::{D, Result, Tensor};

use super::{
    FEATURE_EPS, FeatureMap, FeatureRotation, HeadWidths, LinearAttentionInput, linear_attention,
};
use crate::ops::by_size::{by_size, restore_order};
use crate::ops::half_precision::{is_half, wide};
use crate::ops::{RotaryPairs, RotationTable, rotate};

pub(super) fn forward(input: &LinearAttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    if is_half(input.query) {
        return in_f32(input)?.to_dtype(input.value.dtype());
    }
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
            let heads_too = input.pairs_straddle(widths);
            let features = |x: &Tensor, nodes: bool| {
                let over = Over {
                    heads: heads_too,
                    nodes,
                };
                features(&by_head(x, widths.query)?, input, over)
            };
            let (query, key) = (features(&query, false)?, features(&key, true)?);
            let value = by_head(&value, widths.value)?;
            let rotated = match &input.rotation {
                Some(rotation) => {
                    let rotate = |features: &Tensor, table: &RotationTable| {
                        rotated(features, table, rotation.pairs, &rows)
                    };
                    let query = rotate(&query, rotation.query)?;
                    Some((query, rotate(&key, rotation.key)?))
                }
                None => None,
            };
            let simple = matches!(input.feature_map, FeatureMap::Simple);
            let own_weight = simple.then_some(size as f64);
            let result = match (own_weight, size, &rotated) {
                (Some(_), 1, None) => value,
                _ => weighted(&query, &key, &value, rotated.as_ref(), own_weight)?,
            };
            result
                .transpose(1, 2)?
                .contiguous()?
                .reshape((count * size, heads * widths.value))
        })
        .collect::<Result<Vec<_>>>()?;
    restore_order(&results, &groups, input.node_ptr)
}

/// The whole operation on its inputs in f32.
fn in_f32(input: &LinearAttentionInput<'_>) -> Result<Tensor> {
    let [query, key, value] = [wide(input.query)?, wide(input.key)?, wide(input.value)?];
    let projection = match input.feature_map {
        FeatureMap::PositiveRandom { projection } => Some(wide(projection)?),
        FeatureMap::Relu { .. } | FeatureMap::Simple => None,
    };
    let feature_map = match &projection {
        Some(projection) => FeatureMap::PositiveRandom { projection },
        None => input.feature_map,
    };
    let table = |table: &RotationTable| -> Result<RotationTable> {
        Ok(RotationTable {
            cos: wide(&table.cos)?,
            sin: wide(&table.sin)?,
        })
    };
    let tables = match &input.rotation {
        Some(rotation) => Some((table(rotation.query)?, table(rotation.key)?, rotation.pairs)),
        None => None,
    };
    linear_attention(LinearAttentionInput {
        query: &query,
        key: &key,
        value: &value,
        feature_map,
        rotation: (tables.as_ref()).map(|(query, key, pairs)| FeatureRotation {
            query,
            key,
            pairs: *pairs,
        }),
        ..*input
    })
}

/// φ of `[graphs, heads, nodes, d]`, but for factors that cancel.
fn features(x: &Tensor, input: &LinearAttentionInput<'_>, over: Over) -> Result<Tensor> {
    match input.feature_map {
        FeatureMap::PositiveRandom { projection } => {
            let projected = project(x, projection)?;
            let half_square = (x.sqr()?.sum_keepdim(D::Minus1)? * (0.5 * root(x)?.powi(2)))?;
            // The stabiliser cancels, but for what is added to the features: no gradient belongs to
            // it.
            let largest = largest(&projected, over)?;
            projected
                .broadcast_sub(&half_square)?
                .broadcast_sub(&largest)?
                .exp()?
                + FEATURE_EPS
        }
        FeatureMap::Relu { eps } => {
            let features = (x.relu()? + eps)?;
            // Divided by its largest element, which cancels and keeps products in range.
            let largest = largest(&features, over)?;
            features.broadcast_div(&one_where_zero(&largest)?)
        }
        FeatureMap::Simple => normalised(x),
    }
}

/// d^-¼ of `[_, _, _, d]`.
fn root(x: &Tensor) -> Result<f64> {
    Ok((x.dim(D::Minus1)? as f64).powf(-0.25))
}

/// `P·x·d^-¼`.
fn project(x: &Tensor, projection: &Tensor) -> Result<Tensor> {
    let (graphs, heads, nodes, width) = x.dims4()?;
    (x * root(x)?)?
        .reshape((graphs * heads * nodes, width))?
        .matmul(&projection.t()?)?
        .reshape((graphs, heads, nodes, ()))
}

/// `x` by its norm over everything that belongs to a graph.
fn normalised(x: &Tensor) -> Result<Tensor> {
    let all = x.flatten_from(1)?;
    // Squares of what is divided by its largest element stay in range; the element cancels.
    let largest = all.detach().abs()?.max_keepdim(1)?;
    let scaled = all.broadcast_div(&one_where_zero(&largest)?)?;
    let norm = one_where_zero(&scaled.sqr()?.sum_keepdim(1)?)?.sqrt()?;
    scaled.broadcast_div(&norm)?.reshape(x.shape())
}

/// What a largest element is taken over, beside the features.
#[derive(Debug, Clone, Copy)]
struct Over {
    heads: bool,
    nodes: bool,
}

/// The largest element, without gradients.
fn largest(features: &Tensor, over: Over) -> Result<Tensor> {
    let mut largest = features.detach().max_keepdim(D::Minus1)?;
    if over.nodes {
        largest = largest.max_keepdim(2)?;
    }
    if over.heads {
        largest = largest.max_keepdim(1)?;
    }
    Ok(largest)
}

/// `x` with 1 for 0, to divide by.
fn one_where_zero(x: &Tensor) -> Result<Tensor> {
    x + zeros_of(x)?
}

/// 1 where `x` is 0, and 0 elsewhere.
fn zeros_of(x: &Tensor) -> Result<Tensor> {
    x.detach().eq(0f64)?.to_dtype(x.dtype())
}

/// The features `[graphs, heads, nodes, features]` of the nodes `rows` in pairs turned by their
/// angles.
fn rotated(
    features: &Tensor,
    table: &RotationTable,
    pairs: RotaryPairs,
    rows: &Tensor,
) -> Result<Tensor> {
    let (graphs, heads, nodes, count) = features.dims4()?;
    let by_node = features.transpose(1, 2)?.contiguous()?;
    let by_node = by_node.reshape((graphs * nodes, heads * count))?;
    let table = RotationTable {
        cos: table.cos.index_select(rows, 0)?,
        sin: table.sin.index_select(rows, 0)?,
    };
    rotate(&by_node, &table, pairs, heads)?
        .reshape((graphs, nodes, heads, count))?
        .transpose(1, 2)?
        .contiguous()
}

/// The values weighted by the products of features, all `[graphs, heads, nodes, _]`; the numerator
/// has the features of `rotated` where there are some, and a node's own value `own_weight` times.
fn weighted(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    rotated: Option<&(Tensor, Tensor)>,
    own_weight: Option<f64>,
) -> Result<Tensor> {
    let sums = key.sum_keepdim(2)?.t()?.contiguous()?;
    let mut denominator = query.matmul(&sums)?;
    let (query, key) = rotated.map_or((query, key), |(query, key)| (query, key));
    let context = key.t()?.contiguous()?.matmul(value)?;
    let mut numerator = query.matmul(&context)?;
    if let Some(weight) = own_weight {
        numerator = (numerator + (value * weight)?)?;
        denominator = (denominator + weight)?;
    }
    let absent = zeros_of(&denominator)?;
    numerator
        .broadcast_div(&(&denominator + &absent)?)?
        .broadcast_mul(&(1.0 - absent)?)
}
