//! Weights of a model that nobody has trained.

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

/// Weights for any model, drawn anew for every tensor from its name and `seed`: uniform on
/// ±1/√(last dimension), as PyTorch's `Linear` starts; norms change nothing. For measuring speed and
/// for trying a configuration out; embeddings from them mean little.
///
/// ```
/// use candle_core::{DType, Device};
/// use candle_graph_models::{Predictor, untrained};
/// use candle_graph_models::wire_benchmarks::WireBenchmark;
/// let config = "peptides-func/performer".parse::<WireBenchmark>().unwrap().config();
/// let model = config.build(untrained(1, DType::F32, &Device::Cpu))?;
/// let predictor = Predictor::new(model, Device::Cpu);
/// # Ok::<(), candle_graph::Error>(())
/// ```
pub fn untrained(seed: u64, dtype: DType, device: &Device) -> VarBuilder<'static> {
    VarBuilder::from_backend(Box::new(Untrained { seed }), dtype, device.clone())
}

struct Untrained {
    seed: u64,
}

impl SimpleBackend for Untrained {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let (rest, last) = name.rsplit_once('.').unwrap_or(("", name));
        match last {
            "running_mean" => return Tensor::zeros(shape, dtype, device),
            "running_var" => return Tensor::ones(shape, dtype, device),
            "weight" if rest.contains("norm") => return Tensor::ones(shape, dtype, device),
            "bias" if rest.contains("norm") => return Tensor::zeros(shape, dtype, device),
            _ => {}
        }
        let scale = 1.0 / (shape.dims().last().copied().unwrap_or(1).max(1) as f32).sqrt();
        let hash = |h: u64, b: u8| h.wrapping_mul(0x0100_0000_01B3) ^ u64::from(b);
        let mut state = name.bytes().fold(self.seed ^ 0xCBF2_9CE4_8422_2325, hash);
        let values: Vec<f32> = (0..shape.elem_count())
            .map(|_| scale * uniform(&mut state))
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

/// From −1 to 1 (SplitMix64).
fn uniform(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, name: &str) -> Vec<f32> {
        let vb = untrained(seed, DType::F32, &Device::Cpu);
        vb.get((16, 4), name)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap()
    }

    #[test]
    fn weights_follow_from_seed_and_name() {
        assert_eq!(drawn(1, "a.weight"), drawn(1, "a.weight"));
        assert_ne!(drawn(1, "a.weight"), drawn(2, "a.weight"));
        assert_ne!(drawn(1, "a.weight"), drawn(1, "b.weight"));
        let values = drawn(1, "a.weight");
        assert!(values.iter().all(|v| v.abs() <= 0.5));
        assert!(values.iter().any(|v| *v > 0.2) && values.iter().any(|v| *v < -0.2));
    }

    #[test]
    fn norms_change_nothing() {
        assert_eq!(drawn(1, "layers.0.norm_local.weight"), [1.0; 64]);
        assert_eq!(drawn(1, "layers.0.norm_local.running_var"), [1.0; 64]);
        assert_eq!(drawn(1, "layers.0.norm_local.bias"), [0.0; 64]);
        assert_eq!(drawn(1, "layers.0.norm_local.running_mean"), [0.0; 64]);
    }
}
