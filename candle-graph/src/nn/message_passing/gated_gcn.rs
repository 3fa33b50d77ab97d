//! Gated graph convolution with edge states.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::distance_gate::DistanceGate;
use super::{MessageInput, MessageOutput, NORM_EPS};
use crate::nn::{batch_norm, linear};
use crate::ops::{self, Activation, Affine, GatedSumInput, LinearWeights, gated_sum};

/// `e_ij ← D·x_i + E·x_j + C·e_ij` and `x_i ← A·x_i + Σ_j σ(e_ij)·B·x_j / (Σ_j σ(e_ij) + 1e-6)`
/// with the new edge states; then BatchNorm, activation and residual sum on both (`GatedGCNLayer`
/// of GraphGPS). A distance gate is a further factor of σ.
#[derive(Debug, Clone)]
pub struct GatedGcn {
    width: usize,
    /// A, B, D and E, `[4·width, width]`.
    nodes: LinearWeights,
    /// C.
    edges: LinearWeights,
    norm_node: Affine,
    norm_edge: Affine,
    activation: Activation,
    residual: bool,
    distance_gate: Option<DistanceGate>,
}

impl GatedGcn {
    /// Loads `self`, `neighbour`, `gate_edge`, `gate_target` and `gate_source` (`weight`
    /// `[width, width]`, `bias` `[width]`: A, B, C, D and E in the official code), `norm_node` and
    /// `norm_edge` (`weight`, `bias`, `running_mean`, `running_var`, each `[width]`: `bn_node_x` and
    /// `bn_edge_e`), and with `distance_gate` what [`DistanceGate::new`] says under that name.
    pub(super) fn new(
        width: usize,
        activation: Activation,
        residual: bool,
        distance_gate: bool,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let names = ["self", "neighbour", "gate_target", "gate_source"];
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for name in names {
            let map = linear(width, width, vb.pp(name))?;
            weights.push(map.weight().clone());
            biases.extend(map.bias().cloned());
        }
        let nodes = Tensor::cat(&weights, 0)?;
        let distance_gate = match distance_gate {
            true => Some(DistanceGate::new(
                width,
                activation,
                vb.pp("distance_gate"),
            )?),
            false => None,
        };
        Ok(Self {
            width,
            nodes: LinearWeights::new(nodes, Some(Tensor::cat(&biases, 0)?))?,
            edges: linear(width, width, vb.pp("gate_edge"))?,
            norm_node: batch_norm(width, NORM_EPS, vb.pp("norm_node"))?,
            norm_edge: batch_norm(width, NORM_EPS, vb.pp("norm_edge"))?,
            activation,
            residual,
            distance_gate,
        })
    }

    /// New node and edge states.
    pub(super) fn forward(&self, input: &MessageInput<'_>) -> Result<MessageOutput> {
        let adjacency = input.edges.adjacency();
        let weights = match &self.distance_gate {
            Some(gate) => Some(gate.forward(input.positions, adjacency)?),
            None => None,
        };
        let packed = ops::linear(input.nodes, &self.nodes, Activation::Identity)?;
        let part = |i: usize| packed.narrow(1, i * self.width, self.width);
        let found = gated_sum(GatedSumInput {
            own: &part(0)?,
            sent: &part(1)?,
            gate_target: &part(2)?,
            gate_source: &part(3)?,
            edge_states: input.edge_states("GatedGCN")?,
            gate_edge: &self.edges,
            weights: weights.as_ref(),
            adjacency,
            norm_node: &self.norm_node,
            norm_edge: &self.norm_edge,
            activation: self.activation,
            residual: self.residual.then_some(input.nodes),
        })?;
        Ok(MessageOutput {
            nodes: found.nodes,
            edge_states: Some(found.edge_states),
        })
    }
}
