//! Attention of the Spectral Attention Network: along edges, and along the pairs without an edge.

use candle_core::{D, Error, Result, Tensor, bail};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::linear_no_bias;
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::ops::half_precision::{is_half, wide};
use crate::ops::{self, Activation, LinearWeights, Reduction, segment_reduce, segment_softmax};

/// How logits become weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SanWeighting {
    /// `exp` of logits within ±5; the sum over edges and other pairs together is divided by the sum
    /// of all weights (`SANLayer`).
    Shared {
        /// Share of the pairs without an edge (`gt.gamma`).
        gamma: f64,
    },
    /// A softmax over the edges and another over the other pairs; the share of the latter is
    /// learned (`SAN2Layer`).
    Separate,
}

/// Attention with a product of three in every channel: query of the target, key of the source, and a
/// map of the edge state. With a full graph, ordered pairs of different nodes without an edge take
/// part with maps of their own, for which all of them have the same learned edge state.
#[derive(Debug, Clone)]
pub struct SanAttention {
    heads: usize,
    edges: [LinearWeights; 3],
    value: LinearWeights,
    others: Option<Others>,
    weighting: SanWeighting,
}

/// The pairs without an edge.
#[derive(Debug, Clone)]
struct Others {
    query: LinearWeights,
    key: LinearWeights,
    /// Map of the learned edge state, `[1, width]`.
    edge: Tensor,
    /// Learned share, when softmaxes are separate.
    gamma: Option<Tensor>,
}

impl SanAttention {
    /// Added to a denominator by the official code.
    const EPS: f64 = 1e-6;
    /// Bound of the logits.
    const CLAMP: f64 = 5.0;

