//! Attention among all nodes of a graph: the kinds that GraphGPS puts beside message passing.

mod big_bird;
mod linear;
mod softmax;
mod structure_aware;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

pub use big_bird::{BigBird, BigBirdLayout};
pub use linear::LinearAttention;
pub use softmax::MultiHeadAttention;
pub use structure_aware::{QueryKeyStates, StructureAwareAttention, StructureAwareAttentionConfig};

use super::{InvalidOption, RotaryModulation, Rotation};
use crate::graph::Offsets;
use crate::ops::Activation;

/// The kinds of attention among the nodes of a graph (the second half of `gt.layer_type` in
/// GraphGPS).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttentionConfig {
    /// Softmax attention (`Transformer`; `BiasedTransformer` when the node encoder makes a bias).
    Softmax {
        /// Number of heads, a divisor of the width (`gt.n_heads`).
        heads: usize,
        /// Whether the maps to queries, keys and values and the map of what comes out have a bias
        /// (`bias` of PyTorch's `MultiheadAttention`).
        #[serde(default = "with_bias", skip_serializing_if = "is_true")]
        use_bias: bool,
    },
    /// Linear attention with positive random features (`Performer`, FAVOR+).
    Performer {
        /// Number of heads (`gt.n_heads`).
        heads: usize,
        /// Width of a head: 64 in the official code, whatever the width of the model.
        head_dim: usize,
        /// Number of random features: ⌊head_dim·ln(head_dim)⌋ in the official code.
        features: usize,
    },
    /// Linear attention over heads that share the width, with biases in all maps: `Linear` of
    /// `gt.graphrope.attn_type`, and the linear attentions of the WIRE paper.
    Linear {
        /// Number of heads, a divisor of the width (`gt.n_heads`).
        heads: usize,
        /// The map φ from queries and keys to features.
        feature_map: FeatureMapConfig,
    },
    /// Block-sparse attention (`BigBird`).
    BigBird {
        /// Number of heads, a divisor of the width (`gt.n_heads`).
        heads: usize,
        /// Nodes in a block (`gt.bigbird.block_size`).
        block_size: usize,
        /// Random blocks that every block sees (`gt.bigbird.num_random_blocks`).
        random_blocks: usize,
        /// Whether the maps to queries, keys and values have a bias (`gt.bigbird.use_bias`).
        use_bias: bool,
        /// Between the two maps of the feed-forward block (`gt.bigbird.hidden_act`).
        #[serde(default)]
        activation: Activation,
        /// Added to the variance in the layer norms (`gt.bigbird.layer_norm_eps`).
        #[serde(default = "big_bird_norm_eps")]
        norm_eps: f64,
        /// Which length the blocks are laid out for.
        #[serde(default)]
        layout: BigBirdLayout,
    },
}

/// The map φ from queries and keys to the features whose products are attention weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FeatureMapConfig {
    /// Positive random features of the softmax kernel (FAVOR+), of which there are
    /// ⌊head_dim·ln(head_dim)⌋ in the official code.
    PositiveRandom {
        /// Number of random features.
        features: usize,
    },
    /// `relu(x) + eps` (ReLU-Performer).
    Relu {
        /// Added to every feature; 0.001 in the Performer's code.
        eps: f64,
    },
    /// `x / ‖X‖` with the Frobenius norm over all nodes and heads of a graph, and weights
    /// `n + φ(q)·φ(k)`, of which the n is for the node itself: SGFormer's simple attention.
    Simple,
}

impl AttentionConfig {
    /// The largest head and number of random features that are taken.
    const MAX_SIZE: usize = 1 << 16;

    /// Softmax attention of `heads` heads, with biases in its maps.
    pub fn softmax(heads: usize) -> Self {
        Self::Softmax {
            heads,
            use_bias: with_bias(),
        }
    }

    /// Heads and width of a head of queries and keys, in attention of `width` columns.
    pub fn head_widths(&self, width: usize) -> (usize, usize) {
        match *self {
            Self::Performer {
                heads, head_dim, ..
            } => (heads, head_dim),
            Self::Softmax { heads, .. }
            | Self::Linear { heads, .. }
            | Self::BigBird { heads, .. } => (heads, width.checked_div(heads).unwrap_or(0)),
        }
    }

    /// Whether the result for a graph depends on the other graphs of its batch: BigBird whose blocks
    /// are laid out for the batch.
    pub fn depends_on_batch(&self) -> bool {
        let layout = BigBirdLayout::Batch;
        matches!(self, Self::BigBird { layout: of, .. } if *of == layout)
    }

