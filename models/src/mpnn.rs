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

use candle_core::Tensor;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{GraphBatch, InputSchema};
use candle_graph::nn::{MessageInput, MessagePassing, MessagePassingConfig};
use candle_graph::ops::Activation;
use candle_nn::VarBuilder;

use crate::sections::{Input, Output};
use crate::{GraphModel, NodeStates, PredictionLevel, Trace};

pub use config::MpnnConfig;

/// A message passing network.
#[derive(Debug, Clone)]
pub struct Mpnn {
    config: MpnnConfig,
    schema: InputSchema,
    plan: EncodingPlan,
    input: Input,
    layers: Vec<MessagePassing>,
    output: Output,
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
            schema: config.input_schema(),
            plan: config.encoding_plan()?,
            input: Input::new(&config.input, width, edge_width, &vb)?,
            layers,
            output: Output::new(&config.output, width, vb.pp("head"))?,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &MpnnConfig {
        &self.config
    }
}

impl GraphModel for Mpnn {
    fn input_schema(&self) -> &InputSchema {
        &self.schema
    }

    fn encoding_plan(&self) -> &EncodingPlan {
        &self.plan
    }

    fn has_pair_state(&self) -> bool {
        false
    }

    fn prediction_level(&self) -> PredictionLevel {
        self.output.level()
    }

    fn output_dim(&self) -> usize {
        self.config.output.dim
    }

    fn embedding_dim(&self) -> usize {
        self.config.hidden_dim
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

    fn pool(&self, states: &NodeStates, batch: &GraphBatch) -> candle_graph::Result<Tensor> {
        self.output.pool(states, batch)
    }

    fn head(
        &self,
        states: &NodeStates,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
        self.output.forward(states, batch, trace)
    }
}
