//! What the families of GraphGPS share: the sections of their configurations before and after the
//! layers.

use candle_core::Tensor;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{FeatureSchema, GraphBatch, InputSchema};
use candle_graph::nn::{
    AttentionConfig, FeatureEncoder, FeatureEncoderConfig, Head, HeadConfig, MessagePassingConfig,
    NodeEncoder, NodeEncoderConfig, Pooling, PositionalEncoderConfig, batch_norm, linear,
    linear_no_bias, pool,
};
use candle_graph::ops::{self, Activation, Affine, LinearWeights, normalise_rows};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use crate::{ConfigError, NodeStates, PredictionLevel, Trace};

/// What stands before the layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputConfig {
    /// Node features and positional encodings (`dataset.node_encoder_name`).
    pub node_encoder: NodeEncoderConfig,
    /// Edge features (`dataset.edge_encoder_name`); none when no layer reads them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_encoder: Option<FeatureEncoderConfig>,
    /// BatchNorm after the node encoder (`dataset.node_encoder_bn`).
    #[serde(default)]
    pub node_norm: bool,
    /// BatchNorm after the edge encoder (`dataset.edge_encoder_bn`).
    #[serde(default)]
    pub edge_norm: bool,
    /// The eps of these norms (`bn.eps`).
    #[serde(default = "norm_eps")]
    pub norm_eps: f64,
    /// A perceptron on the node states before the first layer (`gnn.layers_pre_mp`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_layers: Option<PreLayersConfig>,
}

/// A perceptron on node states: every affine map is followed by BatchNorm (optional), the
/// activation, and the normalisation of every row to length 1 (optional).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreLayersConfig {
    /// Width of the node encoder's result (`share.dim_in` without a node encoder).
    pub input_dim: usize,
    /// Number of affine maps (`gnn.layers_pre_mp`); their bias is left out where BatchNorm follows.
    pub layers: usize,
    /// `gnn.batchnorm`.
    pub batch_norm: bool,
    /// `gnn.act`.
    pub activation: Activation,
    /// `gnn.l2norm`.
    pub normalise_rows: bool,
}

/// What stands after the layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Values of one prediction (`share.dim_out`).
    pub dim: usize,
    /// From nodes to a graph (`model.graph_pooling`).
    #[serde(default)]
    pub pooling: Pooling,
    /// The head (`gnn.head`).
    pub head: HeadConfig,
}

/// The eps of the norms in the official layers.
pub(crate) const NORM_EPS: f64 = 1e-5;

/// The default of every `norm_eps`.
pub(crate) fn norm_eps() -> f64 {
    NORM_EPS
}

impl InputConfig {
    /// Checks the sizes for a model of `width`.
    ///
    /// # Errors
    /// The first option that rules a model out.
    pub(crate) fn check(&self, width: usize) -> Result<(), ConfigError> {
        if let Some(pre) = &self.pre_layers {
            check_sizes(&[
                ("input.pre_layers.input_dim", pre.input_dim),
                ("input.pre_layers.layers", pre.layers),
            ])?;
        }
        let encoder = &self.node_encoder;
        let states = self.pre_layers.as_ref().map_or(width, |pre| pre.input_dim);
        let features = encoder.features.check();
        features.map_err(|error| ConfigError::within("input.node_encoder.features", error))?;
        let checked = encoder.check(states);
        checked.map_err(|error| ConfigError::new("input.node_encoder", error.to_string()))?;
        if let Some(edge_encoder) = &self.edge_encoder {
            let checked = edge_encoder.check();
            checked.map_err(|invalid| ConfigError::within("input.edge_encoder", invalid))?;
            if *edge_encoder == FeatureEncoderConfig::None {
                return Err(ConfigError::new(
                    "input.edge_encoder",
                    "`none` makes no edge states; leave the option out",
                ));
            }
            let categories = matches!(
                edge_encoder.schema(width),
                FeatureSchema::Categorical { .. }
                    | FeatureSchema::ClampedCategorical { .. }
                    | FeatureSchema::Ignored
            );
            if encoder.edge_schema().is_some() && !categories {
                return Err(ConfigError::new(
                    "input.edge_encoder",
                    "it reads real numbers, but GraphormerBias reads the categories of edges",
                ));
            }
        }
        if !(self.norm_eps.is_finite() && self.norm_eps >= 0.0) {
            return Err(ConfigError::new(
                "input.norm_eps",
                "it must be finite and not negative",
            ));
        }
        Ok(())
    }

