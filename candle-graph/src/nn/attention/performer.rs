//! Linear attention with positive random features (Performer, FAVOR+).

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

use super::{AttentionConfig, packed_projection, refuse_rotated_features};
use crate::graph::Offsets;
use crate::nn::{Rotation, linear};
use crate::ops::{
    self, Activation, FeatureMap, LinearAttentionInput, LinearWeights, linear_attention,
};

/// Attention whose weights are products of positive random features, which approximate those of
/// softmax attention in time linear in the number of nodes: `SelfAttention` of performer-pytorch,
/// the `Performer` of GraphGPS.
///
/// A graph's result does not depend on the other graphs of the batch. In the official code it
/// does: there, the keys of padding enter the normaliser, and this layer gives what the official
/// one gives for every graph alone.
#[derive(Debug, Clone)]
pub struct Performer {
    heads: usize,
    /// Queries, keys and values as one map.
    in_proj: LinearWeights,
    out_proj: LinearWeights,
    projection: Tensor,
}

impl Performer {
    /// Loads, with inner = heads · head_dim, `query.weight`, `key.weight` and `value.weight`
    /// `[inner, width]` (`to_q`, `to_k` and `to_v`), `out_proj.weight` `[width, inner]` and
    /// `out_proj.bias` `[width]` (`to_out`), and the random directions `projection`
    /// `[features, head_dim]` (`fast_attention.projection_matrix`).
    ///
    /// # Errors
    /// A configuration of another kind, a number of 0, tensors that are missing or of another
    /// shape.
    pub fn new(config: &AttentionConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let AttentionConfig::Performer {
            heads,
            head_dim,
            features,
        } = *config
        else {
            bail!("Performer attention: a configuration of another kind, {config:?}");
        };
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
            heads,
            in_proj: LinearWeights::new(Tensor::cat(&weights, 0)?, None)?,
            out_proj: linear(inner, width, vb.pp("out_proj"))?,
            projection: vb.get((features, head_dim), "projection")?,
        })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph.
    /// `rotation` turns queries and keys, heads · head_dim columns wide.
    ///
    /// # Errors
    /// Shapes that do not fit, a rotation behind the feature map.
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        refuse_rotated_features("Performer", rotation)?;
        let inner = self.out_proj.in_dim();
        let packed = packed_projection(nodes, &self.in_proj, self.heads, rotation)?;
        let part = |i: usize| packed.narrow(1, i * inner, inner);
        let attended = linear_attention(LinearAttentionInput {
            query: &part(0)?,
            key: &part(1)?,
            value: &part(2)?,
            node_ptr,
            heads: self.heads,
            feature_map: FeatureMap::PositiveRandom {
                projection: &self.projection,
            },
        })?;
        ops::linear(&attended, &self.out_proj, Activation::Identity)
    }
}
