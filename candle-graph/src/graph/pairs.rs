//! The layout of the ordered node pairs of a batch.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candle_core::{Device, Tensor};

use super::{Adjacency, Offsets};
use crate::error::{Error, Result};

/// Where the ordered node pairs of every graph lie: graph `g` with n nodes fills a block of n² rows
/// from `pair_ptr[g]`, and the pair (source `s`, target `t`) is row `pair_ptr[g] + t·n + s`.
///
/// The pairs of one target are consecutive, so that a sum over sources is a segment reduction over
/// [`by_target`](Self::by_target). Cloning is cheap.
///
/// Everything about pairs is made on first use, so that graphs whose pairs cannot be numbered are no
/// trouble to models that do not read pairs.
#[derive(Debug, Clone)]
pub struct PairLayout {
    node_ptr: Offsets,
    lazy: Arc<Lazy>,
}

#[derive(Debug, Default)]
struct Lazy {
    pair_ptr: OnceLock<Offsets>,
    by_target: OnceLock<Offsets>,
    sources: OnceLock<Tensor>,
}

impl PairLayout {
    /// The layout of graphs with these nodes.
    pub fn new(node_ptr: &Offsets) -> Self {
        Self {
            node_ptr: node_ptr.clone(),
            lazy: Arc::default(),
        }
    }

    /// Nodes of every graph.
    pub fn node_ptr(&self) -> &Offsets {
        &self.node_ptr
    }

    /// Pairs of every graph.
    ///
    /// # Errors
    /// [`Error::TooManyPairs`] where 32-bit indices cannot address them.
    pub fn pair_ptr(&self) -> Result<&Offsets> {
        if let Some(offsets) = self.lazy.pair_ptr.get() {
            return Ok(offsets);
        }
        let squares = || self.node_ptr.lengths().map(|n| n.saturating_mul(n));
        let made = Offsets::from_lengths(squares(), self.device()).map_err(|_| {
            let sum = |sum: u64, square: usize| sum.saturating_add(square as u64);
            Error::TooManyPairs {
                pairs: squares().fold(0, sum),
            }
        })?;
        Ok(self.lazy.pair_ptr.get_or_init(|| made))
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.node_ptr.total()
    }

    /// Number of pairs.
    ///
    /// # Errors
    /// As [`pair_ptr`](Self::pair_ptr).
    pub fn num_pairs(&self) -> Result<usize> {
        self.pair_ptr().map(Offsets::total)
    }

    /// The device of the tensor forms.
    pub fn device(&self) -> &Device {
        self.node_ptr.device()
    }

    /// The pair that every edge of `edges` falls on, nodes numbered as in
    /// [`node_ptr`](Self::node_ptr).
    pub(super) fn rows_of(&self, edges: &Adjacency) -> Result<Vec<u32>> {
        let mut rows = Vec::with_capacity(edges.len());
        let blocks = self.node_ptr.ranges().zip(self.pair_ptr()?.ranges());
        for (nodes, pairs) in blocks {
            let (first, n) = (nodes.start as u32, nodes.len() as u32);
            for edge in edges_into(edges.ptr(), &nodes) {
                let source = edges.sources()[edge] - first;
                let target = edges.targets()[edge] - first;
                rows.push(pairs.start as u32 + target * n + source);
            }
        }
        Ok(rows)
    }

    /// The pairs of every target node: one segment a node.
    ///
    /// # Errors
    /// As [`pair_ptr`](Self::pair_ptr).
    pub fn by_target(&self) -> candle_core::Result<&Offsets> {
        if let Some(offsets) = self.lazy.by_target.get() {
            return Ok(offsets);
        }
        self.checked()?;
        let lengths = self
            .node_ptr
            .lengths()
            .flat_map(|n| std::iter::repeat_n(n, n));
        let made =
            Offsets::from_lengths(lengths, self.device()).map_err(candle_core::Error::wrap)?;
        Ok(self.lazy.by_target.get_or_init(|| made))
    }

    /// `pairs` `[pairs, width]` with the rows of (source s, target t) and (source t, target s)
    /// exchanged.
    ///
    /// # Errors
    /// As [`pair_ptr`](Self::pair_ptr); another number of rows.
    pub fn transposed(&self, pairs: &Tensor) -> Result<Tensor> {
        let mut ids = Vec::with_capacity(self.num_pairs()?);
        for (n, block) in self.node_ptr.lengths().zip(self.pair_ptr()?.ranges()) {
            let row = |target: usize, source: usize| (block.start + source * n + target) as u32;
            ids.extend((0..n).flat_map(|target| (0..n).map(move |source| row(target, source))));
        }
        let count = ids.len();
        let ids = Tensor::from_vec(ids, count, pairs.device())?;
        Ok(pairs.index_select(&ids, 0)?)
    }

    /// The number of pairs, where only tensor errors can be told.
    fn checked(&self) -> candle_core::Result<usize> {
        self.num_pairs().map_err(candle_core::Error::wrap)
    }

