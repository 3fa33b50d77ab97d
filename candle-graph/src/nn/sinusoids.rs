//! Sinusoidal encodings of numbers.

use candle_core::{DType, Device, Result, Tensor};

/// Sines and cosines of numbers at a geometric series of frequencies ("Attention is all you need",
/// section 3.5), all sines before all cosines.
#[derive(Debug, Clone)]
pub struct Sinusoids {
    frequencies: Tensor,
    dtype: DType,
}

impl Sinusoids {
    /// `width` values a number: frequency `m` is `timescale^(−2m / width)`. An odd width gives one
    /// value more, as in the official code of the directed graph models.
    ///
    /// # Errors
    /// The device refused the memory.
    pub fn new(width: usize, timescale: f64, dtype: DType, device: &Device) -> Result<Self> {
        let frequencies: Vec<f32> = (0..width)
            .step_by(2)
            .map(|twice| timescale.powf(-(twice as f64) / width as f64) as f32)
            .collect();
        let count = frequencies.len();
        Ok(Self {
            // Whole numbers above 256 have no place in bf16: angles are computed in f32 at least.
            frequencies: Tensor::from_vec(frequencies, (1, count), device)?.to_dtype(
                match dtype {
                    DType::F64 => DType::F64,
                    _ => DType::F32,
                },
            )?,
            dtype,
        })
    }

    /// Encodes `numbers` `[rows]`: `[rows, width]`.
    ///
    /// # Errors
    /// A tensor operation failed.
    pub fn forward(&self, numbers: &Tensor) -> Result<Tensor> {
        let numbers = numbers.to_dtype(self.frequencies.dtype())?.unsqueeze(1)?;
        let angles = numbers.broadcast_mul(&self.frequencies)?;
        Tensor::cat(&[angles.sin()?, angles.cos()?], 1)?.to_dtype(self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_stand_before_cosines_and_the_first_frequency_is_one() {
        let sinusoids = Sinusoids::new(4, 100.0, DType::F32, &Device::Cpu).unwrap();
        let numbers = Tensor::new(&[0f32, 2.0], &Device::Cpu).unwrap();
        let found = sinusoids.forward(&numbers).unwrap();
        let found = found.to_vec2::<f32>().unwrap();
        assert_eq!(found[0], [0.0, 0.0, 1.0, 1.0]);
        let expected = [2f32.sin(), 0.2f32.sin(), 2f32.cos(), 0.2f32.cos()];
        for (found, expected) in found[1].iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
