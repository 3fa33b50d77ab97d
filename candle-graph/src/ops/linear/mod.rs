//! Affine map with activation, `act(x·Wᵀ + b)`.

mod cpu;
mod gpu;
mod reference;

use std::sync::{Arc, OnceLock};

use candle_core::{Result, Tensor, bail};

use super::Activation;
use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::matmul::Rhs;
use super::work;

pub(super) use cpu::{even_blocks, map_blocks};
pub(super) use gpu::product;

/// Weight `[out, in]` and optional bias `[out]` of an affine map, with the form that the CPU kernel
/// wants made once. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct LinearWeights {
    weight: Tensor,
    bias: Option<Tensor>,
    prepared: Arc<OnceLock<Prepared>>,
}

/// The CPU kernel's form: Wᵀ row-major and the bias.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) rhs: Rhs,
    pub(super) bias: Option<Vec<f32>>,
}

impl LinearWeights {
    /// From `weight` `[out, in]` and `bias` `[out]`.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn new(weight: Tensor, bias: Option<Tensor>) -> Result<Self> {
        let (out, _) = weight.dims2()?;
        if let Some(bias) = &bias
            && bias.dims() != [out]
        {
            bail!("bias of shape {:?} for {out} outputs", bias.dims());
        }
        Ok(Self {
            weight,
            bias,
            prepared: Arc::default(),
        })
    }

    /// The weight, `[out, in]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The bias, `[out]`.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// Number of inputs.
    pub fn in_dim(&self) -> usize {
        self.weight.dims().get(1).copied().unwrap_or(0)
    }

    /// Number of outputs.
    pub fn out_dim(&self) -> usize {
        self.weight.dims().first().copied().unwrap_or(0)
    }

    /// All tensors, for the dispatch.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> + Clone {
        std::iter::once(&self.weight).chain(&self.bias)
    }

    pub(super) fn prepared(&self) -> Result<&Prepared> {
        if let Some(prepared) = self.prepared.get() {
            return Ok(prepared);
        }
        let weight = self.weight.flatten_all()?.to_vec1::<f32>()?;
        let bias = match &self.bias {
            Some(bias) => Some(bias.to_vec1::<f32>()?),
            None => None,
        };
        let made = Prepared {
            rhs: Rhs::from_weight(self.out_dim(), self.in_dim(), &weight),
            bias,
        };
        Ok(self.prepared.get_or_init(|| made))
    }
}

/// `activation(x·Wᵀ + b)`: `x` is `[rows, in]`, the result `[rows, out]`.
///
/// # Errors
/// `x` does not have the width of the weights.
pub fn linear(x: &Tensor, weights: &LinearWeights, activation: Activation) -> Result<Tensor> {
    let (_, width) = x.dims2()?;
    if width != weights.in_dim() {
        bail!(
            "input of width {width} for a linear map of {}",
            weights.in_dim()
        );
    }
    let _work = work::record(|| work::linear(x, weights, activation));
    if fused_on_cpu(weights.tensors().chain([x])) {
        cpu::linear(x, weights, activation)
    } else if fused_on_gpu(weights.tensors().chain([x])) {
        gpu::linear(x, weights, activation)
    } else {
        reference::linear(x, weights, activation)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::randn;

    fn weights(out: usize, width: usize, bias: bool) -> LinearWeights {
        let weight = randn(&[out, width], 1.0);
        let bias = bias.then(|| randn(&[out], 1.0));
        LinearWeights::new(weight, bias).unwrap()
    }

    #[test]
    fn fused_equals_reference_for_all_activations_and_odd_sizes() {
        for (rows, width, out) in [(0, 3, 4), (1, 1, 1), (700, 13, 52), (1025, 64, 7)] {
            let x = randn(&[rows, width], 1.0);
            for activation in [
                Activation::Identity,
                Activation::Relu,
                Activation::Gelu,
                Activation::Swish,
                Activation::Elu,
                Activation::Selu,
                Activation::LeakyRelu01,
                Activation::LeakyRelu02,
                Activation::LeakyRelu025,
                Activation::LeakyRelu03,
                Activation::LeakyRelu05,
            ] {
                let w = weights(out, width, rows != 1);
                let fused = linear(&x, &w, activation).unwrap();
                let reference = force_reference(|| linear(&x, &w, activation)).unwrap();
                assert_eq!(fused.dims(), [rows, out]);
                let pairs = fused.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                let expected = reference.flatten_all().unwrap().to_vec1::<f32>().unwrap();
                for (a, b) in pairs.iter().zip(&expected) {
                    assert!(
                        (a - b).abs() <= 1e-5 * b.abs().max(1.0),
                        "{activation:?}: {a} {b}"
                    );
                }
            }
        }
    }

    #[test]
    fn gradients_flow_through_trainable_weights() {
        let weight = Var::ones((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        let w = LinearWeights::new(weight.as_tensor().clone(), None).unwrap();
        let x = Tensor::ones((4, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        let loss = linear(&x, &w, Activation::Relu).unwrap().sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(weight.as_tensor()).unwrap();
        assert_eq!(gradient.to_vec2::<f32>().unwrap(), [[4.0; 3]; 2]);
    }

    #[test]
    fn a_wrong_width_is_an_error() {
        let x = Tensor::zeros((2, 4), candle_core::DType::F32, &Device::Cpu).unwrap();
        assert!(linear(&x, &weights(2, 3, true), Activation::Relu).is_err());
    }
}
