//! Graphormer, "Do Transformers Really Perform Bad for Graph Representation?" (Ying et al., NeurIPS
//! 2021), version 1 as GraphGPS ports it.
//!
//! A transformer among all nodes of a graph: degrees are part of the node states, distances and the
//! edges along shortest paths a bias of the attention logits; optionally every graph has a learned
//! node of its own, from which its prediction is read.
//!
//! Facts of the official implementation (rampasek/GraphGPS): norms come before attention and
//! feed-forward block; the feed-forward block is as wide as the states; GELU is exact.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.bias` `[pairs, heads]`, and for every
//! layer `layers.{i}.node` and `layers.{i}.attention` `[nodes, D]`; at the end `pooled` and
//! `prediction`. Rows of graph tokens are included.

mod config;

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{MultiHeadAttention, layer_norm, linear};
use candle_graph::ops::{Activation, LayerNorm, LinearWeights, feed_forward};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::sections::{Input, NORM_EPS};
use crate::{NodeStates, Trace};

pub use config::GraphormerConfig;

/// One layer.
#[derive(Debug, Clone)]
struct Layer {
    norm_attention: LayerNorm,
    attention: MultiHeadAttention,
    norm_feed_forward: LayerNorm,
    feed_forward: [LinearWeights; 2],
}

impl Layer {
    fn new(config: &GraphormerConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        Ok(Self {
            norm_attention: layer_norm(width, NORM_EPS, vb.pp("norm_attention"))?,
            attention: MultiHeadAttention::new(width, config.heads, true, vb.pp("attention"))?,
            norm_feed_forward: layer_norm(width, NORM_EPS, vb.pp("norm_feed_forward"))?,
            feed_forward: [
                linear(width, width, vb.pp("feed_forward.input"))?,
                linear(width, width, vb.pp("feed_forward.output"))?,
            ],
        })
    }

    /// Node states `[nodes, D]` to the same shape.
    fn forward(
        &self,
        index: usize,
        nodes: &Tensor,
        bias: Option<&Tensor>,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let normed = self.norm_attention.forward(nodes)?;
        let attended = (self.attention).forward(&normed, batch.node_ptr(), bias, None)?;
        trace.record(|| format!("layers.{index}.attention"), &attended);
        let nodes = (nodes + attended)?;
        let normed = self.norm_feed_forward.forward(&nodes)?;
        let nodes =
            (nodes + feed_forward(&normed, self.feed_forward.each_ref(), Activation::Gelu)?)?;
        trace.record(|| format!("layers.{index}.node"), &nodes);
        Ok(nodes)
    }
}

/// The Graphormer model.
#[derive(Debug, Clone)]
pub struct Graphormer {
    config: GraphormerConfig,
    frame: Frame,
    input: Input,
    layers: Vec<Layer>,
}

impl Graphormer {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &GraphormerConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let layers = (0..config.layers)
            .map(|i| Layer::new(config, vb.pp("layers").pp(i)))
            .collect::<Result<_>>()?;
        Ok(Self {
            frame: Frame::new(
                config.input_schema(),
                config.encoding_plan()?,
                &config.output,
                width,
                &vb,
            )?,
            input: Input::new(&config.input, width, width, &vb)?,
            layers,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &GraphormerConfig {
        &self.config
    }
}

impl Family for Graphormer {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn has_pair_state(&self) -> bool {
        self.config.input.node_encoder.bias_heads().is_some()
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let encoded = self.input.forward(batch, trace)?;
        let all = encoded.with_tokens.as_ref().unwrap_or(batch);
        let mut nodes = encoded.nodes;
        for (i, layer) in self.layers.iter().enumerate() {
            nodes = layer.forward(i, &nodes, encoded.bias.as_ref(), all, trace)?;
        }
        Ok(NodeStates::with_tokens(nodes, encoded.with_tokens))
    }
}
