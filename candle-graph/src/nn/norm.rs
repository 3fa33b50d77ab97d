//! Loading of normalisation layers.

use candle_core::{DType, Result};
use candle_nn::VarBuilder;

use crate::ops::{Affine, LayerNorm};

/// The eps of PyTorch's norms.
pub(super) const NORM_EPS: f64 = 1e-5;

/// Batch normalisation in evaluation mode, with its running statistics (`running_mean`,
/// `running_var`, `weight`, `bias`, each `[width]`) folded into one affine map. The fold is done in
/// double precision.
pub fn batch_norm(width: usize, eps: f64, vb: VarBuilder<'_>) -> Result<Affine> {
    let exact = exact_batch_norm(width, eps, &vb)?;
    Ok(Affine {
        scale: exact.scale.to_dtype(vb.dtype())?,
        shift: exact.shift.to_dtype(vb.dtype())?,
    })
}

/// [`batch_norm`] in double precision, to be folded further.
pub(super) fn exact_batch_norm(width: usize, eps: f64, vb: &VarBuilder<'_>) -> Result<Affine> {
    let get = |name| vb.get(width, name)?.to_dtype(DType::F64);
    let scale = (get("weight")? / (get("running_var")? + eps)?.sqrt()?)?;
    let shift = (get("bias")? - (get("running_mean")? * &scale)?)?;
    Ok(Affine { scale, shift })
}

/// Layer normalisation over the columns: `weight` and `bias`, each `[width]`.
pub fn layer_norm(width: usize, eps: f64, vb: VarBuilder<'_>) -> Result<LayerNorm> {
    Ok(LayerNorm {
        weight: vb.get(width, "weight")?,
        bias: vb.get(width, "bias")?,
        eps,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use candle_core::{Device, Tensor};

    use super::*;

    #[test]
    fn folded_batch_norm_is_the_textbook_formula() {
        let device = Device::Cpu;
        let tensor = |v: &[f32]| Tensor::new(v, &device).unwrap();
        let map = HashMap::from([
            ("weight".to_string(), tensor(&[2.0, -1.0])),
            ("bias".to_string(), tensor(&[0.5, 3.0])),
            ("running_mean".to_string(), tensor(&[10.0, -4.0])),
            ("running_var".to_string(), tensor(&[4.0, 0.25])),
        ]);
        let vb = VarBuilder::from_tensors(map, DType::F32, &device);
        let norm = batch_norm(2, 1e-5, vb).unwrap();
        let x = Tensor::new(&[[12f32, -3.0]], &device).unwrap();
        let y = norm.forward(&x).unwrap().to_vec2::<f32>().unwrap();
        let expected = [
            2.0 * 2.0 / (4.0f64 + 1e-5).sqrt() + 0.5,
            -1.0 / (0.25f64 + 1e-5).sqrt() + 3.0,
        ];
        for (a, b) in y[0].iter().zip(expected) {
            assert!((f64::from(*a) - b).abs() < 1e-5);
        }
    }

    #[test]
    fn layer_norm_survives_a_large_mean() {
        let device = Device::Cpu;
        let norm = LayerNorm {
            weight: Tensor::ones(4, DType::F32, &device).unwrap(),
            bias: Tensor::zeros(4, DType::F32, &device).unwrap(),
            eps: 1e-5,
        };
        let x = Tensor::new(&[[4096f32, 4097.0, 4098.0, 4099.0]], &device).unwrap();
        let y = norm.forward(&x).unwrap().to_vec2::<f32>().unwrap();
        let expected = [-1.341_636, -0.447_212, 0.447_212, 1.341_636];
        for (a, b) in y[0].iter().zip(expected) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
}
