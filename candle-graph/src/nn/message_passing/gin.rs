//! Graph isomorphism networks, without (GIN) and with edge states (GINE).

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::MessageInput;
use super::distance_gate::DistanceGate;
use crate::nn::linear;
use crate::ops::{Activation, LinearWeights, NeighbourSumInput, feed_forward, neighbour_sum};

/// `mlp((1 + eps)·x_i + Σ_j m_ij)` with messages `x_j` (PyG's `GINConv`) or `relu(x_j + e_ij)`
/// (`GINEConv`), the latter scaled by the distance gate where there is one.
///
/// With a distance gate the official code (`GINEConvESLapPE`) takes the state of node 1 of the
/// whole batch for the own state of every node, `x[1]` being left over from a time when `x` was a
/// pair. Here it is the node's own state.
#[derive(Debug, Clone)]
pub struct Gin {
    /// `1 + eps`, `[1]`.
    self_weight: Tensor,
    mlp: [LinearWeights; 2],
    activation: Activation,
    edges: bool,
    distance_gate: Option<DistanceGate>,
}

impl Gin {
    /// Loads `eps` `[1]` (0 in GraphGPS, where it is not trained), `mlp.0` and `mlp.1` (`weight`
    /// `[width, width]`, `bias` `[width]`; `nn.0` and `nn.2` in PyG), and with `distance_gate`
    /// what [`DistanceGate::new`] says under `distance_gate`. `edges` tells GINE from GIN.
    pub(super) fn new(
        width: usize,
        activation: Activation,
        edges: bool,
        distance_gate: bool,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let mlp = vb.pp("mlp");
        let distance_gate = match distance_gate {
            true => Some(DistanceGate::new(
                width,
                Activation::Relu,
                vb.pp("distance_gate"),
            )?),
            false => None,
        };
        Ok(Self {
            self_weight: (vb.get(1, "eps")? + 1.0)?,
            mlp: [
                linear(width, width, mlp.pp(0))?,
                linear(width, width, mlp.pp(1))?,
            ],
            activation,
            edges,
            distance_gate,
        })
    }

    /// New node states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<Tensor> {
        let adjacency = input.edges.adjacency();
        let weights = match &self.distance_gate {
            Some(gate) => Some(gate.forward(input.positions, adjacency)?),
            None => None,
        };
        let edge_states = match self.edges {
            true => Some(input.edge_states("GINE")?),
            false => None,
        };
        let sums = neighbour_sum(NeighbourSumInput {
            nodes: input.nodes,
            adjacency,
            edge_states,
            weights: weights.as_ref(),
            self_weight: Some(&self.self_weight),
        })?;
        feed_forward(&sums, self.mlp.each_ref(), self.activation)
    }
}
