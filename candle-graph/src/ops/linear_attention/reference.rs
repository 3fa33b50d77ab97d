//! Linear attention in plain candle tensors. The graphs of one size make one batched product, so
//! that there is no padding to compute or to mask.

use candle_core::{D, Result, Tensor};

use super::{FEATURE_EPS, FeatureMap, HeadWidths, LinearAttentionInput};
use crate::ops::by_size::{by_size, restore_order};
use crate::ops::{RotaryPairs, RotationTable};

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
            let rotated = match &input.rotation {
                Some(rotation) => {
                    let rotate = |features: &Tensor, table: &RotationTable| {
                        rotate(features, table, rotation.pairs, &rows)
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

/// φ of `[graphs, heads, nodes, d]`, but for factors that cancel.
fn features(x: &Tensor, feature_map: FeatureMap<'_>, of_keys: bool) -> Result<Tensor> {
    match feature_map {
        FeatureMap::PositiveRandom { projection } => positive_random(x, projection, of_keys),
        FeatureMap::Relu { eps } => relu(x, eps, of_keys),
        FeatureMap::Simple => normalised(x),
    }
}

fn positive_random(x: &Tensor, projection: &Tensor, of_keys: bool) -> Result<Tensor> {
    let (graphs, heads, nodes, width) = x.dims4()?;
    let root = (width as f64).powf(-0.25);
    let projected = (x * root)?
        .reshape((graphs * heads * nodes, width))?
        .matmul(&projection.t()?)?
        .reshape((graphs, heads, nodes, ()))?;
    let half_square = (x.sqr()?.sum_keepdim(D::Minus1)? * (0.5 * root * root))?;
    // The stabiliser cancels, but for what is added to the features: no gradient belongs to it.
    let largest = largest(&projected, of_keys)?;
    projected
        .broadcast_sub(&half_square)?
        .broadcast_sub(&largest)?
        .exp()?
        + FEATURE_EPS
}

/// `relu(x) + eps`, divided by its largest element, which cancels and keeps products in range.
fn relu(x: &Tensor, eps: f64, of_keys: bool) -> Result<Tensor> {
    let features = (x.relu()? + eps)?;
    let largest = largest(&features, of_keys)?;
    features.broadcast_div(&one_where_zero(&largest)?)
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

/// The largest element over the features of a node and, for keys, over the nodes, without gradients.
fn largest(features: &Tensor, of_keys: bool) -> Result<Tensor> {
    let of_rows = features.detach().max_keepdim(D::Minus1)?;
    match of_keys {
        true => of_rows.max_keepdim(2),
        false => Ok(of_rows),
    }
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
fn rotate(
    features: &Tensor,
    table: &RotationTable,
    pairs: RotaryPairs,
    rows: &Tensor,
) -> Result<Tensor> {
    let (graphs, heads, nodes, count) = features.dims4()?;
    let by_node = features.transpose(1, 2)?.contiguous()?;
    // Pairs lie within groups of columns.
    let (groups, width) = match pairs {
        RotaryPairs::FullWidth => (1, heads * count),
        RotaryPairs::SharedByHeads | RotaryPairs::PerHead => (heads, count),
    };
    let of_group = width / 2;
    let x = by_node.reshape((graphs * nodes, groups, width))?;
    let paired = (x.narrow(2, 0, 2 * of_group)?).reshape((graphs * nodes, groups, of_group, 2))?;
    let (first, second) = (paired.narrow(3, 0, 1)?, paired.narrow(3, 1, 1)?);
    let angles = |angles: &Tensor| {
        let angles = angles.index_select(rows, 0)?;
        angles.reshape((graphs * nodes, (), of_group, 1))
    };
    let (cos, sin) = (angles(&table.cos)?, angles(&table.sin)?);
    let turned = [
        (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?,
        (first.broadcast_mul(&sin)? + second.broadcast_mul(&cos)?)?,
    ];
    let turned = Tensor::cat(&turned, 3)?.reshape((graphs * nodes, groups, 2 * of_group))?;
    let all = match width - 2 * of_group {
        0 => turned,
        left => Tensor::cat(&[turned, x.narrow(2, 2 * of_group, left)?], 2)?,
    };
    all.reshape((graphs, nodes, heads, count))?
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
