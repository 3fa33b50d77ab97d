//! Block-sparse attention in a transformer layer of its own (BigBird).

mod blocks;

use std::collections::BTreeMap;

use candle_core::{D, Result, Tensor, bail};
use candle_nn::VarBuilder;
use candle_nn::ops::softmax;
use serde::{Deserialize, Serialize};

use self::blocks::KeyBlocks;
use super::{AttentionConfig, refuse_rotated_features};
use crate::graph::Offsets;
use crate::nn::{Rotation, layer_norm, linear, linear_no_bias};
use crate::ops::{
    self, Activation, AttentionInput, ColumnRotation, LayerNorm, LinearWeights, attention,
    rotated_linear,
};

/// The length that the blocks of BigBird are laid out for: which blocks are chosen at random, and
/// which block is the last one, depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BigBirdLayout {
    /// The graph's own number of nodes: a result does not depend on the rest of the batch. It is
    /// what the official code gives for a graph alone.
    #[default]
    Graph,
    /// The nodes of the largest graph of the batch, as in the official code: a result depends on
    /// what the graph is batched with.
    Batch,
}

/// Added to the logits of padding, as in the official code.
const PADDING_PENALTY: f32 = -10_000.0;

/// One BigBird layer, `SingleBigBirdLayer` of GraphGPS: block-sparse attention, an affine map,
/// residual and layer norm, then a feed-forward block with residual and layer norm.
///
/// The nodes of a graph, in their order, are cut into blocks of `block_size`, the last one padded.
/// The nodes of the first and the last block see all nodes; those of another block see the first
/// and the last block, their own block and its two neighbours, and `random_blocks` blocks chosen at
/// random, which may repeat one of the others and then count twice. The choice is that of the
/// official code: numpy's generator with seed 0, the same in every layer. So the result depends on
/// the order of the nodes.
///
/// A graph of fewer than four blocks, or of too few to choose from, has no such pattern and the
/// official code fails on it; here its nodes see all nodes of the graph. The official code also
/// fails where the padded length is 1024, 3072 or 4096 and larger than
/// `gt.bigbird.max_position_embeddings`; these lengths are like any other here.
#[derive(Debug, Clone)]
pub struct BigBird {
    heads: usize,
    block_size: usize,
    random_blocks: usize,
    layout: BigBirdLayout,
    query: LinearWeights,
    key: LinearWeights,
    value: LinearWeights,
    out_proj: LinearWeights,
    attention_norm: LayerNorm,
    feed_forward: (LinearWeights, LinearWeights),
    activation: Activation,
    feed_forward_norm: LayerNorm,
}

/// Queries, keys and values of all nodes and, as the last row, zeros for padding, which no node
/// sees: `[nodes + 1, width]`.
struct Projected {
    query: Tensor,
    key: Tensor,
    value: Tensor,
}

impl BigBird {
    /// Loads, all maps `[width, width]`: `query.weight`, `key.weight` and `value.weight`, with
    /// `use_bias` also `query.bias`, `key.bias` and `value.bias` `[width]` (`attention.self` in the
    /// official layer), `out_proj` with `weight` and `bias` (`attention.output.dense`),
    /// `attention_norm` with `weight` and `bias` `[width]` (`attention.output.LayerNorm`),
    /// `feed_forward.input` and `feed_forward.output` with `weight` and `bias`
    /// (`intermediate.dense` and `output.dense`), `feed_forward_norm` with `weight` and `bias`
    /// `[width]` (`output.LayerNorm`).
    ///
    /// # Errors
    /// A configuration of another kind, a width that the heads do not divide, blocks of no nodes,
    /// tensors that are missing or of another shape.
    pub fn new(config: &AttentionConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let AttentionConfig::BigBird {
            heads,
            block_size,
            random_blocks,
            use_bias,
            activation,
            norm_eps,
            layout,
        } = *config
        else {
            bail!("BigBird attention: a configuration of another kind, {config:?}");
        };
        if width == 0 || width.checked_rem(heads) != Some(0) {
            bail!("BigBird attention: a width of {width} for {heads} heads");
        }
        if block_size == 0 {
            bail!("BigBird attention: blocks of 0 nodes");
        }
        let project = |name: &str| match use_bias {
            true => linear(width, width, vb.pp(name)),
            false => linear_no_bias(width, width, vb.pp(name)),
        };
        Ok(Self {
            heads,
            block_size,
            random_blocks,
            layout,
            query: project("query")?,
            key: project("key")?,
            value: project("value")?,
            out_proj: linear(width, width, vb.pp("out_proj"))?,
            attention_norm: layer_norm(width, norm_eps, vb.pp("attention_norm"))?,
            feed_forward: (
                linear(width, width, vb.pp("feed_forward.input"))?,
                linear(width, width, vb.pp("feed_forward.output"))?,
            ),
            activation,
            feed_forward_norm: layer_norm(width, norm_eps, vb.pp("feed_forward_norm"))?,
        })
    }

