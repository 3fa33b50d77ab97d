//! Models of directed graphs, "Transformers Meet Directed Graphs" (Geisler et al., ICML 2023):
//! transformers whose positional encodings know the direction of edges (eigenvectors of the Magnetic
//! Laplacian through MagLapNet, or random walks along and against the edges), with message passing
//! before queries and keys where it is wanted (SAT++), and the paper's baselines: bidirectional graph
//! networks and MagNet.
//!
//! Facts of the official implementation (google-deepmind/digraph_transformer) that the paper does
//! not show: norms stand behind the residual sums; values are projected from the states, queries and
//! keys from what the structure extractor makes of them; GELU is the tanh approximation; the token
//! of the readout has no edges, but attends and is attended to; relative encodings of Magnetic
//! Laplacians are complex and their real part is added to the states in every layer.
//!
//! Where it differs here: nothing is padded; eigenvectors for q = 0 and singular vectors keep their
//! signs (the official code multiplies them by random signs even in inference); the Laplacian of
//! MagNet holds all edges (the official one loses those of nodes with numbers above the number of
//! edges), and is scaled by the largest eigenvalue of its graph unless the configuration asks for
//! the batch's.
//!
//! Recorded activations: `encoder.node` `[nodes, D]`, `encoder.edge`; `positional.network` `[nodes,
//! D]` (MagLapNet; also `positional.network_imaginary`), `positional` `[nodes, D]` (states with
//! absolute encodings); for every layer of a transformer, tokens included, `layers.{i}.structure`,
//! `layers.{i}.attention`, `layers.{i}.norm_attention` and `layers.{i}.node`; `encoder` (states
//! after the last layer); at the end `pooled` and `prediction`.

mod config;
mod input;
mod magnet;
mod positional;
mod transformer;

use candle_core::Tensor;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{GraphBatch, InputSchema};
use candle_graph::nn::{
    DirectedMessagePassing, MessageWidths, PairHead, PairHeadSizes, Pooling, PredictionLevel,
    linear, pool,
};
use candle_graph::ops::{self, Activation, LinearWeights};
use candle_graph::{Error, Result};
use candle_nn::VarBuilder;

use crate::{GraphModel, NodeStates, Trace};
use input::DigraphInput;
use magnet::MagNetLayers;
use positional::{DirectedPositional, Direction};
use transformer::TransformerLayers;

pub use config::{
    DigraphConfig, DigraphEncoderConfig, DigraphHeadConfig, DigraphInputConfig,
    DirectedPositionalConfig, MagNetConfig, Readout, TransformerEncoderConfig,
};

#[derive(Debug, Clone)]
enum Layers {
    Transformer(TransformerLayers),
    MessagePassing(DirectedMessagePassing),
    MagNet(MagNetLayers),
}

#[derive(Debug, Clone)]
enum Head {
    Graph(LinearWeights),
    Pairs(PairHead),
}

/// A model of directed graphs.
#[derive(Debug, Clone)]
pub struct Digraph {
    config: DigraphConfig,
    schema: InputSchema,
    plan: EncodingPlan,
    input: DigraphInput,
    positional: Option<DirectedPositional>,
    token: Option<Tensor>,
    layers: Layers,
    head: Head,
}

impl Digraph {
    /// Loads `node_encoder.…` and `edge_encoder.…`, `positional.…`, `token` `[1, D]` where it is read
    /// out, `layers.{i}.…` of a transformer, `message_passing.…` of a graph network, `layers.{i}.…`
    /// of MagNet, and `head.…`.
    ///
    /// # Errors
    /// An impossible configuration, a missing or mis-shaped tensor.
    pub fn new(config: &DigraphConfig, vb: VarBuilder<'_>) -> Result<Self> {
        config.check().map_err(candle_core::Error::wrap)?;
        let width = config.hidden_dim;
        let edge_width = config.input.edge_width(width);
        let layers = match &config.encoder {
            DigraphEncoderConfig::Transformer(layers) => {
                Layers::Transformer(TransformerLayers::new(config, layers, &vb)?)
            }
            DigraphEncoderConfig::MessagePassing(layers) => {
                let widths = MessageWidths {
                    nodes: width,
                    edges: edge_width,
                    out: width,
                };
                let vb = vb.pp("message_passing");
                let activation = config.activation;
                Layers::MessagePassing(DirectedMessagePassing::new(layers, widths, activation, vb)?)
            }
            DigraphEncoderConfig::MagNet(layers) => {
                Layers::MagNet(MagNetLayers::new(layers, width, &vb)?)
            }
        };
        let states = config.embedding_dim();
        let pooled = states + usize::from(config.readout == Readout::SumAndSize);
        let head = match &config.head {
            DigraphHeadConfig::Graph { .. } => {
                Head::Graph(linear(pooled, config.output_dim, vb.pp("head"))?)
            }
            DigraphHeadConfig::Pairs { softplus } => {
                let sizes = PairHeadSizes {
                    nodes: states,
                    graphs: pooled,
                    hidden: width,
                    outputs: config.output_dim,
                };
                Head::Pairs(PairHead::new(
                    sizes,
                    config.activation,
                    *softplus,
                    vb.pp("head"),
                )?)
            }
        };
        Ok(Self {
            schema: config.input_schema(),
            plan: config.encoding_plan()?,
            input: DigraphInput::new(&config.input, width, &vb)?,
            positional: match &config.positional {
                Some(positional) => Some(DirectedPositional::new(
                    positional,
                    width,
                    config.activation,
                    vb.pp("positional"),
                )?),
                None => None,
            },
            token: match config.readout {
                Readout::Token => Some(vb.get((1, width), "token")?),
                _ => None,
            },
            layers,
            head,
            config: config.clone(),
        })
    }

