//! Plain message passing networks, as the benchmark tables use them for comparison: GINE, GatedGCN,
//! GCN and their likes in a stack.
//!
//! Facts of the official implementation (`custom_gnn` of rampasek/GraphGPS): GatedGCN brings norm,
//! activation and residual sum along; the others are followed by ReLU and, if so configured, a
//! residual sum, and have no norm.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.edge` `[edges, D]`, and for every
//! layer `layers.{i}.node` and `layers.{i}.edge`; at the end `pooled` and `prediction`.

mod config;

use candle_graph::graph::GraphBatch;
use candle_graph::nn::{MessageInput, MessagePassing, MessagePassingConfig};
use candle_graph::ops::Activation;
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::sections::Input;
use crate::{NodeStates, Trace};

pub use config::MpnnConfig;

/// A message passing network.
#[derive(Debug, Clone)]
pub struct Mpnn {
    config: MpnnConfig,
    frame: Frame,
    input: Input,
    layers: Vec<MessagePassing>,
}

impl Mpnn {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &MpnnConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let gate = config.input.node_encoder.has_positions();
        let layers = (0..config.layers)
            .map(|i| MessagePassing::new(&config.layer, width, gate, vb.pp("layers").pp(i)))
            .collect::<candle_core::Result<_>>()?;
        let edge_width = config.layer.edge_width(width);
        Ok(Self {
            frame: Frame::new(
                config.input_schema(),
                config.encoding_plan()?,
                &config.output,
                width,
                &vb,
            )?,
            input: Input::new(&config.input, width, edge_width, &vb)?,
            layers,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &MpnnConfig {
        &self.config
    }
}

impl Family for Mpnn {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let encoded = self.input.forward(batch, trace)?;
        let (mut nodes, mut edges) = (encoded.nodes, encoded.edges);
        let whole = matches!(self.config.layer, MessagePassingConfig::GatedGcn { .. });
        for (i, layer) in self.layers.iter().enumerate() {
            let output = layer.forward(MessageInput {
                nodes: &nodes,
                edge_states: edges.as_ref(),
                edges: batch.edges(),
                positions: encoded.positions.as_ref(),
            })?;
            edges = output.edge_states.or(edges);
            nodes = match (whole, self.config.residual) {
                (true, _) => output.nodes,
                (false, true) => (nodes + Activation::Relu.forward(&output.nodes)?)?,
                (false, false) => Activation::Relu.forward(&output.nodes)?,
            };
            trace.record(|| format!("layers.{i}.node"), &nodes);
            if let Some(edges) = &edges {
                trace.record(|| format!("layers.{i}.edge"), edges);
            }
        }
        Ok(NodeStates::new(nodes))
    }
}
