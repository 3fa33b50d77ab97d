//! What a conversion gives.

use candle_core::{DType, Device};

use crate::checkpoint::{Checkpoint, CheckpointConfig};
use crate::error::Result;
use crate::limits::Limits;

/// A converted checkpoint and what there is to know about it.
#[derive(Debug)]
pub struct Converted {
    /// The checkpoint; it has been loaded into its model once, so it is complete.
    pub checkpoint: Checkpoint,
    /// Official tensors that have no effect and were left out.
    pub ignored: Vec<String>,
    /// Remarks on the options.
    pub notes: Vec<String>,
}

/// A configuration made from options alone.
#[derive(Debug)]
pub struct Configured {
    /// The configuration.
    pub config: CheckpointConfig,
    /// Remarks on the options.
    pub notes: Vec<String>,
}

impl Converted {
    /// Loads `checkpoint` into its model once: a conversion that does not load is worth nothing, and
    /// better said to be so now than at the first use.
    pub(super) fn new(
        checkpoint: Checkpoint,
        ignored: Vec<String>,
        notes: Vec<String>,
        limits: &Limits,
    ) -> Result<Self> {
        checkpoint.build(&Device::Cpu, DType::F32, limits)?;
        Ok(Self {
            checkpoint,
            ignored,
            notes,
        })
    }
}
