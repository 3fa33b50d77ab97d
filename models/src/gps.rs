//! GraphGPS, "Recipe for a General, Powerful, Scalable Graph Transformer" (Rampášek et al., NeurIPS
//! 2022).
//!
//! Every layer runs message passing along the edges and attention among all nodes of a graph from
//! the same node states, each with a residual sum and a norm; the two results are added and go
//! through a feed-forward block.
//!
//! Facts of the official implementation (rampasek/GraphGPS) that the paper does not show: GatedGCN
//! has its own norm, activation and residual sum, so it gets no second residual sum, but the layer's
//! norm all the same, and its edge states go to the next layer; both encoder norms act on the node
//! states, the one of the edge encoder too; LayerNorm is taken over a whole graph. Where the official
//! code pads and the padding leaks into results (Performer), or misses a node (EquivStable GINE,
//! edges beside a graph token), this is the mathematics that was meant; see the layers in
//! [`candle_graph::nn`].
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.edge` `[edges, D]`,
//! `encoder.positions` `[nodes, D]` (EquivStable), `encoder.bias` `[pairs, heads]` (Graphormer),
//! `rotary.coordinates` `[nodes, m]` (WIRE),
//! `pre_layers` `[nodes, D]`, and for every layer `layers.{i}.node`,
//! `layers.{i}.edge`, `layers.{i}.local` `[nodes, D]` (the message passing's result),
//! `layers.{i}.attention` `[nodes, D]` (the attention's result); at the end `pooled` and
//! `prediction`. Rows of graph tokens are included.

mod config;

use candle_core::{Result, Tensor};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{
    Attention, AttentionConfig, GraphLayerNorm, MessageInput, MessageOutput, MessagePassing,
    MessagePassingConfig, batch_norm, linear,
};
use candle_graph::ops::{
    Activation, Affine, LinearWeights, feed_forward, implementation_is_forced, residual_affine,
};
use candle_nn::VarBuilder;

use crate::family::{Family, Frame};
use crate::rotations::{BatchRotations, Rotations};
use crate::sections::{Input, NORM_EPS};
use crate::threads::is_worth_threads;
use crate::{NodeStates, Trace};

pub use config::{GpsConfig, GpsNorm};

/// The norm after a residual sum.
#[derive(Debug, Clone)]
enum Norm {
    None,
    Batch(Affine),
    Graph(GraphLayerNorm),
}

impl Norm {
    fn new(config: &GpsConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        Ok(match config.norm {
            GpsNorm::None => Self::None,
            GpsNorm::Batch => Self::Batch(batch_norm(width, NORM_EPS, vb)?),
            GpsNorm::GraphLayer => Self::Graph(GraphLayerNorm::new(width, NORM_EPS, vb)?),
        })
    }

    /// `norm(x)`.
    fn forward(&self, x: &Tensor, batch: &GraphBatch) -> Result<Tensor> {
        match self {
            Self::None => Ok(x.clone()),
            Self::Batch(affine) => affine.forward(x),
            Self::Graph(norm) => norm.forward(x, batch.node_ptr()),
        }
    }

    /// `norm(residual + x) + add`.
    fn residual(
        &self,
        residual: &Tensor,
        x: &Tensor,
        add: Option<&Tensor>,
        batch: &GraphBatch,
    ) -> Result<Tensor> {
        match self {
            Self::None => residual_affine(residual, x, None, add),
            Self::Batch(affine) => residual_affine(residual, x, Some(affine), add),
            Self::Graph(norm) => {
                let sum = (residual + x)?;
                let normed = norm.forward(&sum, batch.node_ptr())?;
                match add {
                    Some(add) => normed + add,
                    None => Ok(normed),
                }
            }
        }
    }
}

/// Message passing with its norm.
#[derive(Debug, Clone)]
struct Local {
    message_passing: MessagePassing,
    /// Whether the layer adds the states it started from.
    residual: bool,
    norm: Norm,
}

/// One layer.
#[derive(Debug, Clone)]
struct Layer {
    local: Option<Local>,
    attention: Option<(Attention, Norm)>,
    feed_forward: [LinearWeights; 2],
    activation: Activation,
    norm: Norm,
}

impl Layer {
    fn new(config: &GpsConfig, vb: VarBuilder<'_>) -> Result<Self> {
        let width = config.hidden_dim;
        let gate = config.input.node_encoder.has_positions();
        Ok(Self {
            local: match &config.local {
                Some(local) => Some(Local {
                    message_passing: MessagePassing::new(local, width, gate, vb.pp("local"))?,
                    residual: !matches!(local, MessagePassingConfig::GatedGcn { .. }),
                    norm: Norm::new(config, vb.pp("norm_local"))?,
                }),
                None => None,
            },
            attention: match &config.attention {
                Some(attention) => Some((
                    Attention::new(attention, width, vb.pp("attention"))?,
                    Norm::new(config, vb.pp("norm_attention"))?,
                )),
                None => None,
            },
            feed_forward: [
                linear(width, 2 * width, vb.pp("feed_forward.input"))?,
                linear(2 * width, width, vb.pp("feed_forward.output"))?,
            ],
            activation: config.activation,
            norm: Norm::new(config, vb.pp("norm_feed_forward"))?,
        })
    }

    /// What message passing makes of the node and edge states, if there is any.
    fn pass_messages(
        &self,
        nodes: &Tensor,
        edges: Option<&Tensor>,
        context: &Context<'_>,
    ) -> Result<Option<MessageOutput>> {
        let Some(local) = &self.local else {
            return Ok(None);
        };
        let output = local.message_passing.forward(MessageInput {
            nodes,
            edge_states: edges,
            edges: context.batch.edges(),
            positions: context.positions,
        })?;
        Ok(Some(output))
    }

    /// What attention makes of the node states, if there is any.
    fn attend(
        &self,
        index: usize,
        nodes: &Tensor,
        context: &Context<'_>,
    ) -> Result<Option<Tensor>> {
        let Some((attention, _)) = &self.attention else {
            return Ok(None);
        };
        let rotation = context.rotations.of_layer(index)?;
        let node_ptr = context.batch.node_ptr();
        let attended = attention.forward(nodes, node_ptr, context.bias, rotation.as_deref())?;
        Ok(Some(attended))
    }

    /// Whether message passing and attention, which both start from the same states, run at the same
    /// time: when either is worth the call of a second thread.
    fn runs_side_by_side(&self, batch: &GraphBatch) -> bool {
        batch.device().is_cpu()
            && !implementation_is_forced()
            && is_worth_threads(batch.num_nodes() as u64, self.feed_forward[0].in_dim())
    }

    /// The states of the next layer.
    fn forward(
        &self,
        index: usize,
        states: States,
        context: &Context<'_>,
        trace: &mut Trace,
    ) -> Result<States> {
        let States { nodes, edges } = states;
        let batch = context.batch;
        let local = || self.pass_messages(&nodes, edges.as_ref(), context);
        let attend = || self.attend(index, &nodes, context);
        let (attended, local) = match self.runs_side_by_side(batch) {
            // Attention is the longer one and starts on this thread; its heads are there for the
            // other thread when that is done with the messages.
            true => rayon::join(attend, local),
            false => (attend(), local()),
        };
        let mut sum: Option<Tensor> = None;
        let mut edges = edges.clone();
        if let (Some(local), Some(output)) = (&self.local, local?) {
            trace.record(|| format!("layers.{index}.local"), &output.nodes);
            edges = output.edge_states.or(edges);
            sum = Some(match local.residual {
                true => local.norm.residual(&nodes, &output.nodes, None, batch)?,
                false => local.norm.forward(&output.nodes, batch)?,
            });
        }
        if let (Some((_, norm)), Some(attended)) = (&self.attention, attended?) {
            trace.record(|| format!("layers.{index}.attention"), &attended);
            sum = Some(norm.residual(&nodes, &attended, sum.as_ref(), batch)?);
        }
        // A layer without either is refused by the configuration.
        let nodes = sum.unwrap_or(nodes);
        let hidden = feed_forward(&nodes, self.feed_forward.each_ref(), self.activation)?;
        let nodes = self.norm.residual(&nodes, &hidden, None, batch)?;
        trace.record(|| format!("layers.{index}.node"), &nodes);
        if let Some(edges) = &edges {
            trace.record(|| format!("layers.{index}.edge"), edges);
        }
        Ok(States { nodes, edges })
    }
}

/// What a layer reads and makes.
struct States {
    /// `[nodes, D]`.
    nodes: Tensor,
    /// `[edges, D]`.
    edges: Option<Tensor>,
}

/// What all layers read of a batch.
struct Context<'a> {
    batch: &'a GraphBatch,
    positions: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    rotations: &'a BatchRotations<'a>,
}

/// The GraphGPS model.
#[derive(Debug, Clone)]
pub struct Gps {
    config: GpsConfig,
    frame: Frame,
    input: Input,
    rotations: Rotations,
    layers: Vec<Layer>,
}

impl Gps {
    /// Builds the model from its weights.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &GpsConfig, vb: VarBuilder<'_>) -> candle_graph::Result<Self> {
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
            input: Input::new(&config.input, width, config.edge_width(), &vb)?,
            rotations: Rotations::new(
                config.rotary.as_ref(),
                config.attention.as_ref(),
                width,
                config.layers,
                &vb,
            )?,
            layers,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &GpsConfig {
        &self.config
    }
}

impl Family for Gps {
    fn frame(&self) -> &Frame {
        &self.frame
    }

    fn has_pair_state(&self) -> bool {
        self.config.input.node_encoder.bias_heads().is_some()
    }

    fn depends_on_batch(&self) -> bool {
        (self.config.attention.as_ref()).is_some_and(AttentionConfig::depends_on_batch)
    }

    fn node_states(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<NodeStates> {
        let encoded = self.input.forward(batch, trace)?;
        let rotations = self.rotations.for_batch(batch, trace)?;
        let context = Context {
            batch: encoded.with_tokens.as_ref().unwrap_or(batch),
            positions: encoded.positions.as_ref(),
            bias: encoded.bias.as_ref(),
            rotations: &rotations,
        };
        let mut states = States {
            nodes: encoded.nodes,
            edges: encoded.edges,
        };
        for (i, layer) in self.layers.iter().enumerate() {
            states = layer.forward(i, states, &context, trace)?;
        }
        Ok(NodeStates::with_tokens(states.nodes, encoded.with_tokens))
    }
}
