//! Rotation in plain candle tensors.

use candle_core::{Result, Tensor};

use super::{ColumnRotation, Groups, RotationTable};

pub(super) fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let angles = t.matmul(&frequencies.t()?)?;
    Ok(RotationTable {
        cos: angles.cos()?,
        sin: angles.sin()?,
    })
}

pub(super) fn rotate(x: &Tensor, table: &RotationTable, groups: Groups) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let pairs = groups.pairs();
    let x = x.reshape((rows, groups.count, groups.width))?;
    let paired = x
        .narrow(2, 0, 2 * pairs)?
        .reshape((rows, groups.count, pairs, 2))?;
    let (first, second) = (paired.narrow(3, 0, 1)?, paired.narrow(3, 1, 1)?);
    let of_groups = if groups.shared { 1 } else { groups.count };
    let by_group = |angles: &Tensor| angles.reshape((rows, of_groups, pairs, 1));
    let (cos, sin) = (by_group(&table.cos)?, by_group(&table.sin)?);
    let rotated = [
        (first.broadcast_mul(&cos)? - second.broadcast_mul(&sin)?)?,
        (first.broadcast_mul(&sin)? + second.broadcast_mul(&cos)?)?,
    ];
    let rotated = Tensor::cat(&rotated, 3)?.reshape((rows, groups.count, 2 * pairs))?;
    let left = groups.width - 2 * pairs;
    let all = match left {
        0 => rotated,
        left => Tensor::cat(&[rotated, x.narrow(2, 2 * pairs, left)?], 2)?,
    };
    all.reshape((rows, width))
}

pub(super) fn rotate_columns(
    x: &Tensor,
    rotation: &ColumnRotation<'_>,
    groups: Groups,
) -> Result<Tensor> {
    let columns = &rotation.columns;
    let rotated = x.narrow(1, columns.start, columns.len())?;
    let rotated = rotate(&rotated, rotation.table, groups)?;
    let before = x.narrow(1, 0, columns.start)?;
    let behind = x.narrow(1, columns.end, x.dim(1)? - columns.end)?;
    Tensor::cat(&[before, rotated, behind], 1)
}
