//! Small-world graphs (Watts and Strogatz, Nature 1998).

use super::Random;
use super::hops::hops;

/// An undirected graph as the neighbours of every node.
#[derive(Debug, Clone)]
pub(super) struct WattsStrogatz {
    neighbours: Vec<Vec<u32>>,
}

impl WattsStrogatz {
    /// Draws the graph that networkx's `watts_strogatz_graph(nodes, nearest, probability)` gives for
    /// the same random numbers: a ring in which every node is joined with the `nearest` nearest ones
    /// (one less when that is odd), then for every distance j and every node u, in this order, the
    /// edge from u to u + j gets, with `probability`, another end: a uniform one that is neither u
    /// nor a neighbour of u. A node that is joined with all others keeps its edge. With `nearest`
    /// equal to `nodes` the graph is complete.
    ///
    /// `nearest` must not be larger than `nodes`.
    pub(super) fn draw(
        nodes: usize,
        nearest: usize,
        probability: f64,
        random: &mut Random,
    ) -> Self {
        let mut graph = Self {
            neighbours: vec![Vec::new(); nodes],
        };
        if nearest == nodes {
            for u in 0..nodes {
                (u + 1..nodes).for_each(|v| graph.join(u, v));
            }
            return graph;
        }
        let ring = || (1..=nearest / 2).flat_map(|j| (0..nodes).map(move |u| (u, (u + j) % nodes)));
        ring().for_each(|(u, v)| graph.join(u, v));
        for (u, v) in ring() {
            if random.unit() < probability
                && let Some(w) = graph.new_end(u, random)
            {
                graph.part(u, v);
                graph.join(u, w);
            }
        }
        graph
    }

    /// A uniform node that is neither `u` nor a neighbour of it; none where there is none.
    fn new_end(&self, u: usize, random: &mut Random) -> Option<usize> {
        let nodes = self.neighbours.len();
        let mut draw = || random.below(nodes as u32) as usize;
        let mut w = draw();
        while w == u || self.neighbours[u].contains(&(w as u32)) {
            // The draw before the test is networkx's: it decides which numbers the next edges get.
            w = draw();
            if self.neighbours[u].len() + 1 >= nodes {
                return None;
            }
        }
        Some(w)
    }

    fn join(&mut self, u: usize, v: usize) {
        self.neighbours[u].push(v as u32);
        self.neighbours[v].push(u as u32);
    }

    fn part(&mut self, u: usize, v: usize) {
        self.neighbours[u].retain(|&other| other as usize != v);
        self.neighbours[v].retain(|&other| other as usize != u);
    }

    /// Every edge once, smaller node first, in ascending order.
    pub(super) fn edges(&self) -> Vec<[u32; 2]> {
        let ends = self.neighbours.iter().enumerate();
        let mut edges: Vec<[u32; 2]> = ends
            .flat_map(|(u, others)| others.iter().map(move |&v| [u as u32, v]))
            .filter(|[u, v]| u < v)
            .collect();
        edges.sort_unstable();
        edges
    }

    /// The number of hops from `source` to every node, none where no path leads.
    pub(super) fn hops(&self, source: usize) -> Vec<Option<usize>> {
        hops(&self.neighbours, source)
    }
}
