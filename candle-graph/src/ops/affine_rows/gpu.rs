//! The affine map by a kernel of GPUs.

use candle_core::{Result, Tensor};

use crate::ops::kernels::columns::{THREADS, columns, groups_of_rows, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value, row_stride, rows_or, strided_rows};

static AFFINE_ROWS: Kernel = kernel_of_columns!("affine_rows");

/// `(x + residual) ⊙ scale + shift + add` with `[scale, shift]` of `affine`; the shapes have been
/// checked.
pub(in crate::ops) fn forward(
    x: &Tensor,
    residual: Option<&Tensor>,
    affine: Option<[&Tensor; 2]>,
    add: Option<&Tensor>,
) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let (shape, dtype) = (x.shape().clone(), x.dtype());
    let x = strided_rows(x)?;
    let [scale, shift] = match affine {
        Some([scale, shift]) => [scale.contiguous()?, shift.contiguous()?],
        None => [x.clone(), x.clone()],
    };
    let constants = [
        ("COLUMNS", columns(width)),
        ("WITH_RESIDUAL", usize::from(residual.is_some())),
        ("WITH_AFFINE", usize::from(affine.is_some())),
        ("WITH_ADD", usize::from(add.is_some())),
    ];
    let (residual, add) = (rows_or(residual, &x)?, rows_or(add, &x)?);
    let launch = Launch {
        kernel: &AFFINE_ROWS,
        dtype,
        constants: &constants,
        outputs: &[(shape, dtype)],
        inputs: &[&x, &residual, &scale, &shift, &add],
        values: &[
            Value::count(rows)?,
            Value::count(width)?,
            Value::count(row_stride(&x))?,
            Value::count(row_stride(&residual))?,
            Value::count(row_stride(&add))?,
        ],
        groups: groups_of_rows(rows, width),
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::kernels::host::assert_caught;
    use crate::ops::test_data::{agrees, agrees_in_half, difference, packed, randn};
    use crate::ops::{Affine, force_reference, residual_affine};

    struct Case {
        x: Tensor,
        residual: Tensor,
        add: Tensor,
        norm: Affine,
    }

    impl Case {
        fn new(rows: usize, width: usize) -> Self {
            let [x, residual] = packed(rows, width);
            Self {
                x,
                residual,
                add: randn(&[rows, width], 1.0),
                norm: Affine {
                    scale: randn(&[width], 1.0),
                    shift: randn(&[width], 1.0),
                },
            }
        }

        fn run(&self, norm: bool, add: bool) -> Result<Tensor> {
            let norm = norm.then_some(&self.norm);
            residual_affine(&self.residual, &self.x, norm, add.then_some(&self.add))
        }
    }

    #[test]
    fn every_option_and_width() {
        for norm in [false, true] {
            for add in [false, true] {
                let case = Case::new(21, 12);
                agrees(2e-6, || case.run(norm, add));
            }
        }
        for (rows, width) in [(0, 3), (130, 1), (33, 7), (5, 52), (3, 130)] {
            let case = Case::new(rows, width);
            agrees(2e-6, || case.run(true, true));
        }
        let case = Case::new(9, 12);
        agrees(2e-6, || case.norm.forward(&case.x));
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let case = Case::new(9, 12);
        let Affine { scale, shift } = &case.norm;
        let tensors = [&case.x, &case.residual, &case.add, scale, shift];
        agrees_in_half(&tensors, |t| {
            let norm = Affine {
                scale: t[3].clone(),
                shift: t[4].clone(),
            };
            residual_affine(&t[1], &t[0], Some(&norm), Some(&t[2]))
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let case = Case::new(9, 12);
        let expected = force_reference(|| case.run(true, true)).unwrap();
        let error = || Ok(difference(&case.run(true, true)?, &expected));
        assert_caught("row < rows", "row <= rows", error);
        assert_caught("column < width", "column <= width", error);
        let expected = force_reference(|| case.norm.forward(&case.x)).unwrap();
        assert_caught("LOAD(scale, column)", "1.0f", || {
            Ok(difference(&case.norm.forward(&case.x)?, &expected))
        });
        assert_caught("row * add_stride", "row * width", || {
            let mut case = Case::new(9, 12);
            case.add = packed(9, 12)[0].clone();
            let expected = force_reference(|| case.run(true, true))?;
            Ok(difference(&case.run(true, true)?, &expected))
        });
    }
}
