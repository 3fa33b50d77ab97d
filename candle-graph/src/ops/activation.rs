//! Pointwise activation functions.

use candle_core::{Result, Tensor};
use serde::{Deserialize, Serialize};

use super::{simd, work};

/// An activation function, by the names that GraphGym's configurations use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activation {
    /// x.
    Identity,
    /// max(x, 0).
    #[default]
    Relu,
    /// x·Φ(x) with the exact normal distribution function, not the tanh approximation.
    Gelu,
    /// The approximation of [`Gelu`](Self::Gelu) by `x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2`, which
    /// is what jax calls `gelu`.
    GeluTanh,
    /// x·sigmoid(x), also known as SiLU.
    Swish,
    /// x for x > 0, otherwise eˣ − 1.
    Elu,
    /// The self-normalising scaled ELU.
    Selu,
    /// Leaky ReLU with slope 0.1.
    #[serde(rename = "lrelu_01")]
    LeakyRelu01,
    /// Leaky ReLU with slope 0.2.
    #[serde(rename = "lrelu_02")]
    LeakyRelu02,
    /// Leaky ReLU with slope 0.25.
    #[serde(rename = "lrelu_025")]
    LeakyRelu025,
    /// Leaky ReLU with slope 0.3.
    #[serde(rename = "lrelu_03")]
    LeakyRelu03,
    /// Leaky ReLU with slope 0.5.
    #[serde(rename = "lrelu_05")]
    LeakyRelu05,
}

/// 2·√(2/π).
const GELU_TANH_SCALE: f32 = 1.595_769;
const GELU_TANH_CUBE: f32 = 0.044_715;
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

impl Activation {
    /// Applies the function to every element.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        let _work = work::record(|| work::activation(x, self));
        match self {
            Self::Identity => Ok(x.clone()),
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu_erf(),
            Self::GeluTanh => x.gelu(),
            Self::Swish => x.silu(),
            Self::Elu => x.elu(1.0),
            Self::Selu => x.elu(SELU_ALPHA)? * SELU_SCALE,
            Self::LeakyRelu01 => candle_nn::ops::leaky_relu(x, 0.1),
            Self::LeakyRelu02 => candle_nn::ops::leaky_relu(x, 0.2),
            Self::LeakyRelu025 => candle_nn::ops::leaky_relu(x, 0.25),
            Self::LeakyRelu03 => candle_nn::ops::leaky_relu(x, 0.3),
            Self::LeakyRelu05 => candle_nn::ops::leaky_relu(x, 0.5),
        }
    }

    /// The number that the kernels of GPUs know it by (`kernels/activation.h`).
    pub(super) fn number(self) -> usize {
        match self {
            Self::Identity => 0,
            Self::Relu => 1,
            Self::Gelu => 2,
            Self::GeluTanh => 3,
            Self::Swish => 4,
            Self::Elu => 5,
            Self::Selu => 6,
            Self::LeakyRelu01 => 7,
            Self::LeakyRelu02 => 8,
            Self::LeakyRelu025 => 9,
            Self::LeakyRelu03 => 10,
            Self::LeakyRelu05 => 11,
        }
    }

    /// Applies the function to a slice in place. The cheap functions compile to vector code inside
    /// a SIMD dispatch.
    #[inline(always)]
    pub(super) fn apply(self, values: &mut [f32]) {
        #[inline(always)]
        fn each(values: &mut [f32], f: impl Fn(f32) -> f32) {
            for v in values {
                *v = f(*v);
            }
        }
        let leaky = |slope: f32| move |x: f32| if x > 0.0 { x } else { slope * x };
        match self {
            Self::Identity => {}
            Self::Relu => each(values, |x| x.max(0.0)),
            Self::Gelu => each(values, |x| {
                x * 0.5
                    * (1.0 + candle_core::cpu::erf::erf_f32(x * std::f32::consts::FRAC_1_SQRT_2))
            }),
            // (1 + tanh u)/2 is the logistic function of 2u.
            Self::GeluTanh => each(values, |x| {
                x / (1.0 + simd::exp(-GELU_TANH_SCALE * (x + GELU_TANH_CUBE * x * x * x)))
            }),
            Self::Swish => each(values, |x| x / (1.0 + (-x).exp())),
            Self::Elu => each(values, |x| if x > 0.0 { x } else { x.exp_m1() }),
            Self::Selu => each(values, |x| {
                SELU_SCALE as f32
                    * if x > 0.0 {
                        x
                    } else {
                        SELU_ALPHA as f32 * x.exp_m1()
                    }
            }),
            Self::LeakyRelu01 => each(values, leaky(0.1)),
            Self::LeakyRelu02 => each(values, leaky(0.2)),
            Self::LeakyRelu025 => each(values, leaky(0.25)),
            Self::LeakyRelu03 => each(values, leaky(0.3)),
            Self::LeakyRelu05 => each(values, leaky(0.5)),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn the_tanh_approximation_is_close_to_the_reference_everywhere() {
        let values: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.005).collect();
        let exact = Tensor::new(values.as_slice(), &Device::Cpu).unwrap();
        let exact = exact.to_dtype(candle_core::DType::F64).unwrap();
        let exact = Activation::GeluTanh.forward(&exact).unwrap();
        let mut found = values.clone();
        Activation::GeluTanh.apply(&mut found);
        for ((x, found), exact) in values
            .iter()
            .zip(found)
            .zip(exact.to_vec1::<f64>().unwrap())
        {
            let error = (f64::from(found) - exact).abs();
            assert!(error <= 2e-6 * exact.abs().max(0.1), "{x}: {found} {exact}");
        }
        let mut extremes = [1e30f32, -1e30, f32::INFINITY, f32::NAN];
        Activation::GeluTanh.apply(&mut extremes);
        assert_eq!(&extremes[..3], [1e30, 0.0, f32::INFINITY]);
        assert!(extremes[3].is_nan());
    }
}
