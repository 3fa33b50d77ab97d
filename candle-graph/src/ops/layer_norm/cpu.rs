//! The fused kernel of LayerNorm and of the residual sum before it: one pass over memory.

use candle_core::{Device, Result, Tensor};

use crate::ops::LayerNorm;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::row_blocks::{RowTasks, for_row_blocks};
use crate::ops::strided_rows::strided_rows;

const TASKS: RowTasks = RowTasks {
    values: 1 << 13,
    threads_from: 1 << 16,
};

/// Partial sums of a row, side by side in vector registers.
const LANES: usize = 16;

/// The norm of `x + residual`; the shapes have been checked.
pub(in crate::ops) fn forward(
    norm: &LayerNorm,
    x: &Tensor,
    residual: Option<&Tensor>,
) -> Result<Tensor> {
    let (count, width) = x.dims2()?;
    let x = strided_rows(x)?;
    let x = HostRows::new(&x)?;
    let residual = residual.map(strided_rows).transpose()?;
    let residual = residual.as_ref().map(HostRows::new).transpose()?;
    let (weight, bias) = (norm.weight.contiguous()?, norm.bias.contiguous()?);
    let (weight, bias) = (HostF32::new(&weight)?, HostF32::new(&bias)?);
    let eps = norm.eps as f32;
    let mut out = vec![0.0f32; count * width];
    for_row_blocks(
        &mut out,
        width,
        TASKS,
        #[inline(always)]
        |first, out| {
            for (at, out) in (first..).zip(out.chunks_exact_mut(width)) {
                out.copy_from_slice(&x[at * x.stride()..][..width]);
                if let Some(residual) = &residual {
                    let row = &residual[at * residual.stride()..][..width];
                    for (o, r) in out.iter_mut().zip(row) {
                        *o += r;
                    }
                }
                normalise(out, &weight, &bias, eps);
            }
        },
    );
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// Normalises one row in place.
#[inline(always)]
fn normalise(row: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    let width = row.len() as f32;
    let mean = sum(row, |x| x) / width;
    for x in row.iter_mut() {
        *x -= mean;
    }
    let variance = sum(row, |x| x * x) / width;
    let factor = 1.0 / (variance + eps).sqrt();
    for ((x, w), b) in row.iter_mut().zip(weight).zip(bias) {
        *x = *x * factor * w + b;
    }
}

/// The sum of `f` over a row.
#[inline(always)]
fn sum(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (groups, rest) = row.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            lanes[lane] += f(group[lane]);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{assert_close, randn};

    fn norm(width: usize) -> LayerNorm {
        LayerNorm {
            weight: randn(&[width], 1.0),
            bias: randn(&[width], 1.0),
            eps: 1e-5,
        }
    }

    #[test]
    fn fused_and_reference_are_close_to_double_precision() {
        let exact = |t: &Tensor| t.to_dtype(DType::F64).unwrap();
        for (rows, width) in [
            (0, 4),
            (1, 1),
            (3, 5),
            (7, 16),
            (65, 64),
            (300, 256),
            (9, 1030),
        ] {
            let norm = norm(width);
            let exact_norm = LayerNorm {
                weight: exact(&norm.weight),
                bias: exact(&norm.bias),
                eps: norm.eps,
            };
            // A variance that is not taken around a mean of 300 is off by a percent; rounding that
            // mean alone costs 1e-4.
            for (mean, tolerance) in [(0.0, 5e-6), (300.0, 5e-4)] {
                let x = (randn(&[rows, width], 1.0) + mean).unwrap();
                let residual = randn(&[rows, width], 2.0);
                let sum = (&residual + &x).unwrap();
                let expected = [&x, &sum].map(|x| exact_norm.forward(&exact(x)).unwrap());
                let run = || {
                    let alone = norm.forward(&x).unwrap();
                    [alone, norm.forward_sum(&residual, &x).unwrap()]
                };
                let mut found = run().to_vec();
                if mean == 0.0 {
                    found.extend(force_reference(run));
                }
                for (found, expected) in found.iter().zip(expected.iter().cycle()) {
                    let expected = expected.to_dtype(DType::F32).unwrap();
                    assert_close(found, &expected, tolerance);
                }
            }
        }
    }

    #[test]
    fn columns_of_a_wider_matrix_are_read_in_place() {
        let norm = norm(6);
        let wide = randn(&[5, 20], 1.0);
        let part = wide.narrow(1, 3, 6).unwrap();
        let found = norm.forward(&part).unwrap();
        assert_close(
            &found,
            &norm.forward(&part.contiguous().unwrap()).unwrap(),
            0.0,
        );
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let norm = norm(4);
        let x = randn(&[3, 4], 1.0);
        let error = norm.forward_sum(&randn(&[2, 4], 1.0), &x).unwrap_err();
        assert!(error.to_string().contains("[2, 4]"), "{error}");
        assert!(norm.forward(&randn(&[3, 5], 1.0)).is_err());
        let double = x.to_dtype(DType::F64).unwrap();
        assert!(norm.forward(&double).is_err());
    }
}