    /// Checks that attention of `width` columns can be built.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, width: usize) -> std::result::Result<(), InvalidOption> {
        let range = |name: &str, value: usize| match (1..=Self::MAX_SIZE).contains(&value) {
            true => Ok(()),
            false => Err(InvalidOption::new(
                name,
                format!("{value} is out of range, which is 1 to {}", Self::MAX_SIZE),
            )),
        };
        let divides = |heads: usize| match heads > 0 && width.is_multiple_of(heads) {
            true => Ok(()),
            false => Err(InvalidOption::new(
                "heads",
                format!("{heads} does not divide a width of {width}"),
            )),
        };
        match self {
            Self::Softmax { heads, .. } => divides(*heads),
            Self::Performer {
                heads,
                head_dim,
                features,
            } => {
                range("heads", *heads)?;
                range("head_dim", *head_dim)?;
                range("features", *features)
            }
            Self::Linear { heads, feature_map } => {
                divides(*heads)?;
                match feature_map {
                    FeatureMapConfig::PositiveRandom { features } => range("features", *features),
                    FeatureMapConfig::Relu { eps } if !(eps.is_finite() && *eps >= 0.0) => Err(
                        InvalidOption::new("feature_map.eps", "it must be finite and not negative"),
                    ),
                    _ => Ok(()),
                }
            }
            Self::BigBird {
                heads,
                block_size,
                random_blocks,
                norm_eps,
                ..
            } => {
                divides(*heads)?;
                range("block_size", *block_size)?;
                range("random_blocks", *random_blocks)?;
                match norm_eps.is_finite() && *norm_eps >= 0.0 {
                    true => Ok(()),
                    false => Err(InvalidOption::new(
                        "norm_eps",
                        "it must be finite and not negative",
                    )),
                }
            }
        }
    }
}

/// The default of PyTorch's `MultiheadAttention`.
fn with_bias() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

/// The default of `gt.bigbird.layer_norm_eps`.
fn big_bird_norm_eps() -> f64 {
    1e-6
}

/// Attention among the nodes of every graph, of the kind that an [`AttentionConfig`] names.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Attention {
    /// Every node sees every node, with optional biases of pairs.
    Softmax(MultiHeadAttention),
    /// Linear attention, the Performer among it.
    Linear(LinearAttention),
    /// Block-sparse attention in a transformer layer of its own.
    BigBird(BigBird),
}

impl Attention {
    /// Loads the kind that `config` names for node states of `width` columns. The tensors are those
    /// of [`MultiHeadAttention::new`], [`LinearAttention::new`] or [`BigBird::new`].
    ///
    /// # Errors
    /// Numbers that do not fit each other, tensors that are missing or of another shape.
    pub fn new(config: &AttentionConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        Ok(match config {
            AttentionConfig::Softmax { heads, use_bias } => {
                Self::Softmax(MultiHeadAttention::new(width, *heads, *use_bias, vb)?)
            }
            AttentionConfig::Performer { .. } | AttentionConfig::Linear { .. } => {
                Self::Linear(LinearAttention::new(config, width, vb)?)
            }
            AttentionConfig::BigBird { .. } => Self::BigBird(BigBird::new(config, width, vb)?),
        })
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph.
    /// `bias` `[pairs, heads]` is added to the logits of softmax attention, in the order of
    /// [`PairLayout`](crate::graph::PairLayout). `rotation` turns queries and keys, before their
    /// bias is added to the logits.
    ///
    /// # Errors
    /// Shapes that do not fit, a bias for a kind without logits of all pairs, a rotation behind a
    /// feature map that the kind does not have.
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        bias: Option<&Tensor>,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        let name = match self {
            Self::Softmax(layer) => return layer.forward(nodes, node_ptr, bias, rotation),
            Self::Linear(layer) if bias.is_none() => {
                return layer.forward(nodes, node_ptr, rotation);
            }
            Self::BigBird(layer) if bias.is_none() => {
                return layer.forward(nodes, node_ptr, rotation);
            }
            Self::Linear(layer) => layer.name(),
            Self::BigBird(_) => "BigBird",
        };
        bail!("{name} attention takes no bias of pairs: use softmax attention with it")
    }
}

/// Refuses a rotation of features for attention of the kind `name`.
fn refuse_rotated_features(name: &str, rotation: Option<&Rotation>) -> Result<()> {
    match rotation.map(|rotation| rotation.modulation) {
        Some(RotaryModulation::AfterFeatures) => {
            bail!("{name} attention does not rotate features: rotate queries and keys before them")
        }
        _ => Ok(()),
    }
}
