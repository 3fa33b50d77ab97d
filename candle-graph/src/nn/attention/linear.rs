//! Linear attention: features of queries and keys instead of a softmax over all nodes.

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::{AttentionConfig, FeatureMapConfig, refuse_rotated_features};
use crate::graph::Offsets;
use crate::nn::{Rotation, attention_projection, linear};
use crate::ops::{
    self, Activation, FeatureMap, LinearAttentionInput, LinearWeights, linear_attention,
};

/// Attention whose weights are products of features of queries and keys, in time and memory linear
/// in the number of nodes. Two kinds differ in their maps: [`AttentionConfig::Linear`]
/// (`Linear` of the WIRE paper's code, whose maps are those of softmax attention) and
/// [`AttentionConfig::Performer`] (`SelfAttention` of performer-pytorch, the `Performer` of
/// GraphGPS, whose heads have a width of their own).
///
/// A graph's result does not depend on the other graphs of the batch. In the official codes of both
/// it does: there, the keys of padding enter the normaliser, and this layer gives what the official
/// ones give for every graph alone.
#[derive(Debug, Clone)]
pub struct LinearAttention {
    /// How messages call the kind.
    name: &'static str,
    heads: usize,
    /// Queries, keys and values as one map.
    in_proj: LinearWeights,
    out_proj: LinearWeights,
    features: Features,
}

#[derive(Debug, Clone)]
enum Features {
    /// Random directions, `[features, head_dim]`.
    PositiveRandom(Tensor),
    Relu {
        eps: f64,
    },
    Simple,
}

impl LinearAttention {
    /// The name of the kind with heads of a width of their own.
    const PERFORMER: &str = "Performer";

    /// Loads the tensors of `config`, which is [`AttentionConfig::Linear`] or
    /// [`AttentionConfig::Performer`], for node states of `width` columns.
    ///
    /// Linear: `in_proj.weight` `[3·width, width]` and `in_proj.bias` `[3·width]` (`WQKV`: first
    /// the queries, then the keys, then the values), `out_proj.weight` `[width, width]` and
    /// `out_proj.bias` `[width]` (`WO`), and for positive random features the directions
    /// `projection` `[features, width / heads]` (`attention.projection_matrix`).
    ///
    /// Performer, with inner = heads · head_dim: `query.weight`, `key.weight` and `value.weight`
    /// `[inner, width]` (`to_q`, `to_k` and `to_v`), `out_proj.weight` `[width, inner]` and
    /// `out_proj.bias` `[width]` (`to_out`), and `projection` `[features, head_dim]`
    /// (`fast_attention.projection_matrix`).
    ///
    /// # Errors
    /// A configuration of another kind, numbers that do not fit each other, tensors that are
    /// missing or of another shape.
    pub fn new(config: &AttentionConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        match config {
            AttentionConfig::Linear { heads, feature_map } => {
                Self::of_width(*heads, feature_map, width, &vb)
            }
            AttentionConfig::Performer {
                heads,
                head_dim,
                features,
            } => Self::performer((*heads, *head_dim, *features), width, &vb),
            _ => bail!("linear attention: a configuration of another kind, {config:?}"),
        }
    }

    fn of_width(
        heads: usize,
        feature_map: &FeatureMapConfig,
        width: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let packed = width.checked_mul(3).filter(|&packed| packed > 0);
        let (Some(packed), Some(0)) = (packed, width.checked_rem(heads)) else {
            bail!("linear attention: a width of {width} for {heads} heads");
        };
        Ok(Self {
            name: "linear",
            heads,
            in_proj: linear(width, packed, vb.pp("in_proj"))?,
            out_proj: linear(width, width, vb.pp("out_proj"))?,
            features: match *feature_map {
                FeatureMapConfig::PositiveRandom { features } if features > 0 => {
                    Features::PositiveRandom(vb.get((features, width / heads), "projection")?)
                }
                FeatureMapConfig::PositiveRandom { .. } => {
                    bail!("linear attention: 0 random features")
                }
                FeatureMapConfig::Relu { eps } => Features::Relu { eps },
                FeatureMapConfig::Simple => Features::Simple,
            },
        })
    }

    fn performer(
        (heads, head_dim, features): (usize, usize, usize),
        width: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let inner = heads.checked_mul(head_dim).filter(|&inner| inner > 0);
        let (Some(inner), true) = (inner, width > 0 && features > 0) else {
            bail!(
                "Performer attention: a width of {width} for {heads} heads of width {head_dim} \
                 with {features} features"
            );
        };
        let weights = ["query", "key", "value"]
            .map(|name| vb.get((inner, width), &format!("{name}.weight")))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            name: Self::PERFORMER,
            heads,
            in_proj: LinearWeights::new(Tensor::cat(&weights, 0)?, None)?,
            out_proj: linear(inner, width, vb.pp("out_proj"))?,
            features: Features::PositiveRandom(vb.get((features, head_dim), "projection")?),
        })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// How messages call the kind.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph.
    /// `rotation` turns queries and keys, or for [`AttentionConfig::Linear`] their features in the
    /// numerator.
    ///
    /// # Errors
    /// Shapes that do not fit, a rotation of features in [`AttentionConfig::Performer`].
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        if self.name == Self::PERFORMER {
            refuse_rotated_features(self.name, rotation)?;
        }
        let inner = self.out_proj.in_dim();
        let packed = attention_projection(nodes, &self.in_proj, (self.heads, inner), rotation)?;
        let part = |i: usize| packed.narrow(1, i * inner, inner);
        let attended = linear_attention(LinearAttentionInput {
            query: &part(0)?,
            key: &part(1)?,
            value: &part(2)?,
            node_ptr,
            heads: self.heads,
            feature_map: match &self.features {
                Features::PositiveRandom(projection) => FeatureMap::PositiveRandom { projection },
                Features::Relu { eps } => FeatureMap::Relu { eps: *eps },
                Features::Simple => FeatureMap::Simple,
            },
            rotation: rotation.and_then(Rotation::of_features),
        })?;
        ops::linear(&attended, &self.out_proj, Activation::Identity)
    }
}
