//! The message passing branch: graph convolutions.

use candle_core::{Result, Tensor};
use candle_graph::graph::BatchEdges;
use candle_graph::nn::{batch_norm, linear};
use candle_graph::ops::{
    self, Activation, Affine, LinearWeights, NeighbourSumInput, neighbour_sum,
};
use candle_nn::VarBuilder;

use super::GraphBranchConfig;
use crate::Trace;
use crate::sections::NORM_EPS;

/// One convolution: `W·(Σ_j x_j / √(d_i·d_j)) + b` over the incoming edges and one self loop a node,
/// with the in-degrees d of these edges.
#[derive(Debug, Clone)]
struct Convolution {
    map: Option<LinearWeights>,
    norm: Option<Affine>,
}

/// The message passing branch.
#[derive(Debug, Clone)]
pub(super) struct GraphBranch {
    input: LinearWeights,
    input_norm: Option<Affine>,
    layers: Vec<Convolution>,
    initial_states: bool,
    residual: bool,
    activation: Activation,
    layer_activation: Activation,
}

impl GraphBranch {
    /// Loads `graph_input.{weight,bias}`, `graph_input_norm.*` (BatchNorm), and for every convolution
    /// `graph_layers.{j}.map.{weight,bias}` and `graph_layers.{j}.norm.*`. A map with initial states
    /// has the weights of the sums in its first D columns.
    pub(super) fn new(
        config: &GraphBranchConfig,
        width: usize,
        activation: Activation,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let norm = |vb: VarBuilder<'_>| match config.batch_norm {
            true => batch_norm(width, NORM_EPS, vb).map(Some),
            false => Ok(None),
        };
        let layer = |vb: VarBuilder<'_>| {
            Ok(Convolution {
                map: match (config.initial_states, config.map) {
                    (true, _) => Some(linear(2 * width, width, vb.pp("map"))?),
                    (false, true) => Some(linear(width, width, vb.pp("map"))?),
                    (false, false) => None,
                },
                norm: norm(vb.pp("norm"))?,
            })
        };
        Ok(Self {
            input: linear(width, width, vb.pp("graph_input"))?,
            input_norm: norm(vb.pp("graph_input_norm"))?,
            layers: (0..config.layers)
                .map(|j| layer(vb.pp("graph_layers").pp(j)))
                .collect::<Result<_>>()?,
            initial_states: config.initial_states,
            residual: config.residual,
            activation,
            layer_activation: match config.layer_activation {
                true => activation,
                false => Activation::Identity,
            },
        })
    }

    /// Node states `[nodes, D]` to the same shape. Records `graph.input` and
    /// `graph.layers.{j}.node`.
    pub(super) fn forward(
        &self,
        nodes: &Tensor,
        edges: &BatchEdges,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let looped = edges.self_looped()?;
        let weights = looped.symmetric_weights().to_dtype(nodes.dtype())?;
        let first = mapped(
            nodes,
            Some(&self.input),
            self.input_norm.as_ref(),
            self.activation,
        )?;
        trace.record(|| "graph.input".to_string(), &first);
        let mut states = first.clone();
        for (j, layer) in self.layers.iter().enumerate() {
            let mut sums = neighbour_sum(NeighbourSumInput {
                nodes: &states,
                adjacency: looped.adjacency(),
                edge_states: None,
                weights: Some(&weights),
                self_weight: None,
            })?;
            if self.initial_states {
                sums = Tensor::cat(&[&sums, &first], 1)?;
            }
            let norm = layer.norm.as_ref();
            states = mapped(&sums, layer.map.as_ref(), norm, self.layer_activation)?;
            if self.residual {
                states = (states + &first)?;
            }
            trace.record(|| format!("graph.layers.{j}.node"), &states);
        }
        Ok(states)
    }
}

/// `activation(norm(map(states)))`.
fn mapped(
    states: &Tensor,
    map: Option<&LinearWeights>,
    norm: Option<&Affine>,
    activation: Activation,
) -> Result<Tensor> {
    let mapped = match (map, norm) {
        (Some(map), None) => return ops::linear(states, map, activation),
        (Some(map), Some(_)) => ops::linear(states, map, Activation::Identity)?,
        (None, _) => states.clone(),
    };
    match norm {
        Some(norm) => activation.forward(&norm.forward(&mapped)?),
        None => activation.forward(&mapped),
    }
}
