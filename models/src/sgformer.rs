//! SGFormer, "SGFormer: Simplifying and Empowering Transformers for Large-Graph Representations" (Wu
//! et al., NeurIPS 2023): simple attention, linear in the number of nodes, beside graph
//! convolutions, with rotary encodings where they are wanted (WIRE, appendix B.4.2).
//!
//! Facts of the official implementation (`ours.py` of qitianwu/SGFormer) that the paper does not
//! show: every head is as wide as the states, and the heads' mean is taken; queries and keys are
//! divided by their Frobenius norms over all nodes *and heads*; the norms of the attention branch
//! are LayerNorms, whatever their option is called; the graph branch adds its first states after
//! every convolution, not those before it. Self loops come with the data there and with the
//! convolution here. The official model reads one graph; this one keeps the graphs of a batch
//! apart, norms included. Its last map is the head.
//!
//! Recorded activations: `encoder.node`, `attention.input` and `graph.input` `[nodes, D]` (the
//! branches' first states), `rotary.coordinates` `[nodes, m]` (WIRE), `layers.{i}.node` of every
//! attention layer and `graph.layers.{j}.node` of every convolution `[nodes, D]`, `branches`
//! `[nodes, D]` or `[nodes, 2·D]`; at the end `pooled` and `prediction`.

mod attention;
mod config;
mod graph_convolution;

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{layer_norm, linear};
use candle_graph::ops::{self, Activation, LayerNorm, LinearWeights};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::rotations::Rotations;
use crate::sections::{Input, NORM_EPS};
use crate::{NodeStates, Trace};

use attention::SimpleAttention;
use graph_convolution::GraphBranch;

pub use config::{Aggregation, AttentionBranchConfig, GraphBranchConfig, SgFormerConfig};

/// One layer of the attention branch.
#[derive(Debug, Clone)]
struct Layer {
    attention: SimpleAttention,
    norm: Option<LayerNorm>,
}

/// The attention branch.
#[derive(Debug, Clone)]
struct AttentionBranch {
    input: LinearWeights,
    input_norm: Option<LayerNorm>,
    layers: Vec<Layer>,
    rotations: Rotations,
    /// The layer's share in its mixture with the states it started from.
    alpha: Option<f64>,
    activation: Activation,
    layer_activation: Activation,
}

impl AttentionBranch {
    /// Loads `attention_input.{weight,bias}`, `attention_input_norm.{weight,bias}`, for every layer
    /// what [`SimpleAttention::new`] names under `layers.{i}.attention` and
    /// `layers.{i}.norm.{weight,bias}`, and the frequencies of [`Rotations::new`].
    fn new(config: &SgFormerConfig, vb: &VarBuilder<'_>) -> Result<Self> {
        let (width, branch) = (config.hidden_dim, &config.attention);
        let norm = |vb: VarBuilder<'_>| match branch.layer_norm {
            true => layer_norm(width, NORM_EPS, vb).map(Some),
            false => Ok(None),
        };
        let layer = |vb: VarBuilder<'_>| {
            Ok(Layer {
                attention: SimpleAttention::new(branch, width, vb.pp("attention"))?,
                norm: norm(vb.pp("norm"))?,
            })
        };
        Ok(Self {
            input: linear(width, width, vb.pp("attention_input"))?,
            input_norm: norm(vb.pp("attention_input_norm"))?,
            layers: (0..branch.layers)
                .map(|i| layer(vb.pp("layers").pp(i)))
                .collect::<Result<_>>()?,
            rotations: Rotations::new(
                config.rotary.as_ref(),
                Some(&config.heads()),
                config.rotated_width(),
                branch.layers,
                vb,
            )?,
            alpha: branch.residual.then_some(branch.alpha),
            activation: config.activation,
            layer_activation: match branch.layer_activation {
                true => config.activation,
                false => Activation::Identity,
            },
        })
    }

    /// Node states `[nodes, D]` to the same shape.
    fn forward(
        &self,
        nodes: &Tensor,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
        let rotations = self.rotations.for_batch(batch, trace)?;
        let normalised = |states: Tensor, norm: &Option<LayerNorm>, activation: Activation| {
            let states = match norm {
                Some(norm) => norm.forward(&states)?,
                None => states,
            };
            activation.forward(&states)
        };
        let states = ops::linear(nodes, &self.input, Activation::Identity)?;
        let mut states = normalised(states, &self.input_norm, self.activation)?;
        trace.record(|| "attention.input".to_string(), &states);
        for (i, layer) in self.layers.iter().enumerate() {
            let rotation = rotations.of_layer(i)?;
            let node_ptr = batch.node_ptr();
            let mut attended = layer
                .attention
                .forward(&states, node_ptr, rotation.as_deref())?;
            if let Some(alpha) = self.alpha {
                attended = ((attended * alpha)? + (states * (1.0 - alpha))?)?;
            }
            states = normalised(attended, &layer.norm, self.layer_activation)?;
            trace.record(|| format!("layers.{i}.node"), &states);
        }
        Ok(states)
    }
}

/// The SGFormer model.
#[derive(Debug, Clone)]
pub struct SgFormer {
    config: SgFormerConfig,
    frame: Frame,
    input: Input,
    attention: AttentionBranch,
    graph: Option<GraphBranch>,
}

impl SgFormer {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &SgFormerConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        Ok(Self {
            frame: Frame::new(
                config.input_schema(),
                config.encoding_plan()?,
                &config.output,
                config.embedding_dim(),
                &vb,
            )?,
            input: Input::new(&config.input, width, width, &vb)?,
            attention: AttentionBranch::new(config, &vb)?,
            graph: match &config.message_passing {
                Some(branch) => Some(GraphBranch::new(branch, width, config.activation, &vb)?),
                None => None,
            },
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &SgFormerConfig {
        &self.config
    }
}

impl Family for SgFormer {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let nodes = self.input.forward(batch, trace)?.nodes;
        let attended = self.attention.forward(&nodes, batch, trace)?;
        let states = match &self.graph {
            Some(graph) => {
                let passed = graph.forward(&nodes, batch.edges(), trace)?;
                match self.config.aggregation {
                    Aggregation::Mean { graph_weight } => {
                        ((passed * graph_weight)? + (attended * (1.0 - graph_weight))?)?
                    }
                    Aggregation::Concatenate => Tensor::cat(&[attended, passed], 1)?,
                }
            }
            None => attended,
        };
        trace.record(|| "branches".to_string(), &states);
        Ok(NodeStates::new(states))
    }
}
