//! Message passing over the edges of a batch, a file a kind.

mod config;

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

pub use config::MessagePassingConfig;

use crate::graph::BatchEdges;

/// What goes into [`MessagePassing::forward`].
#[derive(Debug, Clone, Copy)]
pub struct MessageInput<'a> {
    /// Node states, `[nodes, width]`.
    pub nodes: &'a Tensor,
    /// Edge states in the order of the batch's edges, `[edges, edge width]` with the width of
    /// [`MessagePassingConfig::edge_width`]; needed by the kinds that
    /// [read them](MessagePassingConfig::reads_edges).
    pub edge_states: Option<&'a Tensor>,
    /// The edges of the batch.
    pub edges: &'a BatchEdges,
    /// Positions of the nodes, `[nodes, any width]`; needed where there is a distance gate.
    pub positions: Option<&'a Tensor>,
}

/// What comes out of [`MessagePassing::forward`].
#[derive(Debug, Clone)]
pub struct MessageOutput {
    /// Node states, `[nodes, width]`.
    pub nodes: Tensor,
    /// New edge states, `[edges, width]`, from the kinds that have them
    /// ([`MessagePassingConfig::GatedGcn`]).
    pub edge_states: Option<Tensor>,
}

/// Message passing of any kind.
#[derive(Debug, Clone)]
pub enum MessagePassing {}

impl MessagePassing {
    /// Loads message passing for node states of `width`.
    ///
    /// # Errors
    /// Tensors that are missing or of another shape.
    pub fn new(
        _config: &MessagePassingConfig,
        _width: usize,
        _distance_gate: bool,
        _vb: VarBuilder<'_>,
    ) -> Result<Self> {
        bail!("message passing is not built")
    }

    /// One round of messages.
    ///
    /// # Errors
    /// Shapes that do not fit; edge states or positions that are needed and missing.
    pub fn forward(&self, _input: MessageInput<'_>) -> Result<MessageOutput> {
        match *self {}
    }
}
