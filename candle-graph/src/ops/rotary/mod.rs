//! Rotation of pairs of columns by angles that depend on the row: rotary encodings.

mod cpu;
mod gpu;
mod reference;
mod sin_cos;
#[cfg(test)]
mod tests;

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{Activation, LinearWeights, linear, work};

/// Cosines and sines of the angles of every node.
#[derive(Debug, Clone)]
pub struct RotationTable {
    /// `[nodes, pairs]`.
    pub cos: Tensor,
    /// `[nodes, pairs]`.
    pub sin: Tensor,
}

/// Which columns of queries and keys make the pairs that are rotated: columns 2i and 2i+1, by the
/// angle of pair i.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RotaryPairs {
    /// Of the full width, before it is cut into heads: every head has angles of its own, and a pair
    /// may straddle two heads of odd width (the official code). An odd last column stays.
    #[default]
    FullWidth,
    /// Of every head, with the same angles for all of them. An odd last column of a head stays.
    SharedByHeads,
    /// Of every head, with angles of its own. An odd last column of a head stays.
    PerHead,
}

/// Groups of adjacent columns that are cut into pairs from their first column on.
#[derive(Debug, Clone, Copy)]
struct Groups {
    /// Number of groups.
    count: usize,
    /// Columns of a group, of which an odd last one stays.
    width: usize,
    /// Whether all groups have the same angles.
    shared: bool,
}

impl Groups {
    /// Pairs of one group.
    fn pairs(self) -> usize {
        self.width / 2
    }

    /// Angles of a row.
    fn angles(self) -> usize {
        match self.shared {
            true => self.pairs(),
            false => self.count.saturating_mul(self.pairs()),
        }
    }
}

impl RotaryPairs {
    /// Number of angles of a node, for `heads` heads of width `head_dim`.
    pub fn count(self, heads: usize, head_dim: usize) -> usize {
        self.groups(heads, head_dim).angles()
    }

    fn groups(self, heads: usize, head_dim: usize) -> Groups {
        let one = Groups {
            count: 1,
            width: heads.saturating_mul(head_dim),
            shared: false,
        };
        match self {
            Self::FullWidth => one,
            // No pair straddles two heads of even width.
            Self::PerHead if head_dim.is_multiple_of(2) => one,
            Self::SharedByHeads | Self::PerHead => Groups {
                count: heads,
                width: head_dim,
                shared: self == Self::SharedByHeads,
            },
        }
    }
}

/// A rotation of some columns of a matrix, which hold one head after the other.
#[derive(Debug, Clone)]
pub struct ColumnRotation<'a> {
    /// The columns.
    pub columns: Range<usize>,
    /// Number of heads, a divisor of the number of columns.
    pub heads: usize,
    /// Which of the columns make pairs.
    pub pairs: RotaryPairs,
    /// Cosines and sines of the angles, `[rows, pairs.count(heads, head_dim)]`.
    pub table: &'a RotationTable,
}

impl ColumnRotation<'_> {
    /// The groups of columns, for a matrix of `rows` rows and `width` columns.
    fn check(&self, rows: usize, width: usize) -> Result<Groups> {
        let Range { start, end } = self.columns;
        let columns = end.checked_sub(start).filter(|_| end <= width);
        let heads = self.heads;
        let head_dim = match columns.map(|columns| (columns, columns.checked_rem(heads))) {
            Some((columns, Some(0))) if columns > 0 => columns / heads,
            _ => bail!("rotation: {heads} heads in columns {start}..{end} of {width}"),
        };
        let groups = self.pairs.groups(heads, head_dim);
        for (name, part) in [("cosines", &self.table.cos), ("sines", &self.table.sin)] {
            if part.dims() != [rows, groups.angles()] {
                bail!(
                    "rotation: {name} of shape {:?} for {rows} nodes and the {} pairs of {heads} \
                     heads of width {head_dim}",
                    part.dims(),
                    groups.angles()
                );
            }
        }
        Ok(groups)
    }

    /// All tensors, for the dispatch.
    fn tensors(&self) -> [&Tensor; 2] {
        [&self.table.cos, &self.table.sin]
    }
}

/// The cosines and sines of the angles `t·Ωᵀ` (radians), for coordinates `t` `[nodes, m]` and
/// frequencies Ω `[pairs, m]`. One table serves all layers that share the frequencies.
///
/// # Errors
/// Shapes that do not fit.
pub fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let (_, coordinates) = t.dims2()?;
    match frequencies.dims2()? {
        (pairs, of_each) if of_each == coordinates && pairs > 0 && of_each > 0 => {}
        _ => bail!(
            "rotation: frequencies of shape {:?} for coordinates of shape {:?}, expected \
             [pairs, {coordinates}]",
            frequencies.dims(),
            t.dims()
        ),
    }
    let _work = work::record(|| work::rotation_table(t, frequencies));
    if fused_on_cpu([t, frequencies]) {
        cpu::rotation_table(t, frequencies)
    } else if fused_on_gpu([t, frequencies]) {
        gpu::rotation_table(t, frequencies)
    } else {
        reference::rotation_table(t, frequencies)
    }
}

/// Rotates the pairs of every row of `x` `[nodes, H·d]`, H = `heads`, by the angles of `table`
/// `[nodes, pairs.count(H, d)]`: a pair (a, b) becomes (a·cos − b·sin, a·sin + b·cos).
///
/// # Errors
/// Shapes that do not fit.
pub fn rotate(
    x: &Tensor,
    table: &RotationTable,
    pairs: RotaryPairs,
    heads: usize,
) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let rotation = ColumnRotation {
        columns: 0..width,
        heads,
        pairs,
        table,
    };
    let groups = rotation.check(rows, width)?;
    let _work = work::record(|| work::rotate(x, table));
    let tensors = rotation.tensors().into_iter().chain([x]);
    if fused_on_cpu(tensors.clone()) {
        cpu::rotate(x, &rotation, groups)
    } else if fused_on_gpu(tensors) {
        gpu::rotate(x, &rotation, groups)
    } else {
        reference::rotate(x, table, groups)
    }
}

/// `x·Wᵀ + b` with some columns rotated, one rotation after the other: a projection to queries,
/// keys and values of which the first two are rotated where they are made. `x` is `[rows, in]`, the
/// result `[rows, out]`.
///
/// # Errors
/// Shapes that do not fit.
pub fn rotated_linear(
    x: &Tensor,
    weights: &LinearWeights,
    rotations: &[ColumnRotation<'_>],
) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    if width != weights.in_dim() {
        bail!(
            "rotation: input of width {width} for a linear map of {}",
            weights.in_dim()
        );
    }
    let groups = (rotations.iter())
        .map(|rotation| rotation.check(rows, weights.out_dim()))
        .collect::<Result<Vec<_>>>()?;
    let _work = work::record(|| work::rotated_linear(x, weights, rotations));
    let tensors = || {
        let angles = rotations.iter().flat_map(ColumnRotation::tensors);
        weights.tensors().chain(angles).chain([x])
    };
    if fused_on_cpu(tensors()) {
        return cpu::rotated_linear(x, weights, rotations, &groups);
    }
    if fused_on_gpu(tensors()) {
        return gpu::rotated_linear(x, weights, rotations, &groups);
    }
    let projected = linear(x, weights, Activation::Identity)?;
    (rotations.iter().zip(groups)).try_fold(projected, |made, (rotation, groups)| {
        reference::rotate_columns(&made, rotation, groups)
    })
}
