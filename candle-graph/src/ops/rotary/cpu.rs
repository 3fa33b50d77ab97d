//! Angles, cosines and sines a block of rows at a time, and rotation in place.

use std::ops::Range;

use candle_core::{Device, Result, Tensor};
use rayon::prelude::*;

use super::sin_cos::sin_cos;
use super::{ColumnRotation, Groups, RotationTable};
use crate::ops::LinearWeights;
use crate::ops::host::HostRows;
use crate::ops::linear::map_blocks;
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::row_blocks::{RowTasks, for_row_blocks};
use crate::ops::simd;
use crate::ops::strided_rows::strided_rows;

/// Values of one task.
const TASK: usize = 1 << 14;

/// Operations below which threads cost more than they save.
const THREADS_FROM: usize = 1 << 20;

/// About as many operations as a sine and a cosine together are.
const SIN_COS: usize = 32;

pub(super) fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let (rows, coordinates) = t.dims2()?;
    let (pairs, _) = frequencies.dims2()?;
    let t = strided_rows(t)?;
    let t = HostRows::new(&t)?;
    let frequencies = strided_rows(frequencies)?;
    let frequencies = HostRows::new(&frequencies)?;
    let transposed = View::new(&frequencies, pairs, coordinates, frequencies.stride()).transposed();
    let mut cos = vec![0.0f32; rows * pairs];
    let mut sin = vec![0.0f32; rows * pairs];
    let block = TASK.div_ceil(pairs);
    let arch = pulp::Arch::new();
    let task = |(i, (cos, sin)): (usize, (&mut [f32], &mut [f32]))| {
        let of_block = View::new(
            &t[i * block * t.stride()..],
            cos.len() / pairs,
            coordinates,
            t.stride(),
        );
        matmul_views(of_block, transposed, 1.0, cos, pairs, Into::Replace);
        simd::vectorize(
            arch,
            #[inline(always)]
            || sin_cos(cos, sin),
        );
    };
    let values = block * pairs;
    if cos.len().saturating_mul(coordinates + SIN_COS) < THREADS_FROM {
        (cos.chunks_mut(values).zip(sin.chunks_mut(values)))
            .enumerate()
            .for_each(task);
    } else {
        (cos.par_chunks_mut(values).zip(sin.par_chunks_mut(values)))
            .enumerate()
            .for_each(task);
    }
    Ok(RotationTable {
        cos: Tensor::from_vec(cos, (rows, pairs), &Device::Cpu)?,
        sin: Tensor::from_vec(sin, (rows, pairs), &Device::Cpu)?,
    })
}

impl RotationTable {
    /// Cosines and sines in a layout that can be read row by row.
    pub(in crate::ops) fn readable(&self) -> Result<[Tensor; 2]> {
        Ok([strided_rows(&self.cos)?, strided_rows(&self.sin)?])
    }
}

/// A rotation of some columns, with its table locked for reading.
struct Turn<'a> {
    columns: Range<usize>,
    groups: Groups,
    cos: HostRows<'a>,
    sin: HostRows<'a>,
}

impl<'a> Turn<'a> {
    fn new(rotation: &ColumnRotation<'_>, groups: Groups, table: &'a [Tensor; 2]) -> Result<Self> {
        let [cos, sin] = table;
        Ok(Self {
            columns: rotation.columns.clone(),
            groups,
            cos: HostRows::new(cos)?,
            sin: HostRows::new(sin)?,
        })
    }

    /// Rotates the columns of `row`, the row of number `at`.
    #[inline(always)]
    fn row(&self, at: usize, row: &mut [f32]) {
        let cos = &self.cos[at * self.cos.stride()..];
        let sin = &self.sin[at * self.sin.stride()..];
        let pairs = self.groups.pairs();
        let step = if self.groups.shared { 0 } else { pairs };
        let groups = row[self.columns.clone()].chunks_exact_mut(self.groups.width);
        for (group, values) in groups.enumerate() {
            let angles = group * step..group * step + pairs;
            turn(values, &cos[angles.clone()], &sin[angles]);
        }
    }
}

/// Rotates the pairs of `values` by one angle after the other.
#[inline(always)]
fn turn(values: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (pairs, _) = values.as_chunks_mut::<2>();
    for (pair, (&cos, &sin)) in pairs.iter_mut().zip(cos.iter().zip(sin)) {
        let [a, b] = *pair;
        *pair = [a * cos - b * sin, a * sin + b * cos];
    }
}

pub(super) fn rotate(x: &Tensor, rotation: &ColumnRotation<'_>, groups: Groups) -> Result<Tensor> {
    let (count, width) = x.dims2()?;
    let x = strided_rows(x)?;
    let x = HostRows::new(&x)?;
    let table = rotation.table.readable()?;
    let turn = Turn::new(rotation, groups, &table)?;
    let mut out = vec![0.0f32; count * width];
    let tasks = RowTasks {
        values: TASK,
        threads_from: THREADS_FROM / 8,
    };
    for_row_blocks(
        &mut out,
        width,
        tasks,
        #[inline(always)]
        |first, out| {
            for (at, out) in (first..).zip(out.chunks_exact_mut(width)) {
                out.copy_from_slice(&x[at * x.stride()..][..width]);
                turn.row(at, out);
            }
        },
    );
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

pub(super) fn rotated_linear(
    x: &Tensor,
    weights: &LinearWeights,
    rotations: &[ColumnRotation<'_>],
    groups: &[Groups],
) -> Result<Tensor> {
    let tables = (rotations.iter())
        .map(|rotation| rotation.table.readable())
        .collect::<Result<Vec<_>>>()?;
    let turns = (rotations.iter().zip(groups).zip(&tables))
        .map(|((rotation, &groups), table)| Turn::new(rotation, groups, table))
        .collect::<Result<Vec<_>>>()?;
    let width = weights.out_dim();
    let arch = pulp::Arch::new();
    map_blocks(x, weights, |first, out| {
        simd::vectorize(
            arch,
            #[inline(always)]
            || {
                for (at, row) in (first..).zip(out.chunks_exact_mut(width)) {
                    for turn in &turns {
                        turn.row(at, row);
                    }
                }
            },
        );
    })
}
