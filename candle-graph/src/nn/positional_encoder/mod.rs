//! Encoders of positional and structural encodings, a file a kind.

mod config;
mod equiv_stable;
mod frequencies;
mod graphormer;
mod kernel;
mod lap_pe;
mod perceptron;
mod sign_net;

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use crate::encodings::{ELECTROSTATIC, HEAT_KERNEL, RWSE};
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;

pub use config::{
    EigenvectorSet, KernelEncoder, LapPeEncoderConfig, PositionalEncoderConfig,
    SignInvariantPooling,
};
use equiv_stable::EquivStable;
use graphormer::GraphormerEncoder;
use kernel::KernelValues;
pub(super) use lap_pe::LapPeEncoder;
use sign_net::{SignNet, SignNetShape};

/// What a positional encoder contributes.
#[derive(Debug)]
pub(super) enum Contribution {
    /// Node states of their new width, `[nodes, width]`.
    Nodes(Tensor),
    /// Positions beside unchanged node states, `[nodes, D]`.
    Positions(Tensor),
    /// Node states, bias of the attention logits, and the batch with graph tokens if there are any.
    Biased {
        nodes: Tensor,
        bias: Option<Tensor>,
        tokens: Option<Box<GraphBatch>>,
    },
}

/// A positional encoder of any kind.
#[derive(Debug, Clone)]
pub(super) struct PositionalEncoder(Kind);

#[derive(Debug, Clone)]
enum Kind {
    LapPe(LapPeEncoder),
    Kernel(KernelValues),
    SignNet(SignNet),
    EquivStable(EquivStable),
    Graphormer {
        encoder: GraphormerEncoder,
        graph_token: bool,
    },
}

impl PositionalEncoder {
    /// Loads the encoder; `state` is the width of the node states that it adds to or stands beside.
    pub(super) fn new(
        config: &PositionalEncoderConfig,
        state: usize,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let vb = &vb;
        let kernel = |array, values, dim, encoder: &_, raw_norm| {
            KernelValues::new(array, values, dim, encoder, raw_norm, vb).map(Kind::Kernel)
        };
        let kind = match config {
            PositionalEncoderConfig::LapPe(config) => {
                LapPeEncoder::new(config, vb).map(Kind::LapPe)
            }
            PositionalEncoderConfig::Rwse {
                recipe,
                dim,
                encoder,
                raw_norm,
            } => kernel(RWSE, recipe.times.len(), *dim, encoder, *raw_norm),
            PositionalEncoderConfig::HeatKernel {
                recipe,
                dim,
                encoder,
                raw_norm,
            } => kernel(HEAT_KERNEL, recipe.times.len(), *dim, encoder, *raw_norm),
            PositionalEncoderConfig::Electrostatic {
                recipe,
                dim,
                encoder,
                raw_norm,
            } => kernel(ELECTROSTATIC, recipe.width(), *dim, encoder, *raw_norm),
            PositionalEncoderConfig::SignNet {
                recipe,
                dim,
                layers,
                hidden_dim,
                output_dim,
                pooling,
                post_layers,
            } => {
                let shape = SignNetShape {
                    frequencies: recipe.frequencies,
                    layers: *layers,
                    hidden_dim: *hidden_dim,
                    output_dim: *output_dim,
                    pooling: *pooling,
                    post_layers: *post_layers,
                };
                SignNet::new(&shape, *dim, vb).map(Kind::SignNet)
            }
            PositionalEncoderConfig::EquivStable { recipe, raw_norm } => {
                EquivStable::new(recipe, state, *raw_norm, vb).map(Kind::EquivStable)
            }
            PositionalEncoderConfig::Graphormer {
                recipe,
                heads,
                edge_types,
                graph_token,
            } => {
                let (types, token) = (*edge_types, *graph_token);
                let encoder = GraphormerEncoder::new(recipe, state, *heads, types, token, vb)?;
                Ok(Kind::Graphormer {
                    encoder,
                    graph_token: token,
                })
            }
        };
        kind.map(Self)
    }

    /// What the encoder makes of `nodes`, the states so far, if there are any.
    pub(super) fn forward(
        &self,
        nodes: Option<&Tensor>,
        batch: &GraphBatch,
    ) -> EngineResult<Contribution> {
        let appended = |columns: Tensor| -> EngineResult<Contribution> {
            Ok(Contribution::Nodes(match nodes {
                Some(nodes) => Tensor::cat(&[nodes, &columns], 1)?,
                None => columns,
            }))
        };
        match &self.0 {
            Kind::LapPe(encoder) => appended(encoder.forward(batch)?),
            Kind::Kernel(encoder) => appended(encoder.forward(batch)?),
            Kind::SignNet(encoder) => appended(encoder.forward(batch)?),
            Kind::EquivStable(encoder) => Ok(Contribution::Positions(encoder.forward(batch)?)),
            Kind::Graphormer {
                encoder,
                graph_token,
            } => {
                let nodes = encoder.nodes(nodes.cloned(), batch)?;
                let tokens = match graph_token {
                    true => Some(Box::new(batch.with_graph_tokens()?)),
                    false => None,
                };
                Ok(Contribution::Biased {
                    nodes: match &tokens {
                        Some(tokens) => encoder.with_tokens(&nodes, tokens)?,
                        None => nodes,
                    },
                    bias: encoder.bias(batch, tokens.as_deref())?,
                    tokens,
                })
            }
        }
    }
}
