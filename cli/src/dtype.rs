//! The number type that a model computes in.

use std::fmt;
use std::str::FromStr;

use candle_core::DType;

/// A number type as the user names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DTypeChoice {
    F32,
    F16,
    Bf16,
}

impl DTypeChoice {
    /// candle's name of it.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
        }
    }
}

impl FromStr for DTypeChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "f32" => Ok(Self::F32),
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::Bf16),
            _ => Err("use f32, f16 or bf16".to_string()),
        }
    }
}

impl fmt::Display for DTypeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dtype().as_str())
    }
}
