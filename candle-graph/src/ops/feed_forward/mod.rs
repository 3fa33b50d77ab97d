//! The feed-forward block of a transformer layer: two affine maps with an activation between.

mod cpu;

use candle_core::{Result, Tensor, bail};

use super::dispatch::fused_on_cpu;
use super::{Activation, LinearWeights, linear, work};

/// `activation(x·W₁ᵀ + b₁)·W₂ᵀ + b₂` for the maps `input` `[hidden, in]` and `output`
/// `[out, hidden]`: `x` is `[rows, in]`, the result `[rows, out]`. On the fused path the hidden values
/// stay in cache.
///
/// # Errors
/// Widths that do not fit each other.
pub fn feed_forward(
    x: &Tensor,
    [input, output]: [&LinearWeights; 2],
    activation: Activation,
) -> Result<Tensor> {
    let (_, width) = x.dims2()?;
    if width != input.in_dim() || input.out_dim() != output.in_dim() {
        bail!(
            "feed-forward block: input of width {width} for maps from {} to {} and from {} to {}",
            input.in_dim(),
            input.out_dim(),
            output.in_dim(),
            output.out_dim()
        );
    }
    let _work = work::record(|| work::feed_forward(x, [input, output], activation));
    let tensors = input.tensors().chain(output.tensors()).chain([x]);
    if fused_on_cpu(tensors) {
        cpu::feed_forward(x, [input, output], activation)
    } else {
        let hidden = linear(x, input, activation)?;
        linear(&hidden, output, Activation::Identity)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Var};

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{assert_close, randn};

    fn weights(out: usize, width: usize, bias: bool) -> LinearWeights {
        let weight = randn(&[out, width], 0.3);
        let bias = bias.then(|| randn(&[out], 1.0));
        LinearWeights::new(weight, bias).unwrap()
    }

    #[test]
    fn fused_equals_the_two_maps_whatever_the_rows_and_widths() {
        for (rows, [width, hidden, out]) in [
            (0, [3, 5, 2]),
            (1, [1, 1, 1]),
            (63, [96, 192, 96]),
            (150, [96, 192, 96]),
            (601, [13, 40, 7]),
            (1030, [64, 128, 64]),
        ] {
            let x = randn(&[rows, width], 1.0);
            for bias in [false, true] {
                let maps = [weights(hidden, width, bias), weights(out, hidden, bias)];
                let run = || feed_forward(&x, [&maps[0], &maps[1]], Activation::Gelu).unwrap();
                let fused = run();
                assert_eq!(fused.dims(), [rows, out]);
                assert_close(&fused, &force_reference(run), 2e-6);
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        let x = randn(&[777, 32], 1.0);
        let maps = [weights(64, 32, true), weights(32, 64, true)];
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool.build().unwrap();
            let made = pool.install(|| feed_forward(&x, [&maps[0], &maps[1]], Activation::Relu));
            made.unwrap().to_vec2::<f32>().unwrap()
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn gradients_reach_both_maps() {
        let of = |out, width| Var::from_tensor(&randn(&[out, width], 1.0)).unwrap();
        let (first, second) = (of(6, 4), of(3, 6));
        let map = |var: &Var| LinearWeights::new(var.as_tensor().clone(), None).unwrap();
        let x = randn(&[5, 4], 1.0);
        let out = feed_forward(&x, [&map(&first), &map(&second)], Activation::Swish).unwrap();
        let gradients = out.sqr().unwrap().sum_all().unwrap().backward().unwrap();
        for var in [&first, &second] {
            let gradient = gradients.get(var.as_tensor()).unwrap().abs().unwrap();
            assert!(gradient.min_all().unwrap().to_scalar::<f32>().unwrap() > 0.0);
        }
    }

    #[test]
    fn widths_that_do_not_fit_are_named() {
        let x = Tensor::zeros((2, 4), DType::F32, &Device::Cpu).unwrap();
        for [input, output] in [[(6, 5), (4, 6)], [(6, 4), (4, 7)]] {
            let maps = [input, output].map(|(out, width)| weights(out, width, true));
            let message = feed_forward(&x, [&maps[0], &maps[1]], Activation::Relu);
            let message = message.unwrap_err().to_string();
            assert!(
                message.contains("input of width 4 for maps from"),
                "{message}"
            );
        }
    }
}
