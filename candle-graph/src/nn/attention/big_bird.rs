//! Block-sparse attention (BigBird).

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::AttentionConfig;
use crate::graph::Offsets;

/// The length that the blocks of BigBird are laid out for: which blocks are chosen at random, and
/// which block is the last one, depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BigBirdLayout {
    /// The graph's own number of nodes: a result does not depend on the rest of the batch. It is
    /// what the official code gives for a graph alone.
    #[default]
    Graph,
    /// The nodes of the largest graph of the batch, as in the official code.
    Batch,
}

/// BigBird attention.
#[derive(Debug, Clone)]
pub struct BigBird {}

impl BigBird {
    /// Not built yet.
    ///
    /// # Errors
    /// Always.
    pub fn new(_config: &AttentionConfig, _width: usize, _vb: VarBuilder<'_>) -> Result<Self> {
        bail!("BigBird attention is not built yet")
    }

    /// Node states `[nodes, width]` to the same shape.
    ///
    /// # Errors
    /// Always.
    pub fn forward(&self, _nodes: &Tensor, _node_ptr: &Offsets) -> Result<Tensor> {
        bail!("BigBird attention is not built yet")
    }
}