    /// The configuration.
    pub fn config(&self) -> &DigraphConfig {
        &self.config
    }

    /// What the head reads of every graph.
    fn readout(&self, states: &NodeStates, batch: &GraphBatch) -> Result<Tensor> {
        let pooled = self.pool(states, batch)?;
        match self.config.readout {
            Readout::SumAndSize => {
                let sizes: Vec<f32> = batch.node_ptr().lengths().map(|n| n as f32).collect();
                let sizes = Tensor::from_vec(sizes, (batch.num_graphs(), 1), batch.device())?;
                let sizes = sizes.to_dtype(pooled.dtype())?;
                Ok(Tensor::cat(&[pooled, sizes], 1)?)
            }
            _ => Ok(pooled),
        }
    }
}

impl GraphModel for Digraph {
    fn input_schema(&self) -> &InputSchema {
        &self.schema
    }

    fn encoding_plan(&self) -> &EncodingPlan {
        &self.plan
    }

    fn has_pair_state(&self) -> bool {
        let pairs = |(_, level, _): (_, _, _)| level == candle_graph::encodings::Level::Pair;
        self.plan.arrays().into_iter().any(pairs)
    }

    fn depends_on_batch(&self) -> bool {
        matches!(&self.layers, Layers::MagNet(layers) if layers.depends_on_batch())
    }

    fn prediction_level(&self) -> PredictionLevel {
        self.config.prediction_level()
    }

    fn output_dim(&self) -> usize {
        self.config.output_dim
    }

    fn embedding_dim(&self) -> usize {
        self.config.embedding_dim()
    }

    fn node_states(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<NodeStates> {
        let input = self.input.forward(batch, trace)?;
        let mut nodes = input.nodes;
        let tokens = match &self.token {
            Some(_) => Some(batch.with_graph_tokens()?),
            None => None,
        };
        let mut relative = None;
        if let Some(positional) = &self.positional {
            match positional.forward(batch, tokens.as_ref(), trace)? {
                Direction::Added(encodings) => nodes = (nodes + encodings)?,
                Direction::Relative(encodings) => relative = Some(encodings),
            }
        }
        trace.record(|| "positional".to_string(), &nodes);
        if let (Some(tokens), Some(token)) = (&tokens, &self.token) {
            nodes = tokens.with_token_rows(token, &nodes)?;
        }
        let all = tokens.as_ref().unwrap_or(batch);
        let edges = input.edges.as_ref();
        let nodes = match &self.layers {
            Layers::Transformer(layers) => {
                layers.forward(nodes, edges, all, relative.as_ref(), trace)?
            }
            Layers::MessagePassing(layers) => {
                layers.forward(&nodes, edges, all.edges().adjacency(), Ok)?
            }
            Layers::MagNet(layers) => layers.forward(nodes, batch)?,
        };
        trace.record(|| "encoder".to_string(), &nodes);
        Ok(NodeStates::with_tokens(nodes, tokens))
    }

    /// What is read out; of [`Readout::SumAndSize`] the sum without the size.
    fn pool(&self, states: &NodeStates, batch: &GraphBatch) -> Result<Tensor> {
        let pooling = match self.config.readout {
            Readout::Token => Pooling::GraphToken,
            Readout::Mean => Pooling::Mean,
            Readout::SumAndSize => Pooling::Add,
            Readout::SecondNode => return second_nodes(&states.nodes()?, batch),
        };
        Ok(pool(states.all(), states.batch(batch), pooling)?)
    }

    fn head(&self, states: &NodeStates, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor> {
        let pooled = self.readout(states, batch)?;
        trace.record(|| "pooled".to_string(), &pooled);
        let prediction = match &self.head {
            Head::Graph(map) => ops::linear(&pooled, map, Activation::Identity)?,
            Head::Pairs(head) => {
                let pairs = batch.edge_label_index()?;
                head.forward(&states.nodes()?, &pooled, batch.node_ptr(), pairs)?
            }
        };
        trace.record(|| "prediction".to_string(), &prediction);
        Ok(prediction)
    }
}

/// The state of the second node of every graph.
fn second_nodes(nodes: &Tensor, batch: &GraphBatch) -> Result<Tensor> {
    let seconds: Option<Vec<u32>> = (batch.node_ptr().ranges())
        .map(|nodes| (nodes.len() > 1).then_some(nodes.start as u32 + 1))
        .collect();
    let Some(seconds) = seconds else {
        return Err(Error::Batch(
            "the model reads the state of the second node of every graph, and a graph has only one \
             node"
                .to_string(),
        ));
    };
    let count = seconds.len();
    Ok(nodes.index_select(&Tensor::from_vec(seconds, count, batch.device())?, 0)?)
}
