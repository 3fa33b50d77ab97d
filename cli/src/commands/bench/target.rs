//! Where forward passes are timed, and in which dtype.

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};

use crate::args::BenchArgs;

/// A device and the dtype of weights and states on it.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) device: Device,
    pub(super) device_name: String,
    pub(super) dtype: DType,
}

impl Target {
    /// Opens the device that the arguments name.
    ///
    /// # Errors
    /// The device cannot be used, or has no matrix product in the dtype, without which no model runs.
    pub(super) fn open(args: &BenchArgs) -> Result<Self> {
        let target = Self {
            device: args.device.open()?,
            device_name: args.device.to_string(),
            dtype: args.dtype.dtype(),
        };
        target.try_product().with_context(|| {
            format!(
                "--dtype {}: models cannot run in it with --device {}, which has no matrix product \
                 of this dtype",
                target.dtype_name(),
                target.device_name
            )
        })?;
        Ok(target)
    }

    /// Whether encodings are timed too: they are computed on the host, in their own precision.
    pub(super) fn is_plain(&self) -> bool {
        self.device.is_cpu() && self.dtype == DType::F32
    }

    /// Whether there are fused operations at all; the CPU has them for f32.
    pub(super) fn has_fused_path(&self) -> bool {
        !self.device.is_cpu() || self.dtype == DType::F32
    }

    pub(super) fn dtype_name(&self) -> &'static str {
        self.dtype.as_str()
    }

    fn try_product(&self) -> Result<()> {
        let matrix = Tensor::zeros((2, 2), self.dtype, &self.device)?;
        matrix.matmul(&matrix)?;
        Ok(self.device.synchronize()?)
    }
}
