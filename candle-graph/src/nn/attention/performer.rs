//! Linear attention with positive random features (Performer, FAVOR+).

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::AttentionConfig;
use crate::graph::Offsets;

/// Performer attention.
#[derive(Debug, Clone)]
pub struct Performer {}

impl Performer {
    /// Not built yet.
    ///
    /// # Errors
    /// Always.
    pub fn new(_config: &AttentionConfig, _width: usize, _vb: VarBuilder<'_>) -> Result<Self> {
        bail!("Performer attention is not built yet")
    }

    /// Node states `[nodes, width]` to the same shape.
    ///
    /// # Errors
    /// Always.
    pub fn forward(&self, _nodes: &Tensor, _node_ptr: &Offsets) -> Result<Tensor> {
        bail!("Performer attention is not built yet")
    }
}
