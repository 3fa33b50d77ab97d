//! The affine map on GPUs: candle's matrix product, then bias and activation in one pass.

use candle_core::{Result, Tensor};

use super::LinearWeights;
use crate::ops::Activation;
use crate::ops::kernels::columns::{THREADS, columns, groups_of_rows, kernel_of_columns};
use crate::ops::kernels::{Kernel, Launch, Value, zeros};

static EPILOGUE: Kernel = kernel_of_columns!("linear_epilogue");

pub(super) fn linear(
    x: &Tensor,
    weights: &LinearWeights,
    activation: Activation,
) -> Result<Tensor> {
    let product = product(x, weights.weight())?;
    match (weights.bias(), activation) {
        (None, Activation::Identity) => Ok(product),
        (bias, _) => epilogue(&product, bias, activation),
    }
}

/// `x·Wᵀ`, contiguous, for `weight` W `[out, width]`.
pub(in crate::ops) fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let (rows, width) = x.dims2()?;
    // Matrix products of devices may not take empty operands.
    if rows == 0 || width == 0 {
        return zeros((rows, weight.dim(0)?), x.dtype(), x.device());
    }
    x.contiguous()?.matmul(&weight.t()?)
}

/// `activation(product + bias)` for a contiguous product.
fn epilogue(product: &Tensor, bias: Option<&Tensor>, activation: Activation) -> Result<Tensor> {
    let (rows, width) = product.dims2()?;
    let bias = match bias {
        Some(bias) => Some(bias.contiguous()?),
        None => None,
    };
    let launch = Launch {
        kernel: &EPILOGUE,
        dtype: product.dtype(),
        constants: &[
            ("COLUMNS", columns(width)),
            ("ACTIVATION", activation.number()),
            ("WITH_BIAS", usize::from(bias.is_some())),
        ],
        outputs: &[(product.shape().clone(), product.dtype())],
        inputs: &[product, bias.as_ref().unwrap_or(product)],
        values: &[Value::count(rows)?, Value::count(width)?],
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
        agrees, agrees_in, agrees_in_half, assert_close, difference, packed, randn, uniform,
    };
    use crate::ops::{feed_forward, force_reference, linear};

    const ACTIVATIONS: [Activation; 12] = [
        Activation::Identity,
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Swish,
        Activation::Elu,
        Activation::Selu,
        Activation::LeakyRelu01,
        Activation::LeakyRelu02,
        Activation::LeakyRelu025,
        Activation::LeakyRelu03,
        Activation::LeakyRelu05,
    ];

    fn weights(out: usize, width: usize, bias: bool) -> LinearWeights {
        let bias = bias.then(|| randn(&[out], 1.0));
        LinearWeights::new(randn(&[out, width], 0.5), bias).unwrap()
    }

    #[test]
    fn every_activation_is_that_of_double_precision() {
        // Around 0, where series begin, and as far as exponentials go.
        let near = uniform(&[300, 1], -0.3, 0.3);
        let middle = uniform(&[600, 1], -6.0, 6.0);
        let far = uniform(&[100, 1], -200.0, 200.0);
        let extremes = Tensor::new(&[[0f32], [1e-9], [-1e-9], [-1e30], [1e9]], &Device::Cpu);
        let x = Tensor::cat(&[near, middle, far, extremes.unwrap()], 0).unwrap();
        let exact = x.to_dtype(DType::F64).unwrap();
        for activation in ACTIVATIONS {
            let found = on_kernels(|| epilogue(&x, None, activation)).unwrap();
            let exact = match activation {
                // candle's overflows in a tail that is 0.
                Activation::GeluTanh => {
                    let clamped = exact.clamp(-60.0, 1e9).unwrap();
                    activation.forward(&clamped).unwrap()
                }
                _ => activation.forward(&exact).unwrap(),
            };
            assert_close(&found, &exact.to_dtype(DType::F32).unwrap(), 1e-6);
        }
    }

    #[test]
    fn what_is_not_a_number_stays() {
        let x = Tensor::new(&[[f32::NAN], [f32::INFINITY]], &Device::Cpu).unwrap();
        for activation in ACTIVATIONS {
            let found = on_kernels(|| epilogue(&x, None, activation)).unwrap();
            let found = found.to_vec2::<f32>().unwrap();
            assert!(found[0][0].is_nan(), "{activation:?}");
            assert_eq!(found[1][0], f32::INFINITY, "{activation:?}");
        }
    }

    #[test]
    fn every_width_with_and_without_bias() {
        for (rows, width, out) in [(0, 3, 4), (1, 1, 1), (70, 13, 52), (41, 9, 7), (5, 12, 130)] {
            let x = randn(&[rows, width], 1.0);
            for bias in [false, true] {
                let weights = weights(out, width, bias);
                agrees(2e-6, || linear(&x, &weights, Activation::Relu));
            }
        }
        let [_, view] = packed(9, 12);
        let weights = weights(7, 12, true);
        agrees(2e-6, || linear(&view, &weights, Activation::Identity));
    }

    #[test]
    fn feed_forward_blocks_are_two_maps() {
        let maps = [weights(24, 12, true), weights(12, 24, true)];
        let x = randn(&[33, 12], 1.0);
        agrees(2e-6, || {
            feed_forward(&x, [&maps[0], &maps[1]], Activation::Gelu)
        });
    }

    #[test]
    fn half_precision_differs_by_rounding() {
        let (x, map, bias) = (
            randn(&[33, 12], 1.0),
            randn(&[7, 12], 0.3),
            randn(&[7], 1.0),
        );
        agrees_in(DType::F16, &[&x, &map, &bias], |t| {
            let weights = LinearWeights::new(t[1].clone(), Some(t[2].clone()))?;
            linear(&t[0], &weights, Activation::Gelu)
        });
        agrees_in_half(&[&x], |t| match t[0].dtype() {
            DType::F32 => Activation::Gelu.forward(&t[0]),
            _ => epilogue(&t[0], None, Activation::Gelu),
        });
    }

    #[test]
    fn broken_kernels_are_caught() {
        let (x, weights) = (randn(&[33, 12], 1.0), weights(7, 12, true));
        let run = || linear(&x, &weights, Activation::Relu);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("row < rows", "row <= rows", error);
        assert_caught("column < width", "column <= width", error);
        assert_caught("LOAD(bias, column)", "0.0f", error);
        let maps = [self::weights(24, 12, true), self::weights(12, 24, true)];
        let run = || feed_forward(&x, [&maps[0], &maps[1]], Activation::Relu);
        let expected = force_reference(run).unwrap();
        let error = || Ok(difference(&run()?, &expected));
        assert_caught("activate(sum)", "sum", error);
    }
}
