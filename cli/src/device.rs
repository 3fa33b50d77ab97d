//! The device that a model runs on.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use candle_core::Device;

/// A device as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    Cpu,
    Cuda(usize),
    Metal,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            None if text == "metal" => Ok(Self::Metal),
            Some(("cuda", number)) => number
                .parse()
                .map(Self::Cuda)
                .map_err(|_| format!("`{number}` is no device number")),
            _ => Err("use cpu, cuda, cuda:N or metal".to_string()),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
            Self::Metal => f.write_str("metal"),
        }
    }
}

impl DeviceChoice {
    /// Opens the device.
    pub(crate) fn open(self) -> anyhow::Result<Device> {
        let (feature, built) = match self {
            Self::Cpu => return Ok(Device::Cpu),
            Self::Cuda(_) => ("cuda", cfg!(feature = "cuda")),
            Self::Metal => ("metal", cfg!(feature = "metal")),
        };
        if !built {
            bail!(
                "--device {self}: this program was built without the feature `{feature}`; build it \
                 with `cargo build --release --features {feature}`, or use --device cpu"
            );
        }
        let device = match self {
            Self::Cuda(number) => Device::new_cuda(number),
            _ => Device::new_metal(0),
        };
        device.with_context(|| format!("--device {self}: the device cannot be used"))
    }
}
