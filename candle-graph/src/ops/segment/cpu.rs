//! Segment operations in one parallel pass over memory.

use std::ops::Range;

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Result, Tensor};
use rayon::prelude::*;

use super::Reduction;
use crate::graph::Offsets;
use crate::ops::host::{self, HostF32};
use crate::ops::node_blocks::split_rows;
use crate::ops::simd;

/// Rows below which threads cost more than they save.
const PARALLEL_FROM: usize = 1024;

/// Rows of a piece of a long segment: pieces are reduced side by side, whatever the number of
/// threads, and the rounding error of a sum grows with their number.
const PIECE: usize = 1024;

/// Terms that are summed before they join a sum: the rounding error of a long sum then grows with
/// the number of blocks, not of terms.
pub(in crate::ops) const SUM_BLOCK: usize = 32;

pub(super) fn reduce(values: &Tensor, segments: &Offsets, reduction: Reduction) -> Result<Tensor> {
    let values = values.contiguous()?;
    let (_, width) = values.dims2()?;
    let input = HostF32::new(&values)?;
    let count = segments.num_segments();
    let out = match segments.max_length() > PIECE {
        true => reduce_pieces(&input, segments, width, reduction),
        false => reduce_ranges(&input, segments.ranges().collect(), width, reduction),
    };
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// Reduces pieces of segments, side by side, and then the results of the pieces of every segment.
fn reduce_pieces(
    input: &[f32],
    segments: &Offsets,
    width: usize,
    reduction: Reduction,
) -> Vec<f32> {
    let within = match reduction {
        Reduction::Sum | Reduction::Mean => Reduction::Sum,
        Reduction::Max => Reduction::Max,
    };
    let mut pieces = Vec::new();
    let mut of_segments = Vec::with_capacity(segments.num_segments());
    for rows in segments.ranges() {
        let first = pieces.len();
        let firsts = rows.clone().step_by(PIECE);
        pieces.extend(firsts.map(|first| first..rows.end.min(first + PIECE)));
        of_segments.push(first..pieces.len());
    }
    let of_pieces = reduce_ranges(input, pieces, width, within);
    let mut out = reduce_ranges(&of_pieces, of_segments, width, within);
    if reduction == Reduction::Mean && width > 0 {
        for (row, rows) in out.chunks_exact_mut(width).zip(segments.lengths()) {
            let divisor = rows.max(1) as f32;
            row.iter_mut().for_each(|x| *x /= divisor);
        }
    }
    out
}

/// One row a range of the rows of `input`.
fn reduce_ranges(
    input: &[f32],
    ranges: Vec<Range<usize>>,
    width: usize,
    reduction: Reduction,
) -> Vec<f32> {
    let mut out = vec![0.0f32; ranges.len() * width];
    if width > 0 && !input.is_empty() {
        let arch = pulp::Arch::new();
        let one = |(range, out): (&Range<usize>, &mut [f32])| {
            let rows = &input[range.start * width..range.end * width];
            simd::vectorize(
                arch,
                #[inline(always)]
                || reduce_rows(rows, out, reduction),
            );
        };
        if input.len() / width < PARALLEL_FROM {
            ranges.iter().zip(out.chunks_exact_mut(width)).for_each(one);
        } else {
            let outs = out.par_chunks_exact_mut(width);
            ranges.par_iter().zip(outs).for_each(one);
        }
    }
    out
}

#[inline(always)]
fn reduce_rows(rows: &[f32], out: &mut [f32], reduction: Reduction) {
    let width = out.len();
    let count = rows.len() / width;
    let mut rows = rows.chunks_exact(width);
    let Some(first) = rows.next() else {
        return;
    };
    out.copy_from_slice(first);
    for row in rows {
        match reduction {
            Reduction::Sum | Reduction::Mean => {
                for (o, &v) in out.iter_mut().zip(row) {
                    *o += v;
                }
            }
            Reduction::Max => {
                for (o, &v) in out.iter_mut().zip(row) {
                    *o = o.max(v);
                }
            }
        }
    }
    if reduction == Reduction::Mean {
        let divisor = count as f32;
        for o in out.iter_mut() {
            *o /= divisor;
        }
    }
}

pub(super) fn softmax(values: &Tensor, segments: &Offsets) -> Result<Tensor> {
    let values = values.contiguous()?;
    let (rows, width) = values.dims2()?;
    let mut out = HostF32::new(&values)?.to_vec();
    if width > 0 && rows > 0 {
        let lengths = segments.lengths().filter(|&length| length > 0);
        let blocks = split_rows(&mut out, lengths, width);
        let arch = pulp::Arch::new();
        let one = |block: &mut [f32]| {
            simd::vectorize(
                arch,
                #[inline(always)]
                || softmax_rows(block, width),
            );
        };
        if rows < PARALLEL_FROM {
            blocks.into_iter().for_each(one);
        } else {
            blocks.into_par_iter().for_each(one);
        }
    }
    Tensor::from_vec(out, (rows, width), &Device::Cpu)
}

/// Softmax over the rows of `block` `[rows, width]`, column by column, in place.
#[inline(always)]
pub(in crate::ops) fn softmax_rows(block: &mut [f32], width: usize) {
    // Columns in groups of one or two vector registers; a narrower group repeats nothing but the
    // loop overhead.
    let mut first = 0;
    while first < width {
        let columns = width - first;
        first += match columns {
            16.. => softmax_columns::<16>(block, width, first),
            8.. => softmax_columns::<8>(block, width, first),
            4.. => softmax_columns::<4>(block, width, first),
            _ => softmax_columns::<1>(block, width, first),
        };
    }
}

/// [`softmax_rows`] of the `C` columns from `first`; gives `C`.
#[inline(always)]
fn softmax_columns<const C: usize>(block: &mut [f32], width: usize, first: usize) -> usize {
    let columns = |row: &[f32]| -> [f32; C] { std::array::from_fn(|c| row[first + c]) };
    let mut largest = [f32::NEG_INFINITY; C];
    for row in block.chunks_exact(width) {
        let values = columns(row);
        for c in 0..C {
            largest[c] = largest[c].max(values[c]);
        }
    }
    for m in &mut largest {
        // A segment whose every logit is −∞ has no weight to give; −∞ − (−∞) would be NaN.
        *m = if *m == f32::NEG_INFINITY { 0.0 } else { *m };
    }
    let mut sum = [0.0f32; C];
    for rows in block.chunks_mut(SUM_BLOCK * width) {
        let mut partial = [0.0f32; C];
        for row in rows.chunks_exact_mut(width) {
            let mut values = columns(row);
            for c in 0..C {
                values[c] = simd::exp(values[c] - largest[c]);
                partial[c] += values[c];
            }
            row[first..first + C].copy_from_slice(&values);
        }
        for c in 0..C {
            sum[c] += partial[c];
        }
    }
    for s in &mut sum {
        *s = 1.0 / (*s + 1e-16);
    }
    for row in block.chunks_exact_mut(width) {
        let row = &mut row[first..first + C];
        for c in 0..C {
            row[c] *= sum[c];
        }
    }
    C
}

pub(super) fn add_rows_at(base: Tensor, rows_to_add: &Tensor, at: &[u32]) -> Result<Tensor> {
    let base = base.contiguous()?;
    let rows_to_add = rows_to_add.contiguous()?;
    let op = AddRows {
        rows: &HostF32::new(&rows_to_add)?,
        at,
    };
    base.inplace_op1(&op)?;
    Ok(base)
}

/// Adds rows within the storage of a tensor.
struct AddRows<'a> {
    rows: &'a [f32],
    at: &'a [u32],
}

impl InplaceOp1 for AddRows<'_> {
    fn name(&self) -> &'static str {
        "add-rows"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let base = host::values_mut(storage, layout, self.name())?;
        let width = self.rows.len() / self.at.len().max(1);
        if width > 0 {
            for (&row, values) in self.at.iter().zip(self.rows.chunks_exact(width)) {
                let start = row as usize * width;
                base[start..start + width]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(o, &v)| *o += v);
            }
        }
        Ok(())
    }
}
