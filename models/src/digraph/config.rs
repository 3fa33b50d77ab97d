//! The configuration of the directed graph models.

use candle_graph::encodings::{DirectedWalk, EncodingPlan, EncodingRecipe, MagNet, Magnetic, Svd};
use candle_graph::graph::{FeatureSchema, InputSchema};
use candle_graph::nn::{
    DirectedMessagePassingConfig, FeatureEncoderConfig, MagLapNetConfig, PredictionLevel,
};
use candle_graph::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::ConfigError;
use crate::sections::check_sizes;

/// Everything that shapes a model of "Transformers Meet Directed Graphs". The official option stands
/// behind every field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigraphConfig {
    /// Width D of the node states (`d_model`).
    pub hidden_dim: usize,
    /// What the states start from (the data set's encoder).
    pub input: DigraphInputConfig,
    /// Positional encoding (`posenc_config`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positional: Option<DirectedPositionalConfig>,
    /// The layers (`model_type`).
    pub encoder: DigraphEncoderConfig,
    /// Every activation of the model (`activation`; the official `gelu` is `gelu_tanh`).
    pub activation: Activation,
    /// From nodes to a graph (`global_readout`).
    pub readout: Readout,
    /// Values of one prediction: `positions` times the number of classes, or the number of values of
    /// a pair.
    pub output_dim: usize,
    /// The head.
    pub head: DigraphHeadConfig,
}

/// What the node states start from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DigraphInputConfig {
    /// Encoders of node and edge features: tables of node type, attribute and depth, of edge type
    /// and name for programs (`DataFlowASTEncoder`), but any other encoder will do.
    Features {
        /// Node features.
        node: FeatureEncoderConfig,
        /// Edge features; none where no layer reads them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge: Option<FeatureEncoderConfig>,
        /// Width of the edge states; `hidden_dim` where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        edge_dim: Option<usize>,
    },
    /// The comparators of a sorting network, three node features: place in the list, first wire,
    /// second wire (`SortingNetworkEncoder`).
    Comparators {
        /// Largest timescale of the sinusoids of the wires (`num_nodeattributes`).
        timescale: usize,
        /// Whether sinusoids of the place are added (not `exclude_canonical`).
        order: bool,
    },
    /// The same state for every node, whatever its features (`DistanceEncoder`): zeros, or with
    /// `ones` (not `exclude_canonical`) the sinusoids of the number 0, as the official code takes
    /// the place of a node from states that are still zero.
    Constant {
        /// Whether the second half of the states is 1.
        ones: bool,
    },
}

/// How the direction of edges enters the node states or the attention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DirectedPositionalConfig {
    /// Eigenvectors of the Magnetic Laplacian (`maglap`).
    Magnetic {
        /// Which eigenvectors.
        eigenvectors: Magnetic,
        /// The network that they go through.
        network: MagLapNetConfig,
        /// Whether the network's complex result is part of queries and keys in every layer
        /// (`relative_positional_encodings`), instead of being added to the states once.
        relative: bool,
    },
    /// Random walks and personalised PageRank (`rw`, `ppr`).
    Walk {
        /// Which walks.
        walks: DirectedWalk,
        /// Whether the walks between two nodes bias their attention
        /// (`relative_positional_encodings`), instead of being summed into the states once.
        relative: bool,
    },
    /// Singular vectors of the adjacency matrix (`svd`).
    Svd(Svd),
}

/// The layers between encodings and readout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DigraphEncoderConfig {
    /// Transformer layers (`sat`).
    Transformer(TransformerEncoderConfig),
    /// Message passing alone (`gnn`).
    MessagePassing(DirectedMessagePassingConfig),
    /// Chebyshev convolutions with the Magnetic Laplacian, the baseline of Zhang et al. (`magnet`).
    MagNet(MagNetConfig),
}

/// Transformer layers, with message passing before queries and keys where it is wanted (SAT++).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerEncoderConfig {
    /// Number of layers (`num_layers`).
    pub layers: usize,
    /// Heads of the attention (`attention_config.num_heads`).
    pub heads: usize,
    /// Width of the feed-forward block: `d_model · attention_config.dense_widening_factor`.
    pub feed_forward_dim: usize,
    /// Whether queries, keys and values have a bias (`attention_config.with_bias`).
    pub bias: bool,
    /// Whether the imaginary parts of relative encodings have a projection of their own
    /// (`attention_config.re_im_separate_projection`).
    #[serde(default)]
    pub separate_imaginary: bool,
    /// Message passing that makes what queries and keys are projected from (`gnn_config.se`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<DirectedMessagePassingConfig>,
    /// Whether what attention adds is divided by √(out-degree + 1) (`deg_sensitive_residual`).
    #[serde(default)]
    pub degree_scaled_residual: bool,
    /// Whether the norm of the attention block stands before it, and the one behind the layer is
    /// left out (`attention_config.pre_norm`).
    #[serde(default)]
    pub norm_first: bool,
    /// BatchNorm instead of LayerNorm (`batch_norm`).
    #[serde(default)]
    pub batch_norm: bool,
}

