//! The distance of two marked nodes of a small-world graph.

use super::watts_strogatz::WattsStrogatz;
use super::{Random, SyntheticError, in_range, in_size, labelled, numbered};
use crate::error::Result;
use crate::graph::{Graph, GraphBuilder};

/// A Watts–Strogatz graph with a source and a target, two different nodes that are marked in the two
/// columns of the features. The target is the number of hops from one to the other.
///
/// The default is the paper's: 10 nodes, 2 neighbours, rewiring probability 0.6.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortestPath {
    /// Nodes of a graph.
    pub nodes: usize,
    /// Neighbours of a node in the ring, before edges are rewired; an odd number counts as the even
    /// one below it, and all nodes as a complete graph, as in networkx.
    pub neighbours: usize,
    /// Probability that an edge gets another end.
    pub rewiring: f64,
    /// What is done where no path leads from source to target.
    pub unreachable: Unreachable,
}

/// What is done where no path leads from source to target; the paper does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreachable {
    /// Graphs are drawn until one is connected, as for the trained models of this repository. With
    /// two neighbours the share of connected ones falls as the root of the number of nodes grows.
    #[default]
    RedrawGraph,
    /// Source and target are a uniform pair of those with a path, in whatever graph came up.
    RedrawPair,
}

impl Default for ShortestPath {
    fn default() -> Self {
        Self {
            nodes: 10,
            neighbours: 2,
            rewiring: 0.6,
            unreachable: Unreachable::RedrawGraph,
        }
    }
}

impl ShortestPath {
    /// The graphs of `seed`, without end. With [`Unreachable::RedrawPair`] the first one is that of
    /// networkx for the same options and seed.
    ///
    /// # Errors
    /// Options that no graph can be made with.
    pub fn graphs(&self, seed: u64) -> Result<impl Iterator<Item = Result<Graph>> + use<>> {
        self.check()?;
        let task = self.clone();
        Ok(numbered(seed, move |random| task.draw(random)))
    }

    fn check(&self) -> Result<(), SyntheticError> {
        in_range("nodes", self.nodes, (2, super::MAX_SIZE))?;
        // From 2 neighbours on there are edges, and with them pairs that a path joins.
        in_range("neighbours", self.neighbours, (2, self.nodes))?;
        let edges = match self.neighbours == self.nodes {
            true => self.nodes.saturating_mul(self.nodes - 1) / 2,
            false => self.nodes.saturating_mul(self.neighbours / 2),
        };
        in_size(self.nodes, edges)?;
        match (0.0..=1.0).contains(&self.rewiring) {
            true => Ok(()),
            false => Err(SyntheticError::Probability {
                option: "rewiring",
                value: self.rewiring,
            }),
        }
    }

    fn draw(&self, random: &mut Random) -> GraphBuilder {
        let (graph, [source, target], hops) = match self.unreachable {
            Unreachable::RedrawGraph => self.connected(random),
            Unreachable::RedrawPair => self.joined_pair(random),
        };
        let marks = [(source, 0), (target, 1)];
        labelled(self.nodes, &graph.edges(), marks, 2, hops)
    }

    fn graph(&self, random: &mut Random) -> WattsStrogatz {
        WattsStrogatz::draw(self.nodes, self.neighbours, self.rewiring, random)
    }

    /// A connected graph, two of its nodes, and their distance.
    fn connected(&self, random: &mut Random) -> (WattsStrogatz, [usize; 2], usize) {
        loop {
            let graph = self.graph(random);
            if graph.hops(0).contains(&None) {
                continue;
            }
            let source = random.below(self.nodes as u32) as usize;
            let other = random.below(self.nodes as u32 - 1) as usize;
            let target = other + usize::from(other >= source);
            if let Some(hops) = graph.hops(source)[target] {
                return (graph, [source, target], hops);
            }
        }
    }

    /// A graph, two nodes of it that a path joins, and their distance.
    fn joined_pair(&self, random: &mut Random) -> (WattsStrogatz, [usize; 2], usize) {
        let graph = self.graph(random);
        // There are edges, so that some pair ends the loop.
        loop {
            let source = random.below(self.nodes as u32) as usize;
            let target = random.below(self.nodes as u32) as usize;
            if source != target
                && let Some(hops) = graph.hops(source)[target]
            {
                return (graph, [source, target], hops);
            }
        }
    }
}