    /// Loads `query`, `key`, `edge` and `value`, and with `full_graph` `query_other`, `key_other`
    /// and `edge_other`, each `.weight` `[width, width]`, and `other_edge` `[1, width]`; `gamma`
    /// (one value) where the share is learned.
    ///
    /// # Errors
    /// A width that the heads do not divide, tensors that are missing or of another shape.
    pub fn new(
        width: usize,
        heads: usize,
        full_graph: bool,
        weighting: SanWeighting,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            bail!("attention: a width of {width} for {heads} heads");
        }
        let map = |name: &str| linear_no_bias(width, width, vb.pp(name));
        let gamma = match weighting {
            SanWeighting::Separate => Some(vb.get(1, "gamma")?),
            SanWeighting::Shared { .. } => None,
        };
        let others = match full_graph {
            true => Some(Others {
                query: map("query_other")?,
                key: map("key_other")?,
                edge: ops::linear(
                    &vb.get((1, width), "other_edge")?,
                    &map("edge_other")?,
                    Activation::Identity,
                )?,
                gamma,
            }),
            false => None,
        };
        Ok(Self {
            heads,
            edges: [map("query")?, map("key")?, map("edge")?],
            value: map("value")?,
            others,
            weighting,
        })
    }

    /// Node states `[nodes, width]` to the same shape, from edge states `[edges, width]` in the
    /// batch's order.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(&self, nodes: &Tensor, edges: &Tensor, batch: &GraphBatch) -> Result<Tensor> {
        let width = self.value.out_dim();
        let head_dim = width / self.heads;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let map = |x: &Tensor, weights| ops::linear(x, weights, Activation::Identity);
        let [query, key, edge] = &self.edges;
        let (query, key, edge) = (map(nodes, query)?, map(nodes, key)?, map(edges, edge)?);
        let value = map(nodes, &self.value)?;
        let (sources, targets) = batch.edges().tensors()?;
        let product = (key.index_select(sources, 0)? * query.index_select(targets, 0)?)?;
        let logits = ((product * edge)? * scale)?
            .reshape(((), self.heads, head_dim))?
            .sum(D::Minus1)?;
        let ptr = batch.edges().edge_ptr();
        let weights = match self.weighting {
            SanWeighting::Shared { .. } => logits.clamp(-Self::CLAMP, Self::CLAMP)?.exp()?,
            SanWeighting::Separate => segment_softmax(&logits, ptr)?,
        };
        let messages = value
            .index_select(sources, 0)?
            .reshape(((), self.heads, head_dim))?
            .broadcast_mul(&weights.unsqueeze(2)?)?
            .reshape(((), width))?;
        let along_edges = segment_reduce(&messages, ptr, Reduction::Sum)?;
        let total = match self.weighting {
            SanWeighting::Shared { .. } => Some(segment_reduce(&weights, ptr, Reduction::Sum)?),
            SanWeighting::Separate => None,
        };
        let Some(others) = &self.others else {
            return self.divide(along_edges, total);
        };

        let query = map(nodes, &others.query)?.broadcast_mul(&(&others.edge * scale)?)?;
        let key = map(nodes, &others.key)?;
        let (along_others, total_others) = self.along_others(&query, &key, &value, batch)?;
        let (edge_share, other_share) = match (&others.gamma, self.weighting) {
            (Some(gamma), _) => {
                let gamma = gamma.to_dtype(nodes.dtype())?;
                let whole = (&gamma + 1.0)?;
                (whole.recip()?, (&gamma / &whole)?)
            }
            (None, SanWeighting::Shared { gamma }) => {
                let share = |of: f64| Tensor::new(&[of], nodes.device())?.to_dtype(nodes.dtype());
                (share(1.0 / (gamma + 1.0))?, share(gamma / (gamma + 1.0))?)
            }
            (None, SanWeighting::Separate) => bail!("the learned share was not loaded"),
        };
        let mix = |edges: Tensor, others: Tensor| {
            edges.broadcast_mul(&edge_share)? + others.broadcast_mul(&other_share)?
        };
        let total = match (total, total_others) {
            (Some(edges), Some(others)) => Some(mix(edges, others)?),
            _ => None,
        };
        self.divide(mix(along_edges, along_others)?, total)
    }

    /// `sum` `[nodes, width]` over the total weights `[nodes, heads]`, where they are no
    /// softmax's.
    fn divide(&self, sum: Tensor, total: Option<Tensor>) -> Result<Tensor> {
        let Some(total) = total else {
            return Ok(sum);
        };
        let (rows, width) = sum.dims2()?;
        sum.reshape((rows, self.heads, width / self.heads))?
            .broadcast_div(&(total + Self::EPS)?.unsqueeze(2)?)?
            .reshape((rows, width))
    }

    /// Weighted sums `[nodes, width]` over the pairs without an edge, and the total weights
    /// `[nodes, heads]` where they are no softmax's.
    fn along_others(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        batch: &GraphBatch,
    ) -> Result<(Tensor, Option<Tensor>)> {
        if is_half(value) {
            let [query, key, exact] = [wide(query)?, wide(key)?, wide(value)?];
            let (sums, totals) = self.along_others(&query, &key, &exact, batch)?;
            let totals = totals.map(|t| t.to_dtype(value.dtype())).transpose()?;
            return Ok((sums.to_dtype(value.dtype())?, totals));
        }
        let width = value.dim(1)?;
        let head_dim = width / self.heads;
        let mask = others_mask(batch).map_err(Error::wrap)?;
        let (mut sums, mut totals) = (Vec::new(), Vec::new());
        let pair_ptr = batch.pair_ptr().map_err(Error::wrap)?;
        for (nodes, pairs) in batch.node_ptr().ranges().zip(pair_ptr.ranges()) {
            let n = nodes.len();
            // [heads, n, head_dim]
            let rows = |x: &Tensor| {
                x.narrow(0, nodes.start, n)?
                    .reshape((n, self.heads, head_dim))?
                    .transpose(0, 1)?
                    .contiguous()
            };
            let of_graph = mask.get(pairs).unwrap_or_default();
            let mask = Tensor::new(of_graph, value.device())?.reshape((1, n, n))?;
            let mask = mask.to_dtype(value.dtype())?;
            // Row t, column s: the logit of target t for source s.
            let logits = rows(query)?.matmul(&rows(key)?.t()?)?;
            let weights = match self.weighting {
                SanWeighting::Shared { .. } => logits.clamp(-Self::CLAMP, Self::CLAMP)?.exp()?,
                SanWeighting::Separate => {
                    // The largest logit of pairs that count; without one the row is 0 anyway.
                    let absent = ((&mask - 1.0)? * 1e30)?;
                    let largest = logits.broadcast_add(&absent)?.max_keepdim(2)?;
                    let largest = largest.maximum(-1e29)?;
                    logits.broadcast_sub(&largest)?.minimum(0.0)?.exp()?
                }
            };
            let weights = weights.broadcast_mul(&mask)?;
            let total = weights.sum_keepdim(2)?;
            let (weights, total) = match self.weighting {
                SanWeighting::Shared { .. } => (weights, Some(total)),
                SanWeighting::Separate => (weights.broadcast_div(&(total + 1e-16)?)?, None),
            };
            let sum = weights.matmul(&rows(value)?)?;
            sums.push(sum.transpose(0, 1)?.reshape((n, width))?);
            if let Some(total) = total {
                totals.push(total.squeeze(2)?.t()?);
            }
        }
        let totals = match totals.is_empty() {
            true => None,
            false => Some(Tensor::cat(&totals, 0)?),
        };
        Ok((Tensor::cat(&sums, 0)?, totals))
    }
}

/// 1 for every ordered pair of different nodes without an edge, in the order of the pair layout.
fn others_mask(batch: &GraphBatch) -> EngineResult<Vec<f32>> {
    let mut mask = vec![1.0; batch.num_pairs()?];
    for pair in batch.edge_and_own_pairs()? {
        if let Some(entry) = mask.get_mut(pair) {
            *entry = 0.0;
        }
    }
    Ok(mask)
}