    /// Whether the node encoder gives every graph a token.
    pub(crate) fn has_graph_token(&self) -> bool {
        let mut positional = self.node_encoder.positional.iter();
        positional.any(|encoder| {
            matches!(
                encoder,
                PositionalEncoderConfig::Graphormer {
                    graph_token: true,
                    ..
                }
            )
        })
    }

    /// Refuses EquivStable positions, which scale messages, for layers that have none to scale, as
    /// `why` says.
    pub(crate) fn check_no_positions(&self, why: &str) -> Result<(), ConfigError> {
        match self.node_encoder.has_positions() {
            true => Err(ConfigError::new(
                "input.node_encoder",
                format!("EquivStable positions scale messages, and {why}"),
            )),
            false => Ok(()),
        }
    }

    /// Refuses what only plain attention among all nodes can use, for `family`, which has none.
    pub(crate) fn check_no_attention(&self, family: &str) -> Result<(), ConfigError> {
        let refuse = |what: &str| {
            let problem = format!("{family} cannot use {what}");
            Err(ConfigError::new("input.node_encoder", problem))
        };
        match (self.node_encoder.bias_heads(), self.has_graph_token()) {
            (Some(_), _) => refuse("an attention bias"),
            (None, true) => refuse("a graph token"),
            (None, false) => Ok(()),
        }
    }

    /// Checks that `attention` can use the bias that the node encoder makes, if it makes one.
    pub(crate) fn check_bias(
        &self,
        attention: Option<&AttentionConfig>,
    ) -> Result<(), ConfigError> {
        match (self.node_encoder.bias_heads(), attention) {
            (None, _) => Ok(()),
            (Some(of_bias), Some(AttentionConfig::Softmax { heads, .. })) if *heads == of_bias => {
                Ok(())
            }
            (Some(of_bias), Some(AttentionConfig::Softmax { heads, .. })) => Err(ConfigError::new(
                "attention.heads",
                format!("{heads}, but the attention bias has {of_bias}"),
            )),
            (Some(_), _) => Err(ConfigError::new(
                "attention",
                "an attention bias needs softmax attention",
            )),
        }
    }

    /// The features that the model reads, for node states of `width` and edge states of
    /// `edge_width`.
    pub(crate) fn schema(&self, width: usize, edge_width: usize) -> InputSchema {
        let states = self.pre_layers.as_ref().map_or(width, |pre| pre.input_dim);
        let encoder = self.edge_encoder.as_ref();
        let edge = match encoder.map(|e| e.schema(edge_width)) {
            // One row for every edge leaves the features to the node encoder.
            None | Some(FeatureSchema::Ignored) => self.node_encoder.edge_schema(),
            read => read,
        };
        InputSchema {
            node: self.node_encoder.schema(states),
            edge: edge.unwrap_or_default(),
        }
    }

    /// The encodings that the encoders need.
    pub(crate) fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        EncodingPlan::new(self.node_encoder.recipes())
    }
}

impl OutputConfig {
    /// Checks the sizes for node states of `width`, and that `input` makes what pooling takes.
    pub(crate) fn check(&self, width: usize, input: &InputConfig) -> Result<(), ConfigError> {
        check_sizes(&[("output.dim", self.dim)])?;
        if self.pooling == Pooling::GraphToken && !input.has_graph_token() {
            return Err(ConfigError::new(
                "output.pooling",
                "the node encoder makes no graph token",
            ));
        }
        let head = self.head.check(width, self.dim);
        head.map_err(|invalid| ConfigError::within("output.head", invalid))
    }
}

/// The largest width or count that a configuration may ask for.
const MAX_SIZE: usize = 1 << 20;