    /// The source node of every pair, u32 `[pairs]`.
    ///
    /// # Errors
    /// As [`pair_ptr`](Self::pair_ptr).
    pub fn source_ids(&self) -> candle_core::Result<&Tensor> {
        if let Some(ids) = self.lazy.sources.get() {
            return Ok(ids);
        }
        let pairs = self.checked()?;
        let mut ids = Vec::with_capacity(pairs);
        for nodes in self.node_ptr.ranges() {
            for _target in nodes.clone() {
                ids.extend(nodes.start as u32..nodes.end as u32);
            }
        }
        let made = Tensor::from_vec(ids, pairs, self.device())?;
        Ok(self.lazy.sources.get_or_init(|| made))
    }

    /// The target node of every pair, u32 `[pairs]`.
    ///
    /// # Errors
    /// As [`pair_ptr`](Self::pair_ptr).
    pub fn target_ids(&self) -> candle_core::Result<&Tensor> {
        self.by_target()?.segment_ids()
    }
}

/// The edges into the nodes of `nodes`.
pub(super) fn edges_into(ptr: &Offsets, nodes: &Range<usize>) -> Range<usize> {
    let ends = ptr.as_slice();
    ends[nodes.start] as usize..ends[nodes.end] as usize
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use candle_nn::VarBuilder;

    use super::*;
    use crate::encodings::{
        EncodingArray, EncodingPlan, EncodingRecipe, GraphEncoding, RRWP_PAIR, Rrwp,
    };
    use crate::graph::{Graph, GraphBatch, InputSchema};
    use crate::nn::{RrwpEncoder, SanAttention, SanWeighting};

    const NODES: usize = 100_000;

    /// A path of 100,000 nodes and a pair of nodes: 10¹⁰ + 4 ordered pairs.
    fn large() -> GraphBatch {
        let path = |n: usize| {
            let edges = (1..n as i64).map(|i| [i - 1, i]);
            let builder = Graph::builder(n).edges(edges);
            builder.undirected(true).build().unwrap()
        };
        let graphs = [path(NODES), path(2)];
        GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap()
    }

    fn assert_counted<T>(result: Result<T>) {
        let Err(error) = result else {
            panic!("pairs beyond 32 bits");
        };
        let message = error.to_string();
        assert!(message.contains("10000000004 ordered"), "{message}");
    }

    #[test]
    fn a_graph_whose_pairs_cannot_be_numbered_is_a_batch() {
        let batch = large();
        assert_eq!(batch.num_nodes(), NODES + 2);
        assert_eq!(batch.edges().len(), 2 * NODES);
        let ends = [batch.edges().sources(), batch.edges().targets()].map(|e| e[2 * NODES - 1]);
        assert_eq!(ends, [NODES as u32, NODES as u32 + 1]);
        assert_eq!(batch.with_graph_tokens().unwrap().num_nodes(), NODES + 4);
        let counted =
            |error| matches!(error, Error::TooManyPairs { pairs } if pairs == 10_000_000_004);
        assert!(batch.pair_ptr().is_err_and(counted));
        assert!(batch.num_pairs().is_err_and(counted));
        assert!(batch.edge_pairs().is_err_and(counted));
        assert!(batch.edge_and_own_pairs().is_err());
        assert_counted(batch.pairs().by_target().map_err(Error::from));
        assert_counted(batch.pairs().source_ids().map_err(Error::from));
        assert_counted(batch.pairs().target_ids().map_err(Error::from));
    }

    #[test]
    fn layers_that_read_pairs_refuse_what_cannot_be_numbered() {
        let mut batch = large();
        let vb = || VarBuilder::zeros(DType::F32, &Device::Cpu);
        let zeros = |rows: usize| Tensor::zeros((rows, 4), DType::F32, &Device::Cpu).unwrap();
        let weighting = SanWeighting::Shared { gamma: 0.1 };
        let san = SanAttention::new(4, 2, true, weighting, vb()).unwrap();
        let (nodes, edges) = (zeros(batch.num_nodes()), zeros(batch.edges().len()));
        assert_counted(san.forward(&nodes, &edges, &batch).map_err(Error::from));

        let rrwp = Rrwp {
            steps: 2,
            shortest_path: false,
        };
        let plan = EncodingPlan::new(vec![EncodingRecipe::Rrwp(rrwp.clone())]).unwrap();
        let of_graph = |nodes: usize| GraphEncoding {
            arrays: (plan.arrays().into_iter())
                .map(|(name, level, width)| EncodingArray {
                    name: name.to_string(),
                    level,
                    width,
                    data: vec![0.0; nodes * width],
                })
                .collect(),
        };
        assert_counted(plan.attach(&mut batch, &[of_graph(NODES), of_graph(2)]));
        batch.attach_encoding(RRWP_PAIR, zeros(1));
        let encoder = RrwpEncoder::new(&rrwp, 4, vb()).unwrap();
        assert_counted(encoder.pairs(None, &batch));
    }
}
