//! What the machine reaches at best, measured in the same run.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use serde::Serialize;

use super::target::Target;

/// Rows and columns of the matrices whose product is timed on the CPU: the measure that this
/// project's targets are given in.
const CPU_PRODUCT: usize = 1024;
/// The same on other devices, which a smaller product does not fill.
const DEVICE_PRODUCT: usize = 4096;
/// Values of the array that is copied: 256 MiB, far beyond any cache.
const COPIED_VALUES: usize = 64 << 20;
/// Least number of measurements, and least time, of which the best counts.
const MEASUREMENTS: usize = 5;
const LEAST_TIME: Duration = Duration::from_millis(400);

/// The two roofs.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Peaks {
    pub(super) device: String,
    /// Threads of the CPU.
    pub(super) threads: usize,
    /// Of the matrix product.
    pub(super) dtype: &'static str,
    /// Rows and columns of both factors of the product.
    pub(super) product_size: usize,
    /// Of the matrix product.
    pub(super) gflop_per_second: f64,
    /// Of the copy.
    pub(super) copied_bytes: u64,
    /// Of the copy, bytes read and bytes written.
    pub(super) gigabytes_per_second: f64,
}

impl Peaks {
    /// Measures both on all threads of the CPU, or on the device.
    ///
    /// # Errors
    /// The device refuses.
    pub(super) fn measure(target: &Target) -> Result<Self> {
        let size = match target.device.is_cpu() {
            true => CPU_PRODUCT,
            false => DEVICE_PRODUCT,
        };
        let flops = 2.0 * (size as f64).powi(3);
        let copied = (COPIED_VALUES * DType::F32.size_in_bytes()) as u64;
        let product = product_seconds(target, size).context("measuring a matrix product")?;
        let copy = match target.device.is_cpu() {
            true => cpu_copy_seconds()?,
            false => device_copy_seconds(&target.device).context("measuring a copy")?,
        };
        Ok(Self {
            device: target.device_name.clone(),
            threads: rayon::current_num_threads(),
            dtype: target.dtype_name(),
            product_size: size,
            gflop_per_second: flops / product / 1e9,
            copied_bytes: copied,
            gigabytes_per_second: 2.0 * copied as f64 / copy / 1e9,
        })
    }
}

/// The shortest time of `step`.
fn best_seconds(mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    step()?;
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut measured = 0;
    while measured < MEASUREMENTS || begin.elapsed() < LEAST_TIME {
        let start = Instant::now();
        step()?;
        best = best.min(start.elapsed().as_secs_f64());
        measured += 1;
    }
    Ok(best)
}

fn product_seconds(target: &Target, size: usize) -> Result<f64> {
    let matrix = Tensor::rand(-1f32, 1f32, (size, size), &target.device)?;
    let matrix = matrix.to_dtype(target.dtype)?;
    best_seconds(|| {
        black_box(matrix.matmul(&matrix)?);
        Ok(target.device.synchronize()?)
    })
}

/// Every thread copies one long piece, as the systems' copying routine does best.
fn cpu_copy_seconds() -> Result<f64> {
    let from = vec![1.0f32; COPIED_VALUES];
    // Written once, so that the system has given out its pages.
    let mut to = vec![2.0f32; COPIED_VALUES];
    let piece = COPIED_VALUES.div_ceil(rayon::current_num_threads().max(1));
    best_seconds(|| {
        (to.par_chunks_mut(piece))
            .zip(from.par_chunks(piece))
            .for_each(|(to, from)| to.copy_from_slice(from));
        black_box(&to);
        Ok(())
    })
}

fn device_copy_seconds(device: &Device) -> Result<f64> {
    let from = Tensor::ones(COPIED_VALUES, DType::F32, device)?;
    device.synchronize()?;
    best_seconds(|| {
        black_box(from.copy()?);
        Ok(device.synchronize()?)
    })
}