/// Checks that every named size is within reason.
pub(crate) fn check_sizes(sizes: &[(&str, usize)]) -> Result<(), ConfigError> {
    for &(option, value) in sizes {
        if !(1..=MAX_SIZE).contains(&value) {
            return Err(ConfigError::new(
                option,
                format!("{value} is out of range, which is 1 to {MAX_SIZE}"),
            ));
        }
    }
    Ok(())
}

/// Checks that `layer`, the value of `option`, works on what `input` makes.
pub(crate) fn check_message_passing(
    option: &str,
    layer: &MessagePassingConfig,
    width: usize,
    input: &InputConfig,
) -> Result<(), ConfigError> {
    let checked = layer.check(width);
    checked.map_err(|invalid| ConfigError::within(option, invalid))?;
    if layer.reads_edges() && input.edge_encoder.is_none() {
        return Err(ConfigError::new(
            "input.edge_encoder",
            "the message passing reads edge states, so the model needs an edge encoder",
        ));
    }
    if input.node_encoder.has_positions() && !layer.takes_positions() {
        return Err(ConfigError::new(
            option,
            "EquivStable positions scale the messages of GINE or GatedGCN; others cannot use them",
        ));
    }
    Ok(())
}

/// The norms after the encoders, `node_encoder_norm.*` and `edge_encoder_norm.*`, those that are
/// wanted. Both act on node states, as trained weights have it.
pub(crate) fn encoder_norms(
    (node, edge): (bool, bool),
    width: usize,
    eps: f64,
    vb: &VarBuilder<'_>,
) -> candle_core::Result<Vec<Affine>> {
    let wanted = [(node, "node_encoder_norm"), (edge, "edge_encoder_norm")];
    let wanted = wanted.into_iter().filter(|&(on, _)| on);
    wanted
        .map(|(_, name)| batch_norm(width, eps, vb.pp(name)))
        .collect()
}

/// What the layers start from.
#[derive(Debug)]
pub(crate) struct Encoded {
    /// Node states `[nodes, width]`; graph tokens included.
    pub(crate) nodes: Tensor,
    /// Edge states `[edges, edge_width]`.
    pub(crate) edges: Option<Tensor>,
    /// Positions whose distances scale messages, `[nodes, width]`.
    pub(crate) positions: Option<Tensor>,
    /// Bias of the attention logits, `[pairs, heads]`.
    pub(crate) bias: Option<Tensor>,
    /// The batch with graph tokens, when there are any.
    pub(crate) with_tokens: Option<GraphBatch>,
}

/// The built input section.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    node_encoder: NodeEncoder,
    edge_encoder: Option<FeatureEncoder>,
    norms: Vec<Affine>,
    pre_layers: Vec<PreLayer>,
}

/// One map of the perceptron before the layers.
#[derive(Debug, Clone)]
struct PreLayer {
    map: LinearWeights,
    norm: Option<Affine>,
    activation: Activation,
    normalise_rows: bool,
}

impl Input {
    /// Loads `node_encoder.*`, `edge_encoder.*`, `node_encoder_norm.*`, `edge_encoder_norm.*` and
    /// `pre_layers.{j}.{weight,bias}` with `pre_layers.{j}.norm.*`.
    pub(crate) fn new(
        config: &InputConfig,
        width: usize,
        edge_width: usize,
        vb: &VarBuilder<'_>,
    ) -> candle_graph::Result<Self> {
        let states = (config.pre_layers.as_ref()).map_or(width, |pre| pre.input_dim);
        let node_encoder = NodeEncoder::new(&config.node_encoder, states, vb.pp("node_encoder"))?;
        let edge_encoder = match &config.edge_encoder {
            Some(encoder) => Some(FeatureEncoder::new(
                encoder,
                edge_width,
                vb.pp("edge_encoder"),
            )?),
            None => None,
        };
        let norms = encoder_norms(
            (config.node_norm, config.edge_norm),
            states,
            config.norm_eps,
            vb,
        )?;
        let mut pre_layers = Vec::new();
        if let Some(pre) = &config.pre_layers {
            for j in 0..pre.layers {
                let vb = vb.pp("pre_layers").pp(j);
                let inputs = if j == 0 { pre.input_dim } else { width };
                pre_layers.push(PreLayer {
                    map: match pre.batch_norm {
                        true => linear_no_bias(inputs, width, vb.clone())?,
                        false => linear(inputs, width, vb.clone())?,
                    },
                    norm: match pre.batch_norm {
                        true => Some(batch_norm(width, config.norm_eps, vb.pp("norm"))?),
                        false => None,
                    },
                    activation: pre.activation,
                    normalise_rows: pre.normalise_rows,
                });
            }
        }
        Ok(Self {
            node_encoder,
            edge_encoder,
            norms,
            pre_layers,
        })
    }

