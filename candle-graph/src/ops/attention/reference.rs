//! Attention in plain candle tensors. The graphs of one size make one batched product, so that
//! there is no padding to compute, to store or to mask.

use std::collections::BTreeMap;

use candle_core::{D, DType, Result, Tensor};

use super::{AttentionInput, HeadWidths};

/// Where the graphs of one size begin.
#[derive(Default)]
struct Starts {
    nodes: Vec<usize>,
    pairs: Vec<usize>,
}

pub(super) fn forward(input: &AttentionInput<'_>, widths: HeadWidths) -> Result<Tensor> {
    let heads = input.heads;
    let [query, key, value] = [
        input.query.contiguous()?,
        input.key.contiguous()?,
        input.value.contiguous()?,
    ];
    let mut by_size = BTreeMap::<usize, Starts>::new();
    let mut pair = 0;
    for nodes in input.node_ptr.ranges().filter(|nodes| !nodes.is_empty()) {
        let starts = by_size.entry(nodes.len()).or_default();
        starts.nodes.push(nodes.start);
        starts.pairs.push(pair);
        pair += nodes.len() * nodes.len();
    }

    let mut results = Vec::with_capacity(by_size.len());
    let mut place = vec![0u32; input.node_ptr.total()];
    let mut placed = 0;
    for (&size, starts) in &by_size {
        let count = starts.nodes.len();
        let mut ids = Vec::with_capacity(count * size);
        for node in starts.nodes.iter().flat_map(|&start| start..start + size) {
            ids.push(node as u32);
            place[node] = placed;
            placed += 1;
        }
        let ids = Tensor::from_vec(ids, count * size, query.device())?;
        let by_head = |rows: &Tensor, width: usize| {
            rows.index_select(&ids, 0)?
                .reshape((count, size, heads, width))?
                .transpose(1, 2)?
                .contiguous()
        };
        let keys = by_head(&key, widths.query)?.t()?.contiguous()?;
        let mut logits = (by_head(&query, widths.query)?.matmul(&keys)? * input.scale)?;
        if let Some(bias) = input.bias {
            let blocks = (starts.pairs.iter())
                .map(|&start| bias.narrow(0, start, size * size))
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
    if results.is_empty() {
        return value.zeros_like();
    }
    let place = Tensor::from_vec(place, input.node_ptr.total(), query.device())?;
    Tensor::cat(&results, 0)?.index_select(&place, 0)
}

/// Softmax over the last dimension; zeros where every logit is −∞.
fn softmax(logits: &Tensor) -> Result<Tensor> {
    let lowest = match logits.dtype() {
        DType::F16 => -65504.0,
        DType::BF16 => -3e38,
        _ => f64::from(f32::MIN),
    };
    // The largest logit only keeps the exponential in range: no gradient belongs to it. Kept
    // finite, as −∞ − (−∞) would be NaN.
    let largest = logits.detach().max_keepdim(D::Minus1)?.maximum(lowest)?;
    let exponentials = logits.broadcast_sub(&largest)?.exp()?;
    // The term of the largest logit is 1: only the sum over nothing but −∞ is smaller.
    let sums = exponentials.sum_keepdim(D::Minus1)?.maximum(0.5)?;
    exponentials.broadcast_div(&sums)
}
