//! Rotations by kernels of GPUs.

use candle_core::{Result, Shape, Tensor, bail};

use super::{ColumnRotation, Groups, RotationTable};
use crate::ops::kernels::columns::{THREADS, columns, groups_of_rows, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, strided_rows};
use crate::ops::linear::product;
use crate::ops::{Activation, LinearWeights, linear};

static ROTATE_COLUMNS: Kernel = kernel_of_columns!("rotate_columns");
static ROTATION_TABLE: Kernel = kernel_of_columns!("rotation_table");

pub(super) fn rotation_table(t: &Tensor, frequencies: &Tensor) -> Result<RotationTable> {
    let (rows, coordinates) = t.dims2()?;
    let (pairs, _) = frequencies.dims2()?;
    let (t, frequencies) = (strided_rows(t)?, strided_rows(frequencies)?);
    let shape = Shape::from((rows, pairs));
    let launch = Launch {
        kernel: &ROTATION_TABLE,
        dtype: t.dtype(),
        constants: &[("COLUMNS", columns(pairs)), ("WITH_BIAS", 0)],
        outputs: &[(shape.clone(), t.dtype()), (shape, t.dtype())],
        inputs: &[&t, &frequencies],
        values: &[
            Value::count(rows)?,
            Value::count(pairs)?,
            Value::count(coordinates)?,
            Value::count(row_stride(&t))?,
            Value::count(row_stride(&frequencies))?,
        ],
        groups: groups_of_rows(rows, pairs),
        threads: THREADS,
    };
    let [cos, sin] = launch.run_for()?;
    Ok(RotationTable { cos, sin })
}

pub(super) fn rotate(x: &Tensor, rotation: &ColumnRotation<'_>, groups: Groups) -> Result<Tensor> {
    rotated(x, None, &[Turn::new(rotation, groups)?])
}

