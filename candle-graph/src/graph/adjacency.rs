//! Edges by target.

use std::sync::{Arc, OnceLock};

use candle_core::{Device, Error, Result, Tensor};

use super::Offsets;
use super::by_source::BySource;
use super::index_tensors::IndexTensors;

/// Directed edges sorted by target (compressed rows): what every aggregation over the neighbours
/// of a node runs along.
#[derive(Debug, Clone)]
pub struct Adjacency {
    sources: Vec<u32>,
    targets: Vec<u32>,
    ptr: Offsets,
    tensors: IndexTensors,
    by_source: OnceLock<Arc<BySource>>,
}

impl Adjacency {
    /// From edges whose targets are non-decreasing, among `num_nodes` nodes.
    ///
    /// # Errors
    /// Lists of different lengths, targets out of order, nodes that do not exist.
    pub(crate) fn from_sorted(
        sources: Vec<u32>,
        targets: Vec<u32>,
        num_nodes: usize,
        device: &Device,
    ) -> Result<Self> {
        let exists = |&node: &u32| (node as usize) < num_nodes;
        if sources.len() != targets.len()
            || !targets.is_sorted()
            || !sources.iter().chain(targets.last()).all(exists)
        {
            candle_core::bail!("the edges are not those of {num_nodes} nodes, sorted by target");
        }
        let mut in_degrees = vec![0usize; num_nodes];
        for &target in &targets {
            in_degrees[target as usize] += 1;
        }
        Ok(Self {
            sources,
            targets,
            ptr: Offsets::from_lengths(in_degrees, device).map_err(Error::wrap)?,
            tensors: IndexTensors::default(),
            by_source: OnceLock::new(),
        })
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> usize {
        self.ptr.num_segments()
    }

    /// Number of directed edges.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there is no edge.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Source of every edge.
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// Target of every edge; non-decreasing.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Incoming edges of every node: one segment a node.
    pub fn ptr(&self) -> &Offsets {
        &self.ptr
    }

    /// Sources and targets on the device, u32 `[edges]` each.
    pub fn tensors(&self) -> Result<(&Tensor, &Tensor)> {
        self.tensors
            .get([&self.sources, &self.targets], self.ptr.device())
    }

    /// The edges in the order of their sources, made when first asked for.
    pub(crate) fn by_source(&self) -> Result<&BySource> {
        if let Some(made) = self.by_source.get() {
            return Ok(made);
        }
        let made = BySource::new(&self.sources, self.num_nodes(), self.ptr.device())?;
        Ok(self.by_source.get_or_init(|| Arc::new(made)))
    }
}

/// The same edges with every node a neighbour of itself exactly once: self loops that are there
/// are left out, and one is added to the end of every node's incoming edges.
#[derive(Debug, Clone)]
pub struct SelfLooped {
    adjacency: Adjacency,
    rows: Tensor,
    symmetric: Tensor,
}

impl SelfLooped {
    /// From edges without this treatment.
    pub(super) fn new(edges: &Adjacency) -> Result<Self> {
        let device = edges.ptr().device();
        let (count, nodes) = (edges.len(), edges.num_nodes());
        let room = count.saturating_add(nodes);
        let mut sources = Vec::with_capacity(room);
        let mut targets = Vec::with_capacity(room);
        let mut rows = Vec::with_capacity(room);
        for (node, incoming) in edges.ptr().ranges().enumerate() {
            for edge in incoming {
                let source = edges.sources()[edge];
                if source as usize != node {
                    sources.push(source);
                    targets.push(node as u32);
                    rows.push(edge as u32);
                }
            }
            sources.push(node as u32);
            targets.push(node as u32);
            // In u64, as the sum may be beyond 32 bits where neither number is.
            let row = u32::try_from(count as u64 + node as u64).map_err(Error::wrap)?;
            rows.push(row);
        }
        let adjacency = Adjacency::from_sorted(sources, targets, nodes, device)?;
        let factors: Vec<f32> = (adjacency.ptr().lengths())
            .map(|degree| 1.0 / (degree as f32).sqrt())
            .collect();
        let weights: Vec<f32> = (adjacency.sources().iter().zip(adjacency.targets()))
            .map(|(&s, &t)| factors[s as usize] * factors[t as usize])
            .collect();
        let len = rows.len();
        Ok(Self {
            rows: Tensor::from_vec(rows, len, device)?,
            symmetric: Tensor::from_vec(weights, (len, 1), device)?,
            adjacency,
        })
    }

    /// The edges with their self loops.
    pub fn adjacency(&self) -> &Adjacency {
        &self.adjacency
    }

    /// For every edge its row in a table of the original edges followed by the nodes, which stand
    /// for their self loops: u32 `[edges]`.
    pub fn rows(&self) -> &Tensor {
        &self.rows
    }

    /// `1/√(d_s·d_t)` of every edge with the in-degrees d of these edges, f32 `[edges, 1]`: the
    /// symmetrically normalised adjacency matrix of graph convolutions.
    pub fn symmetric_weights(&self) -> &Tensor {
        &self.symmetric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn self_loops_are_replaced_and_not_doubled() {
        // 0 -> 0 twice, 1 -> 0, 0 -> 2; node 1 receives nothing.
        let edges =
            Adjacency::from_sorted(vec![0, 0, 1, 0], vec![0, 0, 0, 2], 3, &Device::Cpu).unwrap();
        let looped = SelfLooped::new(&edges).unwrap();
        assert_eq!(looped.adjacency().sources(), [1, 0, 1, 0, 2]);
        assert_eq!(looped.adjacency().targets(), [0, 0, 1, 2, 2]);
        assert_eq!(looped.adjacency().ptr().as_slice(), [0, 2, 3, 5]);
        assert_eq!(looped.rows().to_vec1::<u32>().unwrap(), [2, 4, 5, 3, 6]);
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let weights = looped.symmetric_weights().flatten_all().unwrap();
        for (found, expected) in (weights.to_vec1::<f32>().unwrap().iter()).zip([
            half,
            half * half,
            1.0,
            half * half,
            half * half,
        ]) {
            assert!((found - expected).abs() < 1e-7);
        }
    }

    #[test]
    fn edges_that_do_not_fit_are_refused() {
        let make = |sources: &[u32], targets: &[u32]| {
            Adjacency::from_sorted(sources.to_vec(), targets.to_vec(), 2, &Device::Cpu)
        };
        assert!(make(&[0, 1], &[0, 1]).is_ok());
        assert!(make(&[0], &[0, 1]).is_err());
        assert!(make(&[0, 0], &[1, 0]).is_err());
        assert!(make(&[2], &[0]).is_err());
        assert!(make(&[0], &[2]).is_err());
    }
}
