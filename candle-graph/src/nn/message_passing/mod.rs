//! Message passing over the edges of a batch, a file a kind.
//!
//! Weights are folded and packed when they are loaded (BatchNorm into an affine map, maps of the
//! same input into one), so a change of the loaded tensors takes effect with the next `new`.

mod config;
mod distance_gate;
mod gat;
mod gated_gcn;
mod gcn;
mod gen_conv;
mod gin;
mod pna;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

pub use config::MessagePassingConfig;
pub use gat::Gat;
pub use gated_gcn::GatedGcn;
pub use gcn::Gcn;
pub use gen_conv::GenConv;
pub use gin::Gin;
pub use pna::Pna;

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

/// The eps of the BatchNorms inside message passing, PyTorch's default.
const NORM_EPS: f64 = 1e-5;

impl<'a> MessageInput<'a> {
    /// The edge states; `kind` names who asks.
    fn edge_states(&self, kind: &str) -> Result<&'a Tensor> {
        match self.edge_states {
            Some(states) => Ok(states),
            None => bail!("{kind} needs edge states: give the model an edge encoder"),
        }
    }
}

/// Message passing of any kind. The tensors that each kind loads are documented at its `new`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum MessagePassing {
    /// `GINE` and `GIN`.
    Gin(Gin),
    /// `GCN`.
    Gcn(Gcn),
    /// `GAT`.
    Gat(Gat),
    /// `GENConv`.
    GenConv(GenConv),
    /// `PNA`.
    Pna(Pna),
    /// `CustomGatedGCN`.
    GatedGcn(GatedGcn),
}

impl MessagePassing {
    /// Loads message passing for node states of `width`, with `distance_gate` scaled by the
    /// distances of the nodes (EquivStableLapPE; GINE and GatedGCN only).
    ///
    /// # Errors
    /// Tensors that are missing or of another shape, a width that the heads do not divide, a
    /// distance gate on a kind that has none.
    pub fn new(
        config: &MessagePassingConfig,
        width: usize,
        distance_gate: bool,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        use MessagePassingConfig as Config;
        if width == 0 {
            bail!("message passing: a width of 0");
        }
        if distance_gate && !matches!(config, Config::Gine { .. } | Config::GatedGcn { .. }) {
            bail!(
                "a distance gate (EquivStableLapPE) is known to GINE and GatedGCN only, not to {config:?}"
            );
        }
        Ok(match *config {
            Config::Gine { activation } => {
                Self::Gin(Gin::new(width, activation, true, distance_gate, vb)?)
            }
            Config::Gin { activation } => Self::Gin(Gin::new(width, activation, false, false, vb)?),
            Config::Gcn => Self::Gcn(Gcn::new(width, vb)?),
            Config::Gat { heads } => Self::Gat(Gat::new(width, heads, vb)?),
            Config::GenConv => Self::GenConv(GenConv::new(width, vb)?),
            Config::Pna => Self::Pna(Pna::new(width, config.edge_width(width), vb)?),
            Config::GatedGcn {
                activation,
                residual,
            } => Self::GatedGcn(GatedGcn::new(
                width,
                activation,
                residual,
                distance_gate,
                vb,
            )?),
        })
    }

    /// One round of messages.
    ///
    /// # Errors
    /// Shapes that do not fit; edge states or positions that are needed and missing.
    pub fn forward(&self, input: MessageInput<'_>) -> Result<MessageOutput> {
        let nodes = match self {
            Self::Gin(gin) => gin.forward(&input)?,
            Self::Gcn(gcn) => gcn.forward(&input)?,
            Self::Gat(gat) => gat.forward(&input)?,
            Self::GenConv(gen_conv) => gen_conv.forward(&input)?,
            Self::Pna(pna) => pna.forward(&input)?,
            Self::GatedGcn(gated) => return gated.forward(&input),
        };
        Ok(MessageOutput {
            nodes,
            edge_states: None,
        })
    }
}
