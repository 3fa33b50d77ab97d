//! The layout of the ordered node pairs of a batch.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use super::Offsets;
use crate::error::Result;

/// Where the ordered node pairs of every graph lie: graph `g` with n nodes fills a block of n² rows
/// from `pair_ptr[g]`, and the pair (source `s`, target `t`) is row `pair_ptr[g] + t·n + s`.
///
/// The pairs of one target are consecutive, so that a sum over sources is a segment reduction over
/// [`by_target`](Self::by_target). Cloning is cheap.
#[derive(Debug, Clone)]
pub struct PairLayout {
    node_ptr: Offsets,
    pair_ptr: Offsets,
    lazy: Arc<Lazy>,
}

#[derive(Debug, Default)]
struct Lazy {
    by_target: OnceLock<Offsets>,
    sources: OnceLock<Tensor>,
}

impl PairLayout {
    /// The layout of graphs with these nodes.
    ///
    /// # Errors
    /// More pairs than 32-bit indices can address.
    pub fn new(node_ptr: &Offsets) -> Result<Self> {
        let squares = node_ptr.lengths().map(|n| n.saturating_mul(n));
        Ok(Self {
            node_ptr: node_ptr.clone(),
            pair_ptr: Offsets::from_lengths(squares, node_ptr.device())?,
            lazy: Arc::default(),
        })
    }

    /// Nodes of every graph.
    pub fn node_ptr(&self) -> &Offsets {
        &self.node_ptr
    }

    /// Pairs of every graph.
    pub fn pair_ptr(&self) -> &Offsets {
        &self.pair_ptr
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.node_ptr.total()
    }

    /// Number of pairs.
    pub fn num_pairs(&self) -> usize {
        self.pair_ptr.total()
    }

    /// The device of the tensor forms.
    pub fn device(&self) -> &Device {
        self.node_ptr.device()
    }

    /// The pairs of every target node: one segment a node.
    pub fn by_target(&self) -> candle_core::Result<&Offsets> {
        if let Some(offsets) = self.lazy.by_target.get() {
            return Ok(offsets);
        }
        let lengths = self
            .node_ptr
            .lengths()
            .flat_map(|n| std::iter::repeat_n(n, n));
        let made =
            Offsets::from_lengths(lengths, self.device()).map_err(candle_core::Error::wrap)?;
        Ok(self.lazy.by_target.get_or_init(|| made))
    }

    /// The source node of every pair, u32 `[pairs]`.
    pub fn source_ids(&self) -> candle_core::Result<&Tensor> {
        if let Some(ids) = self.lazy.sources.get() {
            return Ok(ids);
        }
        let mut ids = Vec::with_capacity(self.num_pairs());
        for nodes in self.node_ptr.ranges() {
            for _target in nodes.clone() {
                ids.extend(nodes.start as u32..nodes.end as u32);
            }
        }
        let made = Tensor::from_vec(ids, self.num_pairs(), self.device())?;
        Ok(self.lazy.sources.get_or_init(|| made))
    }

    /// The target node of every pair, u32 `[pairs]`.
    pub fn target_ids(&self) -> candle_core::Result<&Tensor> {
        self.by_target()?.segment_ids()
    }
}