    /// Number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Node states `[nodes, width]` to the same shape; `node_ptr` are the nodes of every graph.
    /// `rotation` turns queries and keys.
    ///
    /// # Errors
    /// Shapes that do not fit, a rotation behind a feature map, which BigBird does not have.
    pub fn forward(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        refuse_rotated_features("BigBird", rotation)?;
        let (rows, width) = nodes.dims2()?;
        if rows != node_ptr.total() || width != self.query.in_dim() {
            bail!(
                "BigBird attention: node states of shape {:?}, expected [{}, {}]",
                nodes.dims(),
                node_ptr.total(),
                self.query.in_dim()
            );
        }
        if rows == 0 {
            return Ok(nodes.clone());
        }
        let attended = self.attend(nodes, node_ptr, rotation)?;
        let attended = ops::linear(&attended, &self.out_proj, Activation::Identity)?;
        let x = self.attention_norm.forward(&(attended + nodes)?)?;
        let hidden = ops::linear(&x, &self.feed_forward.0, self.activation)?;
        let y = ops::linear(&hidden, &self.feed_forward.1, Activation::Identity)?;
        self.feed_forward_norm.forward(&(y + x)?)
    }

    /// The attention itself.
    fn attend(
        &self,
        nodes: &Tensor,
        node_ptr: &Offsets,
        rotation: Option<&Rotation>,
    ) -> Result<Tensor> {
        let project = |map, rotation: Option<ColumnRotation<'_>>| {
            rotated_linear(nodes, map, rotation.as_slice())?.pad_with_zeros(0, 0, 1)
        };
        let columns = || 0..self.query.out_dim();
        let projected = Projected {
            query: project(
                &self.query,
                rotation.map(|rotation| rotation.of_queries(columns(), self.heads)),
            )?,
            key: project(
                &self.key,
                rotation.map(|rotation| rotation.of_keys(columns(), self.heads)),
            )?,
            value: project(&self.value, None)?,
        };

