//! Reproducible test tensors.

use std::cell::Cell;

use candle_core::{Device, Tensor};

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0x9E37_79B9_7F4A_7C15) };
}

/// Uniform in (0, 1), the same sequence in every run of a test thread.
fn unit() -> f32 {
    let mut z = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(z);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32 + 1e-8
}

/// Normally distributed values with standard deviation `scale`.
pub(super) fn randn(shape: &[usize], scale: f32) -> Tensor {
    let normal = || (-2.0 * unit().ln()).sqrt() * (std::f32::consts::TAU * unit()).cos();
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| scale * normal())
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

/// Uniformly distributed values.
pub(super) fn uniform(shape: &[usize], low: f32, high: f32) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| low + (high - low) * unit())
        .collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}
