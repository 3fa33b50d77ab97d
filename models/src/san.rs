//! SAN, "Rethinking Graph Transformers with Spectral Attention" (Kreuzer et al., NeurIPS 2021), as
//! GraphGPS ports it.
//!
//! A transformer whose attention treats edges and the other pairs of a graph differently, usually on
//! top of learned Laplacian encodings.
//!
//! Facts of the official implementation (rampasek/GraphGPS): the edge states never change; the
//! learned state of "no edge" is one and the same for all layers, but saved with every layer; norms
//! come after the residual sums.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.edge` `[edges, D]`, and for every
//! layer `layers.{i}.node` and `layers.{i}.attention` `[nodes, D]`; at the end `pooled` and
//! `prediction`.

mod config;

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{SanAttention, linear};
use candle_graph::ops::{self, Activation, LinearWeights, feed_forward};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::post_norm::PostNorm;
use crate::sections::Input;
use crate::{NodeStates, Trace};

pub use config::SanConfig;

/// One layer.
#[derive(Debug, Clone)]
struct Layer {
    attention: SanAttention,
    node_output: LinearWeights,
    norm_attention: PostNorm,
    feed_forward: [LinearWeights; 2],
    norm_feed_forward: PostNorm,
    residual: bool,
}

impl Layer {
    fn new(config: &SanConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        let norm = |place| {
            let norms = (config.layer_norm, config.batch_norm);
            PostNorm::new(width, norms, place, &vb)
        };
        Ok(Self {
            attention: SanAttention::new(
                width,
                config.heads,
                config.full_graph,
                config.weighting,
                vb.pp("attention"),
            )?,
            node_output: linear(width, width, vb.pp("node_output"))?,
            norm_attention: norm("attention")?,
            feed_forward: [
                linear(width, 2 * width, vb.pp("feed_forward.input"))?,
                linear(2 * width, width, vb.pp("feed_forward.output"))?,
            ],
            norm_feed_forward: norm("feed_forward")?,
            residual: config.residual,
        })
    }

    /// Node states `[nodes, D]` to the same shape.
    fn forward(
        &self,
        index: usize,
        nodes: &Tensor,
        edges: &Tensor,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> Result<Tensor> {
        let sum = |nodes: &Tensor, x: Tensor| match self.residual {
            true => nodes + x,
            false => Ok(x),
        };
        let attended = self.attention.forward(nodes, edges, batch)?;
        trace.record(|| format!("layers.{index}.attention"), &attended);
        let attended = ops::linear(&attended, &self.node_output, Activation::Identity)?;
        let nodes = self.norm_attention.forward(sum(nodes, attended)?)?;
        let hidden = feed_forward(&nodes, self.feed_forward.each_ref(), Activation::Relu)?;
        let nodes = self.norm_feed_forward.forward(sum(&nodes, hidden)?)?;
        trace.record(|| format!("layers.{index}.node"), &nodes);
        Ok(nodes)
    }
}

/// The SAN model.
#[derive(Debug, Clone)]
pub struct San {
    config: SanConfig,
    frame: Frame,
    input: Input,
    layers: Vec<Layer>,
}

impl San {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &SanConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
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
    pub fn config(&self) -> &SanConfig {
        &self.config
    }
}

impl Family for San {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn has_pair_state(&self) -> bool {
        self.config.full_graph
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let encoded = self.input.forward(batch, trace)?;
        let Some(edges) = &encoded.edges else {
            return Err(candle_graph::Error::Batch(
                "SAN needs encoded edges".to_string(),
            ));
        };
        let mut nodes = encoded.nodes;
        for (i, layer) in self.layers.iter().enumerate() {
            nodes = layer.forward(i, &nodes, edges, batch, trace)?;
        }
        Ok(NodeStates::new(nodes))
    }
}