    /// Encodes the features of `batch`. Records `encoder.node`, `encoder.edge`,
    /// `encoder.positions` and `encoder.bias`, and `pre_layers` where there are any.
    pub(crate) fn forward(
        &self,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Encoded> {
        let encoded = self.node_encoder.forward(batch)?;
        let mut nodes = encoded.nodes;
        for norm in &self.norms {
            nodes = norm.forward(&nodes)?;
        }
        let edges = match &self.edge_encoder {
            Some(encoder) => Some(encoder.forward(batch.edge_features(), batch.edges().len())?),
            None => None,
        };
        trace.record(|| "encoder.node".to_string(), &nodes);
        if let Some(edges) = &edges {
            trace.record(|| "encoder.edge".to_string(), edges);
        }
        if let Some(positions) = &encoded.positions {
            trace.record(|| "encoder.positions".to_string(), positions);
        }
        if let Some(bias) = &encoded.bias {
            trace.record(|| "encoder.bias".to_string(), bias);
        }
        for layer in &self.pre_layers {
            nodes = layer.forward(&nodes)?;
        }
        if !self.pre_layers.is_empty() {
            trace.record(|| "pre_layers".to_string(), &nodes);
        }
        Ok(Encoded {
            nodes,
            edges,
            positions: encoded.positions,
            bias: encoded.bias,
            with_tokens: encoded.token_batch,
        })
    }
}

impl PreLayer {
    fn forward(&self, nodes: &Tensor) -> candle_core::Result<Tensor> {
        let x = match &self.norm {
            Some(norm) => {
                let x = ops::linear(nodes, &self.map, Activation::Identity)?;
                self.activation.forward(&norm.forward(&x)?)?
            }
            None => ops::linear(nodes, &self.map, self.activation)?,
        };
        match self.normalise_rows {
            true => normalise_rows(&x, 1e-12),
            false => Ok(x),
        }
    }
}

/// The built output section.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pooling: Pooling,
    level: PredictionLevel,
    head: Head,
}

impl Output {
    /// Loads the head's tensors.
    pub(crate) fn new(
        config: &OutputConfig,
        width: usize,
        vb: VarBuilder<'_>,
    ) -> candle_core::Result<Self> {
        Ok(Self {
            pooling: config.pooling,
            level: config.head.level(),
            head: Head::new(&config.head, width, config.dim, vb)?,
        })
    }

    /// What the predictions are for.
    pub(crate) fn level(&self) -> PredictionLevel {
        self.level
    }

    /// Graph states `[graphs, width]`.
    pub(crate) fn pool(
        &self,
        states: &NodeStates,
        batch: &GraphBatch,
    ) -> candle_graph::Result<Tensor> {
        Ok(pool(states.all(), states.batch(batch), self.pooling)?)
    }

    /// Predictions. Records `pooled` (graph level only) and `prediction`.
    pub(crate) fn forward(
        &self,
        states: &NodeStates,
        batch: &GraphBatch,
        trace: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
        let head = &self.head;
        let prediction = match self.level {
            PredictionLevel::Graph => {
                let nodes = head.node_states(states.all())?;
                let pooled = pool(&nodes, states.batch(batch), self.pooling)?;
                trace.record(|| "pooled".to_string(), &pooled);
                head.forward(&pooled)?
            }
            PredictionLevel::Node => head.forward(&states.nodes()?)?,
            PredictionLevel::Edge => {
                head.forward_pairs(&states.nodes()?, batch.edge_label_index()?)?
            }
        };
        trace.record(|| "prediction".to_string(), &prediction);
        Ok(prediction)
    }
}
