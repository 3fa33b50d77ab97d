//! Segment operations in plain candle tensors. Segments are brought into a padded block by a
//! gather whose padding reads an appended row, so that every step is differentiable and no
//! scatter-max is needed.

use candle_core::{D, Result, Tensor};

use super::{Reduction, segment_reduce, segment_softmax};
use crate::graph::Offsets;
use crate::ops::half_precision::{is_half, wide};

/// `[segments, longest, width]` with `fill` where a segment is shorter than the longest.
fn padded(values: &Tensor, segments: &Offsets, fill: f64) -> Result<Tensor> {
    let (rows, width) = values.dims2()?;
    let longest = segments.max_length();
    let count = segments.num_segments();
    let extra = (Tensor::ones((1, width), values.dtype(), values.device())? * fill)?;
    let extended = Tensor::cat(&[values, &extra], 0)?;
    let mut ids = Vec::with_capacity(count * longest);
    for range in segments.ranges() {
        let padding = longest - range.len();
        ids.extend(range.map(|r| r as u32));
        ids.extend(std::iter::repeat_n(rows as u32, padding));
    }
    let ids = Tensor::from_vec(ids, count * longest, values.device())?;
    extended
        .index_select(&ids, 0)?
        .reshape((count, longest, width))
}

pub(super) fn reduce(values: &Tensor, segments: &Offsets, reduction: Reduction) -> Result<Tensor> {
    let (_, width) = values.dims2()?;
    let count = segments.num_segments();
    if segments.max_length() == 0 {
        return Tensor::zeros((count, width), values.dtype(), values.device());
    }
    if is_half(values) && reduction != Reduction::Max {
        let reduced = segment_reduce(&wide(values)?, segments, reduction)?;
        return reduced.to_dtype(values.dtype());
    }
    match reduction {
        Reduction::Sum => padded(values, segments, 0.0)?.sum(1),
        Reduction::Mean => {
            let divisors: Vec<f32> = segments.lengths().map(|l| l.max(1) as f32).collect();
            let divisors = Tensor::from_vec(divisors, (count, 1), values.device())?
                .to_dtype(values.dtype())?;
            padded(values, segments, 0.0)?
                .sum(1)?
                .broadcast_div(&divisors)
        }
        Reduction::Max => {
            let largest = padded(values, segments, f64::NEG_INFINITY)?.max(1)?;
            let filled: Vec<u8> = segments.lengths().map(|l| u8::from(l > 0)).collect();
            let filled = Tensor::from_vec(filled, (count, 1), values.device())?
                .broadcast_as((count, width))?;
            filled.where_cond(&largest, &largest.zeros_like()?)
        }
    }
}

pub(super) fn softmax(values: &Tensor, segments: &Offsets) -> Result<Tensor> {
    let (rows, width) = values.dims2()?;
    if rows == 0 {
        return Ok(values.clone());
    }
    if is_half(values) {
        return segment_softmax(&wide(values)?, segments)?.to_dtype(values.dtype());
    }
    let ids = segments.segment_ids()?;
    // The largest value only keeps the exponential in range: no gradient belongs to it.
    let largest = padded(&values.detach(), segments, f64::NEG_INFINITY)?
        .max_keepdim(1)?
        .reshape(((), width))?
        .index_select(ids, 0)?;
    let exponentials = values.sub(&largest)?.exp()?;
    let sums = padded(&exponentials, segments, 0.0)?.sum(D::Minus2)?;
    exponentials.div(&(sums + 1e-16)?.index_select(ids, 0)?)
}

pub(super) fn add_rows_at(base: &Tensor, rows_to_add: &Tensor, at: &[u32]) -> Result<Tensor> {
    let (rows, width) = base.dims2()?;
    // Repeats are summed first; then every row of the base gathers its one addend, or a zero row.
    let runs = at.chunk_by(|a, b| a == b);
    let lengths = runs.clone().map(<[u32]>::len);
    let segments =
        Offsets::from_lengths(lengths, base.device()).map_err(candle_core::Error::wrap)?;
    let sums = reduce(rows_to_add, &segments, Reduction::Sum)?;
    let zero = Tensor::zeros((1, width), sums.dtype(), sums.device())?;
    let mut ids = vec![segments.num_segments() as u32; rows];
    for (sum, run) in runs.enumerate() {
        for &row in run {
            ids[row as usize] = sum as u32;
        }
    }
    let ids = Tensor::from_vec(ids, rows, base.device())?;
    base + Tensor::cat(&[&sums, &zero], 0)?.index_select(&ids, 0)?
}
