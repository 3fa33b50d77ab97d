//! The node pairs of a batch that a link prediction model scores.

use candle_core::{Device, Tensor};

use super::index_tensors::IndexTensors;
use super::{Graph, Offsets};
use crate::error::{Error, GraphProblem, Result};

/// What the field is, for messages.
const NEEDED: &str = "the node pairs to score, two lists of node numbers as in `edge_index` (empty \
                      for none)";

impl Graph {
    /// The node pairs to score, of a graph that a link prediction model reads. `position` names
    /// the graph in messages when it has no id.
    ///
    /// # Errors
    /// The graph has no field `edge_label_index`.
    pub fn required_edge_label_index(&self, position: usize) -> Result<&[[u32; 2]]> {
        self.edge_label_index().ok_or_else(|| {
            let problem = GraphProblem::MissingFeatures {
                field: "edge_label_index",
                needed: NEEDED.to_string(),
            };
            Error::graph(self.label(position), problem)
        })
    }
}

/// The ordered node pairs of all graphs of a batch, graph after graph, in input order.
#[derive(Debug, Clone)]
pub struct LabelPairs {
    sources: Vec<u32>,
    targets: Vec<u32>,
    ptr: Offsets,
    tensors: IndexTensors,
}

impl LabelPairs {
    /// Concatenates the pairs of `graphs`, whose nodes begin at `first_nodes`; `None` unless every
    /// graph has the field.
    ///
    /// # Errors
    /// More pairs than 32-bit indices address.
    pub(super) fn collect<G: AsRef<Graph>>(
        graphs: &[G],
        first_nodes: &[u32],
        device: &Device,
    ) -> Result<Option<Self>> {
        let of_graphs = graphs.iter().map(|g| g.as_ref().edge_label_index());
        let Some(of_graphs) = of_graphs.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let ptr = Offsets::from_lengths(of_graphs.iter().map(|pairs| pairs.len()), device)?;
        let numbered = |end: usize| -> Vec<u32> {
            let graphs = of_graphs.iter().zip(first_nodes);
            graphs
                .flat_map(|(pairs, &first)| pairs.iter().map(move |pair| first + pair[end]))
                .collect()
        };
        Ok(Some(Self {
            sources: numbered(0),
            targets: numbered(1),
            ptr,
            tensors: IndexTensors::default(),
        }))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// First node of every pair, numbered through the batch.
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// Second node of every pair, numbered through the batch.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Pairs of every graph.
    pub fn ptr(&self) -> &Offsets {
        &self.ptr
    }

    /// First and second nodes on the device, u32 `[pairs]` each.
    ///
    /// # Errors
    /// The device refused the memory.
    pub fn tensors(&self) -> candle_core::Result<(&Tensor, &Tensor)> {
        self.tensors
            .get([&self.sources, &self.targets], self.ptr.device())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBatch, InputSchema, Targets};

    fn graph(pairs: Option<&[[i64; 2]]>) -> Graph {
        let builder = Graph::builder(3).edges([[0, 1]]).id("a");
        match pairs {
            Some(pairs) => builder.edge_label_index(pairs.iter().copied()),
            None => builder,
        }
        .build()
        .unwrap()
    }

    #[test]
    fn pairs_are_numbered_through_the_batch() {
        let graphs = [
            graph(Some(&[[2, 0], [1, 1]])),
            graph(Some(&[])),
            graph(Some(&[[0, 2]])),
        ];
        let batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let pairs = batch.edge_label_index().unwrap();
        assert_eq!(
            (pairs.sources(), pairs.targets()),
            (&[2, 1, 6][..], &[0, 1, 8][..])
        );
        assert_eq!(pairs.ptr().as_slice(), [0, 2, 2, 3]);
        let (sources, targets) = pairs.tensors().unwrap();
        assert_eq!(sources.to_vec1::<u32>().unwrap(), [2, 1, 6]);
        assert_eq!(targets.to_vec1::<u32>().unwrap(), [0, 1, 8]);
    }

    #[test]
    fn a_graph_without_pairs_is_named() {
        let message = graph(None)
            .required_edge_label_index(0)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("graph \"a\": edge_label_index: missing"),
            "{message}"
        );
        let graphs = [graph(Some(&[[2, 0]])), graph(None)];
        let batch = GraphBatch::new(&graphs, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let message = batch.edge_label_index().unwrap_err().to_string();
        assert!(message.contains("edge_label_index"), "{message}");
    }

    #[test]
    fn pairs_and_their_targets_follow_renumbered_nodes() {
        let targets = Targets {
            width: 1,
            data: vec![1.0, 0.0, 1.0],
        };
        let graph = Graph::builder(3)
            .edge_label_index([[0, 1], [1, 2], [2, 2]])
            .targets(targets.clone())
            .build()
            .unwrap();
        let moved = graph.renumbered(&[2, 0, 1]).unwrap();
        assert_eq!(
            moved.edge_label_index(),
            Some(&[[2, 0], [0, 1], [1, 1]][..])
        );
        assert_eq!(moved.targets(), Some(&targets));
    }
}