        let mut by_blocks = BTreeMap::<usize, Vec<usize>>::new();
        for (graph, size) in node_ptr.lengths().enumerate().filter(|&(_, n)| n > 0) {
            let length = match self.layout {
                BigBirdLayout::Graph => size,
                BigBirdLayout::Batch => node_ptr.max_length(),
            };
            let blocks = length.div_ceil(self.block_size);
            by_blocks.entry(blocks).or_default().push(graph);
        }
        let mut results = Vec::new();
        let mut small = Vec::new();
        let mut place = vec![0u32; node_ptr.total()];
        let mut row = 0;
        for (&blocks, graphs) in &by_blocks {
            let Some(pattern) = KeyBlocks::new(blocks, self.heads, self.random_blocks) else {
                small.extend_from_slice(graphs);
                continue;
            };
            for &graph in graphs {
                for (at, node) in node_ptr.range(graph).enumerate() {
                    place[node] = (row + at) as u32;
                }
                row += blocks * self.block_size;
            }
            results.push(self.sparse(&projected, node_ptr, graphs, &pattern)?);
        }
        if !small.is_empty() {
            for node in small.iter().flat_map(|&graph| node_ptr.range(graph)) {
                place[node] = row as u32;
                row += 1;
            }
            results.push(self.full(&projected, node_ptr, &small)?);
        }
        if u32::try_from(row).is_err() {
            bail!(
                "BigBird attention: {row} padded rows exceed 32-bit indices: use smaller batches"
            );
        }
        let place = Tensor::from_vec(place, node_ptr.total(), nodes.device())?;
        Tensor::cat(&results, 0)?.index_select(&place, 0)
    }

    /// Attention among all nodes, for graphs too small for a pattern: their rows one after the
    /// other.
    fn full(&self, all: &Projected, node_ptr: &Offsets, graphs: &[usize]) -> Result<Tensor> {
        let device = all.query.device();
        let rows = graphs.iter().flat_map(|&graph| node_ptr.range(graph));
        let rows: Vec<u32> = rows.map(|row| row as u32).collect();
        let rows = Tensor::new(rows, device)?;
        let lengths = graphs.iter().map(|&graph| node_ptr.range(graph).len());
        let part = |tensor: &Tensor| tensor.index_select(&rows, 0);
        attention(AttentionInput {
            query: &part(&all.query)?,
            key: &part(&all.key)?,
            value: &part(&all.value)?,
            node_ptr: &Offsets::from_lengths(lengths, device).map_err(candle_core::Error::wrap)?,
            heads: self.heads,
            scale: self.scale(),
            bias: None,
        })
    }

    /// 1/√(width of a head).
    fn scale(&self) -> f64 {
        1.0 / ((self.query.out_dim() / self.heads) as f64).sqrt()
    }

    /// Block-sparse attention of graphs of one number of blocks: `[graphs · padded length, width]`,
    /// in which the rows of padding mean nothing.
    fn sparse(
        &self,
        all: &Projected,
        node_ptr: &Offsets,
        graphs: &[usize],
        pattern: &KeyBlocks,
    ) -> Result<Tensor> {
        let (count, heads, blocks, block) =
            (graphs.len(), self.heads, pattern.blocks(), self.block_size);
        let (length, inner) = (blocks * block, blocks - 2);
        let device = all.query.device();
        let width = all.query.dim(1)? / heads;

        let padding = node_ptr.total() as u32;
        let mut rows = Vec::with_capacity(count * length);
        for &graph in graphs {
            rows.extend(node_ptr.range(graph).map(|row| row as u32));
            rows.resize(rows.len().next_multiple_of(length), padding);
        }
        let penalties: Vec<f32> = (rows.iter())
            .map(|&row| if row == padding { PADDING_PENALTY } else { 0.0 })
            .collect();
        let rows = Tensor::new(rows, device)?;
        let by_head = |tensor: &Tensor| {
            tensor
                .index_select(&rows, 0)?
                .reshape((count, length, heads, width))?
                .transpose(1, 2)?
                .contiguous()
        };
        let query = (by_head(&all.query)? * self.scale())?;
        let (key, value) = (by_head(&all.key)?, by_head(&all.value)?);

        // The first and the last block, which see everything.
        let edge = |first: usize| query.narrow(2, first, block);
        let of_edges = Tensor::cat(&[edge(0)?, edge(length - block)?], 2)?;
        let penalty = Tensor::from_slice(&penalties, (count, 1, 1, length), device)?;
        let logits = of_edges.matmul(&key.t()?.contiguous()?)?;
        let logits = logits.broadcast_add(&penalty.to_dtype(logits.dtype())?)?;
        let edges = softmax(&logits, D::Minus1)?.matmul(&value)?;

        // The others, each with the keys of its blocks side by side.
        let seen = pattern.seen();
        let queries = count * heads * inner;
        let mut ids = Vec::with_capacity(queries * seen);
        let mut penalty = Vec::with_capacity(queries * seen * block);
        for graph in 0..count {
            for (head, lists) in pattern.of_heads().enumerate() {
                for &key_block in lists {
                    let present = key_block.unwrap_or(0);
                    ids.push(((graph * heads + head) * blocks + present) as i64);
                    match key_block {
                        Some(_) => {
                            let first = graph * length + present * block;
                            penalty.extend_from_slice(&penalties[first..first + block]);
                        }
                        None => penalty.resize(penalty.len() + block, f32::NEG_INFINITY),
                    }
                }
            }
        }
        let ids = Tensor::new(ids, device)?;
        let gather = |tensor: &Tensor| {
            tensor
                .reshape((count * heads * blocks, block * width))?
                .index_select(&ids, 0)?
                .reshape((queries, seen * block, width))
        };
        let penalty = Tensor::from_vec(penalty, (queries, 1, seen * block), device)?;
        let logits = query
            .narrow(2, block, inner * block)?
            .contiguous()?
            .reshape((queries, block, width))?
            .matmul(&gather(&key)?.t()?.contiguous()?)?;
        let logits = logits.broadcast_add(&penalty.to_dtype(logits.dtype())?)?;
        let others = softmax(&logits, D::Minus1)?
            .matmul(&gather(&value)?)?
            .reshape((count, heads, inner * block, width))?;

        let edge = |i: usize| edges.narrow(2, i * block, block);
        Tensor::cat(&[edge(0)?, others, edge(1)?], 2)?
            .transpose(1, 2)?
            .contiguous()?
            .reshape((count * length, heads * width))
    }
}
