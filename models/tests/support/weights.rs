//! Random weights.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use super::Stream;

/// How random weights are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// Every tensor at random. Attention scores come near 0, where the slope of the signed root is
    /// infinite and rounding grows from 1e-7 to 1e-4: for comparisons in f64, or bit by bit.
    Any,
    /// Query and edge maps with a large bias and small factors, so that scores keep away from 0 and
    /// f32 results differ by a moderate multiple of the rounding error.
    FarFromZero,
}

impl Weights {
    /// Weights for any model that asks for tensors of known shape; the same name and `seed` give the
    /// same tensor. `head_dim` is the width of an attention head of GRIT.
    pub(crate) fn draw(self, seed: u64, head_dim: usize, dtype: DType) -> VarBuilder<'static> {
        let backend = RandomWeights {
            seed,
            weights: self,
            head_dim,
        };
        VarBuilder::from_backend(Box::new(backend), dtype, Device::Cpu)
    }
}

struct RandomWeights {
    seed: u64,
    weights: Weights,
    head_dim: usize,
}

impl SimpleBackend for RandomWeights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let hash = |h: u64, b: u8| h.wrapping_mul(31).wrapping_add(u64::from(b));
        let mut stream = Stream::new(name.bytes().fold(self.seed, hash));
        let far = self.weights == Weights::FarFromZero;
        let fan_in = (shape.dims().last().copied().unwrap_or(1) as f64).sqrt();
        let ends = |end: &str| name.ends_with(end);
        let (centre, spread) = match name {
            _ if ends("running_var") => (1.0, 0.5),
            _ if name.contains("norm") && ends("weight") => (1.0, 0.3),
            _ if name.contains("rezero") => (0.5, 0.5),
            // SAN divides by 1 + gamma.
            _ if ends("gamma") => (0.5, 0.5),
            _ if far && ends("attention.query.bias") => (4.0, 0.5),
            _ if far && (ends("attention.query.weight") || ends("attention.key.weight")) => {
                (0.0, 0.2 / fan_in)
            }
            _ if far && ends("attention.edge.weight") => (0.0, 0.2 / fan_in),
            _ if ends("bias") || ends("running_mean") => (0.0, 0.5),
            _ if ends("degree_scaler") => (0.0, 1.0),
            _ => (0.0, 1.5 / fan_in),
        };
        let of_row = |row: usize| match row % (2 * self.head_dim) < self.head_dim {
            true if row.is_multiple_of(3) => -3.0,
            true => 3.0,
            false => 0.0,
        };
        let factors = far && ends("attention.edge.bias");
        let values: Vec<f64> = (0..shape.elem_count())
            .map(|at| centre + spread * stream.signed() + if factors { of_row(at) } else { 0.0 })
            .collect();
        Tensor::from_vec(values, shape, device)?.to_dtype(dtype)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        candle_core::bail!("the shape of {name} must be known")
    }

    fn contains_tensor(&self, _: &str) -> bool {
        true
    }
}