/// MagNet: every layer is `σ(X W₀ + b + (2/λ·L − I) X W₁)` with the Magnetic Laplacian L, its largest
/// eigenvalue λ, complex states X and σ that lets numbers with a real part that is not negative pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MagNetConfig {
    /// Number of layers (`gnn_config.k_hop`).
    pub layers: usize,
    /// The Laplacian (`posenc_config.maglap_q`, `maglap_q_absolute`).
    pub laplacian: MagNet,
    /// Whether λ is the largest eigenvalue of all graphs of the batch, as in the official code, and
    /// not of the graph: results then depend on the batch.
    #[serde(default)]
    pub eigenvalue_of_batch: bool,
}

/// How the nodes of a graph become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Readout {
    /// The state of a learned token that takes part in all layers (`cls`).
    Token,
    /// The mean (`mean`).
    Mean,
    /// The sum, with the number of nodes as one more column (`sum_n`).
    SumAndSize,
    /// The state of the second node (`1`): of the function's own node in the official programs.
    SecondNode,
}

/// What the model predicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DigraphHeadConfig {
    /// One affine map of the readout. A prediction row is the scores of position 0, then those of
    /// position 1 and so on.
    Graph {
        /// Positions of a sequence (`sequence_length`): 1 for sorting networks, 5 for function
        /// names.
        positions: usize,
    },
    /// A perceptron on the states of two nodes and the readout, for every pair of
    /// `edge_label_index`. Mind the direction of official distance models: they were trained with
    /// the distance *to* the first node of a pair *from* the second.
    Pairs {
        /// Whether the values are made positive by softplus, as distances are.
        softplus: bool,
    },
}

/// Columns of the comparators' features.
const COMPARATOR_COLUMNS: usize = 3;

impl DigraphInputConfig {
    /// Width of the edge states, where there are any.
    pub(super) fn edge_width(&self, hidden_dim: usize) -> Option<usize> {
        match self {
            Self::Features {
                edge: Some(_),
                edge_dim,
                ..
            } => Some(edge_dim.unwrap_or(hidden_dim)),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self::Features {
                node,
                edge,
                edge_dim,
            } => {
                let checked = node.check();
                checked.map_err(|invalid| ConfigError::within("input.node", invalid))?;
                if *node == FeatureEncoderConfig::None {
                    let problem = "`none` makes no node states";
                    return Err(ConfigError::new("input.node", problem));
                }
                if let Some(edge) = edge {
                    let checked = edge.check();
                    checked.map_err(|invalid| ConfigError::within("input.edge", invalid))?;
                    if *edge == FeatureEncoderConfig::None {
                        let problem = "`none` makes no edge states; leave the option out";
                        return Err(ConfigError::new("input.edge", problem));
                    }
                }
                match edge_dim {
                    Some(width) => check_sizes(&[("input.edge_dim", *width)]),
                    None => Ok(()),
                }
            }
            Self::Comparators { timescale, .. } => check_sizes(&[("input.timescale", *timescale)]),
            Self::Constant { .. } => Ok(()),
        }
    }

    fn schema(&self, hidden_dim: usize) -> InputSchema {
        match self {
            Self::Features { node, edge, .. } => InputSchema {
                node: node.schema(hidden_dim),
                edge: match (edge, self.edge_width(hidden_dim)) {
                    (Some(edge), Some(width)) => edge.schema(width),
                    _ => FeatureSchema::Ignored,
                },
            },
            Self::Comparators { .. } => InputSchema {
                node: FeatureSchema::Float {
                    width: COMPARATOR_COLUMNS,
                },
                edge: FeatureSchema::Ignored,
            },
            Self::Constant { .. } => InputSchema::default(),
        }
    }
}

impl DirectedPositionalConfig {
    fn recipe(&self) -> EncodingRecipe {
        match self {
            Self::Magnetic { eigenvectors, .. } => EncodingRecipe::Magnetic(eigenvectors.clone()),
            Self::Walk { walks, .. } => EncodingRecipe::DirectedWalk(walks.clone()),
            Self::Svd(svd) => EncodingRecipe::Svd(svd.clone()),
        }
    }