pub(super) fn rotated_linear(
    x: &Tensor,
    weights: &LinearWeights,
    rotations: &[ColumnRotation<'_>],
    groups: &[Groups],
) -> Result<Tensor> {
    let turns = (rotations.iter().zip(groups))
        .map(|(rotation, &groups)| Turn::new(rotation, groups))
        .collect::<Result<Vec<_>>>()?;
    if turns.is_empty() {
        return linear(x, weights, Activation::Identity);
    }
    let mut made = product(x, weights.weight())?;
    let (mut bias, mut rest) = (weights.bias(), turns.as_slice());
    while let [first, others @ ..] = rest {
        let together = match others.first() {
            Some(second) if first.is_apart_from(second) => 2,
            _ => 1,
        };
        made = rotated(&made, bias.take(), &rest[..together])?;
        rest = &rest[together..];
    }
    Ok(made)
}

/// A rotation of some columns, as the kernel wants it.
struct Turn {
    start: usize,
    columns: usize,
    groups: Groups,
    cos: Tensor,
    sin: Tensor,
}

impl Turn {
    fn new(rotation: &ColumnRotation<'_>, groups: Groups) -> Result<Self> {
        Ok(Self {
            start: rotation.columns.start,
            columns: rotation.columns.len(),
            groups,
            cos: rotation.table.cos.contiguous()?,
            sin: rotation.table.sin.contiguous()?,
        })
    }

    fn is_apart_from(&self, other: &Self) -> bool {
        self.start + self.columns <= other.start || other.start + other.columns <= self.start
    }

    fn values(&self) -> Result<[Value; 5]> {
        let step = match self.groups.shared {
            true => 0,
            false => self.groups.pairs(),
        };
        Ok([
            Value::count(self.start)?,
            Value::count(self.columns)?,
            Value::count(self.groups.width)?,
            Value::count(step)?,
            Value::count(self.groups.angles())?,
        ])
    }
}

/// `x + bias` after one rotation, or two that are apart.
fn rotated(x: &Tensor, bias: Option<&Tensor>, turns: &[Turn]) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let (shape, dtype) = (x.shape().clone(), x.dtype());
    let (first, second) = match turns {
        [only] => (only, only),
        [first, second] => (first, second),
        _ => bail!("{} rotations at once", turns.len()),
    };
    let x = strided_rows(x)?;
    let constants = [
        ("COLUMNS", columns(width)),
        ("WITH_BIAS", usize::from(bias.is_some())),
        ("ROTATIONS", turns.len()),
    ];
    let bias = match bias {
        Some(bias) => bias.contiguous()?,
        None => x.clone(),
    };
    let mut values = vec![
        Value::count(rows)?,
        Value::count(width)?,
        Value::count(row_stride(&x))?,
    ];
    values.extend(first.values()?);
    values.extend(second.values()?);
    let launch = Launch {
        kernel: &ROTATE_COLUMNS,
        dtype,
        constants: &constants,
        outputs: &[(shape, dtype)],
        inputs: &[&x, &bias, &first.cos, &first.sin, &second.cos, &second.sin],
        values: &values,
        groups: groups_of_rows(rows, width),
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device};

    use super::*;
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{
        agrees, agrees_in, agrees_in_half, assert_close, difference, packed, randn,
    };
    use crate::ops::{
        ColumnRotation, RotaryPairs, force_reference, rotate, rotated_linear, rotation_table,
    };

    const LAYOUTS: [RotaryPairs; 3] = [
        RotaryPairs::FullWidth,
        RotaryPairs::SharedByHeads,
        RotaryPairs::PerHead,
    ];

    fn table(rows: usize, angles: usize) -> RotationTable {
        let (t, frequencies) = (randn(&[rows, 2], 1.0), randn(&[angles, 2], 1.0));
        rotation_table(&t, &frequencies).unwrap()
    }

    /// Cosines and sines side by side.
    fn both(t: &Tensor, frequencies: &Tensor) -> Result<Tensor> {
        let made = rotation_table(t, frequencies)?;
        Tensor::cat(&[made.cos, made.sin], 1)
    }

    #[test]
    fn tables_of_any_number_of_coordinates() {
        for (rows, coordinates, pairs) in [(0, 2, 3), (70, 1, 1), (9, 3, 7), (5, 16, 130)] {
            let [t, _] = packed(rows, coordinates);
            let [_, frequencies] = packed(pairs, coordinates);
            agrees(4e-6, || both(&t, &frequencies));
        }
    }

    #[test]
    fn large_angles_are_as_exact_as_small_ones() {
        // Products of one coordinate are rounded once, whoever makes them.
        let t: Vec<f32> = (0..400).map(|i| 1.05f32.powi(i - 80)).collect();
        let t = Tensor::from_vec(t, (400, 1), &Device::Cpu).unwrap();
        let frequencies = Tensor::new(&[[1f32], [-1.0]], &Device::Cpu).unwrap();
        let found = on_kernels(|| both(&t, &frequencies)).unwrap();
        let exact = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
        let expected = force_reference(|| both(&exact(&t), &exact(&frequencies))).unwrap();
        assert_close(&found, &expected.to_dtype(DType::F32).unwrap(), 2e-7);
    }

    #[test]
    fn every_layout_of_pairs() {
        for pairs in LAYOUTS {
            for (heads, head_dim) in [(3, 5), (2, 4), (1, 3), (2, 65)] {
                let [x, _] = packed(11, heads * head_dim);
                let table = table(11, pairs.count(heads, head_dim));
                agrees(2e-6, || rotate(&x, &table, pairs, heads));
            }
        }
    }

    #[test]
    fn projections_with_no_one_two_and_overlapping_rotations() {
        let x = randn(&[11, 6], 1.0);
        let [odd, even] = [table(11, 6), table(11, 2)];
        let of = |columns, heads, pairs, table| ColumnRotation {
            columns,
            heads,
            pairs,
            table,
        };
        let shared = of(0..12, 3, RotaryPairs::SharedByHeads, &even);
        let own = of(12..27, 3, RotaryPairs::PerHead, &odd);
        let over = of(2..14, 3, RotaryPairs::SharedByHeads, &even);
        for bias in [false, true] {
            let bias = bias.then(|| randn(&[30], 1.0));
            let weights = LinearWeights::new(randn(&[30, 6], 0.5), bias).unwrap();
            for rotations in [
                vec![],
                vec![own.clone()],
                vec![shared.clone(), own.clone()],
                vec![own.clone(), shared.clone(), over.clone()],
                vec![over.clone(), own.clone()],
            ] {
                agrees(2e-6, || rotated_linear(&x, &weights, &rotations));
            }
        }
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let (x, table) = (randn(&[9, 12], 1.0), table(9, 6));
        agrees_in_half(&[&x, &table.cos, &table.sin], |t| {
            let table = RotationTable {
                cos: t[1].clone(),
                sin: t[2].clone(),
            };
            rotate(&t[0], &table, RotaryPairs::FullWidth, 2)
        });
        let (t, frequencies) = (randn(&[9, 2], 1.0), randn(&[5, 2], 1.0));
        agrees_in(DType::F16, &[&t, &frequencies], |t| both(&t[0], &t[1]));
    }

    #[test]
    fn broken_kernels_are_caught() {
        let [x, _] = packed(9, 15);
        let made = table(9, 6);
        let turned = || rotate(&x, &made, RotaryPairs::PerHead, 3);
        let expected = force_reference(turned).unwrap();
        let error = || Ok(difference(&turned()?, &expected));
        assert_caught("row < rows", "row <= rows", error);
        assert_caught("column < width", "column <= width", error);
        assert_caught("< (group_width) / 2u", "<= (group_width) / 2u", error);
        assert_caught("group * (step)", "0u", error);
        let weights = LinearWeights::new(randn(&[20, 6], 0.5), Some(randn(&[20], 1.0))).unwrap();
        let (x, made) = (randn(&[9, 6], 1.0), table(9, 4));
        let rotation = ColumnRotation {
            columns: 2..10,
            heads: 2,
            pairs: RotaryPairs::FullWidth,
            table: &made,
        };
        let rotations = [
            rotation.clone(),
            ColumnRotation {
                columns: 10..18,
                ..rotation
            },
        ];
        let projected = || rotated_linear(&x, &weights, &rotations);
        let expected = force_reference(projected).unwrap();
        let error = || Ok(difference(&projected()?, &expected));
        assert_caught("- (start) < (columns)", "- (start) <= (columns)", error);
        assert_caught(" + LOAD(bias, at)", "", error);
        let (t, frequencies) = (randn(&[9, 2], 1.0), randn(&[5, 2], 1.0));
        let tables = || both(&t, &frequencies);
        let expected = force_reference(tables).unwrap();
        let error = || Ok(difference(&tables()?, &expected));
        assert_caught("i < coordinates", "i <= coordinates", error);
        assert_caught("pair < pairs", "pair <= pairs", error);
    }
}
