//! Loading of affine maps.

use candle_core::{DType, Result, Tensor};
use candle_nn::VarBuilder;

use crate::ops::{Affine, LinearWeights};

/// `weight` `[out, in]` and `bias` `[out]`.
pub fn linear(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<LinearWeights> {
    let weight = vb.get((out_dim, in_dim), "weight")?;
    LinearWeights::new(weight, Some(vb.get(out_dim, "bias")?))
}

/// `weight` `[out, in]` alone.
pub fn linear_no_bias(in_dim: usize, out_dim: usize, vb: VarBuilder<'_>) -> Result<LinearWeights> {
    LinearWeights::new(vb.get((out_dim, in_dim), "weight")?, None)
}

/// An affine map in double precision, into which the normalisations around it are folded.
pub(super) struct ExactLinear {
    weight: Tensor,
    bias: Tensor,
    dtype: DType,
}

impl ExactLinear {
    /// Loads `weight` `[out, in]` and `bias` `[out]`.
    pub(super) fn new(in_dim: usize, out_dim: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        Ok(Self {
            weight: vb.get((out_dim, in_dim), "weight")?.to_dtype(DType::F64)?,
            bias: vb.get(out_dim, "bias")?.to_dtype(DType::F64)?,
            dtype: vb.dtype(),
        })
    }

    /// `x ↦ W·norm(x) + b`; `norm` is in double precision.
    pub(super) fn after(self, norm: &Affine) -> Result<Self> {
        let shift = self.weight.matmul(&norm.shift.unsqueeze(1)?)?.squeeze(1)?;
        Ok(Self {
            weight: self.weight.broadcast_mul(&norm.scale)?,
            bias: (self.bias + shift)?,
            dtype: self.dtype,
        })
    }

    /// `x ↦ norm(W·x + b)`; `norm` is in double precision.
    pub(super) fn before(self, norm: &Affine) -> Result<Self> {
        Ok(Self {
            weight: self.weight.broadcast_mul(&norm.scale.unsqueeze(1)?)?,
            bias: ((self.bias * &norm.scale)? + &norm.shift)?,
            dtype: self.dtype,
        })
    }

    /// The map in the number type of the model.
    pub(super) fn finish(self) -> Result<LinearWeights> {
        let weight = self.weight.to_dtype(self.dtype)?;
        LinearWeights::new(weight, Some(self.bias.to_dtype(self.dtype)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::Device;

    use super::*;
    use crate::ops::{Activation, linear as apply};

    #[test]
    fn a_folded_norm_is_the_norm() {
        let tensor = |v: &[f64]| Tensor::new(v, &Device::Cpu).unwrap();
        let weight = Tensor::new(&[[1f32, -2.0], [0.5, 3.0], [4.0, 0.0]], &Device::Cpu).unwrap();
        let bias = Tensor::new(&[1f32, -1.0, 0.25], &Device::Cpu).unwrap();
        let map = HashMap::from([("weight".to_string(), weight), ("bias".to_string(), bias)]);
        let vb = VarBuilder::from_tensors(map, DType::F32, &Device::Cpu);
        let before = Affine {
            scale: tensor(&[2.0, -1.0]),
            shift: tensor(&[0.5, 3.0]),
        };
        let after = Affine {
            scale: tensor(&[1.0, 10.0, 0.5]),
            shift: tensor(&[7.0, 0.0, -1.0]),
        };
        let map = ExactLinear::new(2, 3, &vb).unwrap().after(&before).unwrap();
        let map = map.before(&after).unwrap().finish().unwrap();
        let x = Tensor::new(&[[1f32, 4.0]], &Device::Cpu).unwrap();
        let found = apply(&x, &map, Activation::Identity).unwrap();
        // The first norm gives (2.5, −1), the map (5.5, −2.75, 10.25).
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[12.5f32, -27.5, 4.125]]);
    }
}