    /// Whether the attention reads it in every layer.
    fn is_relative(&self) -> bool {
        match self {
            Self::Magnetic { relative, .. } | Self::Walk { relative, .. } => *relative,
            Self::Svd(_) => false,
        }
    }
}

impl TransformerEncoderConfig {
    fn check(&self, hidden_dim: usize, edge_width: Option<usize>) -> Result<(), ConfigError> {
        check_sizes(&[
            ("encoder.layers", self.layers),
            ("encoder.heads", self.heads),
            ("encoder.feed_forward_dim", self.feed_forward_dim),
        ])?;
        if hidden_dim < self.heads {
            return Err(ConfigError::new(
                "encoder.heads",
                format!("{} for a width of {hidden_dim}", self.heads),
            ));
        }
        match &self.structure {
            Some(structure) => (structure.check(hidden_dim, edge_width))
                .map_err(|invalid| ConfigError::within("encoder.structure", invalid)),
            None => Ok(()),
        }
    }
}

impl DigraphConfig {
    /// Checks that a model can be built.
    ///
    /// # Errors
    /// The first option that rules it out.
    pub fn check(&self) -> Result<(), ConfigError> {
        let width = self.hidden_dim;
        check_sizes(&[("hidden_dim", width), ("output_dim", self.output_dim)])?;
        self.input.check()?;
        if let Some(DirectedPositionalConfig::Magnetic {
            eigenvectors,
            network,
            relative,
        }) = &self.positional
        {
            let checked = network.check(eigenvectors.is_complex());
            checked.map_err(|invalid| ConfigError::within("positional.network", invalid))?;
            if *relative && (*network == MagLapNetConfig::Naive || !eigenvectors.is_complex()) {
                return Err(ConfigError::new(
                    "positional.relative",
                    "only the elementwise network of complex eigenvectors makes complex encodings",
                ));
            }
        }
        let relative =
            (self.positional.as_ref()).is_some_and(DirectedPositionalConfig::is_relative);
        let edge_width = self.input.edge_width(width);
        match &self.encoder {
            DigraphEncoderConfig::Transformer(config) => config.check(width, edge_width)?,
            _ if relative => {
                return Err(ConfigError::new(
                    "positional.relative",
                    "relative encodings take part in attention, and these layers have none",
                ));
            }
            DigraphEncoderConfig::MessagePassing(config) => (config.check(width, edge_width))
                .map_err(|invalid| ConfigError::within("encoder", invalid))?,
            DigraphEncoderConfig::MagNet(config) => {
                check_sizes(&[("encoder.layers", config.layers)])?;
                if self.readout == Readout::Token {
                    return Err(ConfigError::new(
                        "readout",
                        "a token has no place in the Laplacian of MagNet",
                    ));
                }
            }
        }
        match &self.head {
            DigraphHeadConfig::Graph { positions } => {
                check_sizes(&[("head.positions", *positions)])?;
                match self.output_dim.checked_rem(*positions) {
                    Some(0) => Ok(()),
                    _ => Err(ConfigError::new(
                        "head.positions",
                        format!("{} outputs for {positions} positions", self.output_dim),
                    )),
                }
            }
            DigraphHeadConfig::Pairs { .. } => Ok(()),
        }
    }

    /// The features that the model reads.
    pub fn input_schema(&self) -> InputSchema {
        self.input.schema(self.hidden_dim)
    }

    /// The encodings that the model needs.
    ///
    /// # Errors
    /// A recipe with impossible parameters.
    pub fn encoding_plan(&self) -> candle_graph::Result<EncodingPlan> {
        let positional = self.positional.iter().map(DirectedPositionalConfig::recipe);
        let magnet = match &self.encoder {
            DigraphEncoderConfig::MagNet(config) => {
                Some(EncodingRecipe::MagNet(config.laplacian.clone()))
            }
            _ => None,
        };
        EncodingPlan::new(positional.chain(magnet).collect())
    }

    /// Width of the node states after the layers.
    pub(crate) fn embedding_dim(&self) -> usize {
        match self.encoder {
            // Real and imaginary parts.
            DigraphEncoderConfig::MagNet(_) => self.hidden_dim.saturating_mul(2),
            _ => self.hidden_dim,
        }
    }

    /// What the predictions are for.
    pub(crate) fn prediction_level(&self) -> PredictionLevel {
        match self.head {
            DigraphHeadConfig::Graph { .. } => PredictionLevel::Graph,
            DigraphHeadConfig::Pairs { .. } => PredictionLevel::Edge,
        }
    }
}
