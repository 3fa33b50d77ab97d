//! LayerNorm by a kernel of GPUs.

use candle_core::{Result, Tensor};

use crate::ops::LayerNorm;
use crate::ops::kernels::{Kernel, Launch, Value, WARP, row_stride, rows_or, strided_rows};

static LAYER_NORM: Kernel = Kernel {
    name: "layer_norm",
    source: include_str!("kernels.c"),
};

const THREADS: usize = 128;

/// The norm of `x + residual`; the shapes have been checked.
pub(in crate::ops) fn forward(
    norm: &LayerNorm,
    x: &Tensor,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    let (shape, dtype) = (x.shape().clone(), x.dtype());
    let x = strided_rows(x)?;
    let constants = [
        ("PER_THREAD", width.div_ceil(WARP)),
        ("WITH_RESIDUAL", usize::from(residual.is_some())),
    ];
    let residual = rows_or(residual, &x)?;
    let launch = Launch {
        kernel: &LAYER_NORM,
        dtype,
        constants: &constants,
        outputs: &[(shape, dtype)],
        inputs: &[
            &x,
            &residual,
            &norm.weight.contiguous()?,
            &norm.bias.contiguous()?,
        ],
        values: &[
            Value::count(rows)?,
            Value::count(width)?,
            Value::count(row_stride(&x))?,
            Value::count(row_stride(&residual))?,
            Value::F32(norm.eps as f32),
        ],
        groups: [rows.div_ceil(THREADS / WARP), width.min(1)],
        threads: THREADS,
    };
    launch.run_for_one()
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::kernels::host::{assert_caught, on_kernels};
    use crate::ops::test_data::{agrees, agrees_in_half, assert_close, difference, packed, randn};

    fn norm(width: usize) -> LayerNorm {
        LayerNorm {
            weight: randn(&[width], 1.0),
            bias: randn(&[width], 1.0),
            eps: 1e-5,
        }
    }

    #[test]
    fn every_width_with_and_without_residual() {
        for (rows, width) in [(0, 4), (1, 1), (9, 7), (33, 64), (5, 130), (2, 1030)] {
            let (norm, [x, residual]) = (norm(width), packed(rows, width));
            agrees(4e-6, || norm.forward(&x));
            agrees(4e-6, || norm.forward_sum(&residual, &x));
        }
    }

    #[test]
    fn the_variance_is_taken_around_the_mean() {
        // A variance from mean squares is off by a percent; rounding the mean alone costs 1e-4.
        let (norm, x) = (norm(64), (randn(&[7, 64], 1.0) + 300.0).unwrap());
        let exact = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
        let exact_norm = LayerNorm {
            weight: exact(&norm.weight),
            bias: exact(&norm.bias),
            eps: norm.eps,
        };
        let expected = exact_norm.forward(&exact(&x)).unwrap();
        let found = on_kernels(|| norm.forward(&x)).unwrap();
        assert_close(&found, &expected.to_dtype(DType::F32).unwrap(), 5e-4);
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let (made, [x, residual]) = (norm(12), packed(9, 12));
        agrees_in_half(&[&made.weight, &made.bias, &x, &residual], |t| {
            let norm = LayerNorm {
                weight: t[0].clone(),
                bias: t[1].clone(),
                eps: 1e-5,
            };
            norm.forward_sum(&t[3], &t[2])
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let (norm, [x, residual]) = (norm(40), packed(9, 40));
        let run = || norm.forward_sum(&residual, &x);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("row < rows", "row <= rows", error);
        assert_caught("row < rows && column < width", "row < rows", error);
        assert_caught("if (i * WARP + THREAD % WARP < width)", "", error);
        assert_caught("WARP_SUM(squares)", "", error);
        assert_caught("WARP_SUM(sum)", "", error);
        assert_caught("+ eps", "+ 0.1f", error);
    }
}
