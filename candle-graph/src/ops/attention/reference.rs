//! Attention in plain candle tensors. The graphs of one size make one batched product, so that
//! there is no padding to compute, to store or to mask.

use candle_core::{D, Result, Tensor};

use super::{AttentionInput, HeadWidths, attention};
use crate::ops::by_size::{by_size, restore_order};
use crate::ops::half_precision::{is_half, wide};

pub(super) fn forward(input: &AttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    if is_half(input.query) {
        let [query, key, value] = [wide(input.query)?, wide(input.key)?, wide(input.value)?];
        let bias = input.bias.map(wide).transpose()?;
        let result = attention(AttentionInput {
            query: &query,
            key: &key,
            value: &value,
            bias: bias.as_ref(),
            ..*input
        })?;
        return result.to_dtype(input.value.dtype());
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
    let first_pairs: Vec<usize> = (input.node_ptr.lengths())
        .scan(0, |pair, size| {
            let first = *pair;
            *pair += size * size;
            Some(first)
        })
        .collect();

    let mut results = Vec::with_capacity(groups.len());
    for group in &groups {
        let (count, size) = (group.segments.len(), group.size);
        let rows = group.rows(input.node_ptr, query.device())?;
        let by_head = |tensor: &Tensor, width: usize| {
            tensor
                .index_select(&rows, 0)?
                .reshape((count, size, heads, width))?
                .transpose(1, 2)?
                .contiguous()
        };
        let keys = by_head(&key, widths.query)?.t()?.contiguous()?;
        let mut logits = (by_head(&query, widths.query)?.matmul(&keys)? * input.scale)?;
        if let Some(bias) = input.bias {
            let blocks = (group.segments.iter())
                .map(|&graph| bias.narrow(0, first_pairs[graph], size * size))
                .collect::<Result<Vec<_>>>()?;
            let bias = Tensor::cat(&blocks, 0)?
                .reshape((count, size, size, heads))?
                .permute((0, 3, 1, 2))?;
            logits = (logits + bias)?;
        }
        let result = softmax(&logits)?.matmul(&by_head(&value, widths.value)?)?;
        results.push(
            result
                .transpose(1, 2)?
                .contiguous()?
                .reshape((count * size, heads * widths.value))?,
        );
    }
    restore_order(&results, &groups, input.node_ptr)
}

/// Softmax over the last dimension; zeros where every logit is −∞.
fn softmax(logits: &Tensor) -> Result<Tensor> {
    let lowest = f64::from(f32::MIN);
    // The largest logit only keeps the exponential in range: no gradient belongs to it. Kept
    // finite, as −∞ − (−∞) would be NaN.
    let largest = logits.detach().max_keepdim(D::Minus1)?.maximum(lowest)?;
    let exponentials = logits.broadcast_sub(&largest)?.exp()?;
    // The term of the largest logit is 1: only the sum over nothing but −∞ is smaller.
    let sums = exponentials.sum_keepdim(D::Minus1)?.maximum(0.5)?;
    exponentials.broadcast_div(&sums)
}
