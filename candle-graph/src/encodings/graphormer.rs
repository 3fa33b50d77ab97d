//! What Graphormer's attention bias and degree embeddings need.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{EncodingArray, Level};
use crate::error::{Error, Result};
use crate::graph::Graph;

/// Array name of in-degrees, `[nodes, 1]`.
pub const GRAPHORMER_IN_DEGREES: &str = "graphormer.in_degrees";
/// Array name of out-degrees, `[nodes, 1]`.
pub const GRAPHORMER_OUT_DEGREES: &str = "graphormer.out_degrees";
/// Array name of the lengths of shortest paths, `[pairs, 1]`: for the pair (source `s`, target `t`)
/// the edges from `t` to `s`, at most `spatial_types − 1`; `spatial_types` where there is no path.
pub const GRAPHORMER_DISTANCES: &str = "graphormer.distances";
/// Array name of the nodes before the last on shortest paths, `[pairs, 1]`: for the pair
/// (source `s`, target `t`) the node before `s` on the way from `t`, numbered in the graph. For a
/// way of `spatial_types` edges or more it is the node after the first `spatial_types − 1` of them.
/// −1 where there is no way or no edge.
pub const GRAPHORMER_PREDECESSORS: &str = "graphormer.predecessors";

/// Lengths of shortest paths, the paths themselves, and degrees (`posenc_GraphormerBias`).
///
/// Directed edges are taken as they are; a repeated edge is one edge, and a self loop is one edge
/// in and one out. Of several shortest paths the official code takes the one that a breadth-first
/// search from the start finds first when it visits neighbours in the order in which the graph
/// lists the edges; so does this. Where edges have types, the bias therefore depends on the order
/// of the edges of a graph in which shortest paths are not unique.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Graphormer {
    /// Distances from here on count as one (`num_spatial_types`).
    pub spatial_types: usize,
    /// In-degrees must be below (`num_in_degrees`).
    pub in_degrees: usize,
    /// Out-degrees must be below (`num_out_degrees`).
    pub out_degrees: usize,
    /// Only the degrees, no attention bias (`node_degrees_only`).
    pub degrees_only: bool,
    /// Whether the categories of edges along shortest paths are part of the bias: in the official
    /// code, whether the graphs of the data set have `edge_attr`.
    pub edge_types: bool,
}

impl Graphormer {
    /// Raise it whenever the values change: cached encodings of other versions are not used.
    pub(super) const VERSION: u32 = 1;

    fn has_paths(&self) -> bool {
        self.edge_types && !self.degrees_only
    }

    /// Whether the values depend on the order of the edges: which of several shortest paths does.
    pub(super) fn reads_edge_order(&self) -> bool {
        self.has_paths()
    }

    pub(super) fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        let mut arrays = vec![
            (GRAPHORMER_IN_DEGREES, Level::Node, 1),
            (GRAPHORMER_OUT_DEGREES, Level::Node, 1),
        ];
        if !self.degrees_only {
            arrays.push((GRAPHORMER_DISTANCES, Level::Pair, 1));
        }
        if self.has_paths() {
            arrays.push((GRAPHORMER_PREDECESSORS, Level::Pair, 1));
        }
        arrays
    }

    pub(super) fn check(&self) -> Result<()> {
        let sizes = [
            ("spatial types", self.spatial_types),
            ("in-degrees", self.in_degrees),
            ("out-degrees", self.out_degrees),
        ];
        match sizes.iter().find(|&&(_, size)| size == 0 || size > 1 << 20) {
            Some((what, size)) => Err(Error::Encoding(format!(
                "Graphormer with {size} {what}; it needs 1 to 1048576"
            ))),
            None => Ok(()),
        }
    }

    /// Refuses degrees beyond the tables, and node numbers that f32 cannot hold.
    pub(super) fn check_graph(&self, graph: &Graph) -> Result<()> {
        if graph.num_nodes() > 1 << 24 {
            return Err(Error::Encoding(format!(
                "Graphormer's encoding of {} nodes; it takes at most {}",
                graph.num_nodes(),
                1 << 24
            )));
        }
        let [into, out] = degrees(graph);
        for (what, option, degrees, table) in [
            ("in-degree", "num_in_degrees", into, self.in_degrees),
            ("out-degree", "num_out_degrees", out, self.out_degrees),
        ] {
            let largest = degrees.into_iter().max().unwrap_or(0) as usize;
            if largest >= table {
                return Err(Error::Encoding(format!(
                    "a node has the {what} {largest}, but the model's table of {what}s has {table} \
                     rows; a model for this graph needs {option} of at least {}",
                    largest + 1
                )));
            }
        }
        Ok(())
    }

    pub(super) fn compute(&self, graph: &Graph) -> Vec<EncodingArray> {
        let n = graph.num_nodes();
        let as_f32 = |values: Vec<u32>| values.into_iter().map(|v| v as f32).collect();
        let mut data: Vec<Vec<f32>> = degrees(graph).map(as_f32).into();
        if !self.degrees_only {
            let neighbours = Neighbours::new(graph);
            let mut distances = vec![0.0f32; n * n];
            let mut predecessors = vec![0.0f32; n * n];
            distances
                .par_chunks_mut(n)
                .zip(predecessors.par_chunks_mut(n))
                .enumerate()
                .with_min_len(64)
                .for_each(|(start, (distances, predecessors))| {
                    self.search(&neighbours, start, distances, predecessors);
                });
            data.push(distances);
            if self.has_paths() {
                data.push(predecessors);
            }
        }
        let named = self.arrays().into_iter().zip(data);
        let array = |((name, level, width), data): ((&str, _, _), _)| EncodingArray {
            name: name.to_string(),
            level,
            width,
            data,
        };
        named.map(array).collect()
    }

    /// Breadth-first search from `start`; `distances` and `predecessors` are the rows of the pairs
    /// whose target is `start`.
    fn search(
        &self,
        neighbours: &Neighbours,
        start: usize,
        distances: &mut [f32],
        predecessors: &mut [f32],
    ) {
        let furthest = self.spatial_types - 1;
        distances.fill(self.spatial_types as f32);
        predecessors.fill(-1.0);
        // A node with its true distance and the node that counts as its predecessor's successor.
        let mut queue = Vec::with_capacity(distances.len());
        let mut seen = vec![false; distances.len()];
        seen[start] = true;
        distances[start] = 0.0;
        queue.push((start, 0usize));
        let mut next = 0;
        while let Some(&(node, length)) = queue.get(next) {
            next += 1;
            for &neighbour in neighbours.of(node) {
                let neighbour = neighbour as usize;
                if seen[neighbour] {
                    continue;
                }
                seen[neighbour] = true;
                let length = length + 1;
                distances[neighbour] = length.min(furthest) as f32;
                // Behind the furthest distance that counts, all have the node there in common.
                predecessors[neighbour] = match length <= furthest + 1 {
                    true => node as f32,
                    false => predecessors[node],
                };
                queue.push((neighbour, length));
            }
        }
    }
}

/// In- and out-degrees, repeated edges counted once.
fn degrees(graph: &Graph) -> [Vec<u32>; 2] {
    let mut edges = graph.edges().to_vec();
    edges.sort_unstable();
    edges.dedup();
    let [mut into, mut out] = [(); 2].map(|()| vec![0u32; graph.num_nodes()]);
    for [source, target] in edges {
        out[source as usize] += 1;
        into[target as usize] += 1;
    }
    [into, out]
}

/// Targets of the edges of every node, in the order in which the graph lists the edges.
struct Neighbours {
    ptr: Vec<usize>,
    targets: Vec<u32>,
}

impl Neighbours {
    fn new(graph: &Graph) -> Self {
        let mut ptr = vec![0; graph.num_nodes() + 1];
        for [source, _] in graph.edges() {
            ptr[*source as usize + 1] += 1;
        }
        for node in 0..graph.num_nodes() {
            ptr[node + 1] += ptr[node];
        }
        let mut free = ptr.clone();
        let mut targets = vec![0; graph.num_edges()];
        for &[source, target] in graph.edges() {
            let slot = &mut free[source as usize];
            targets[*slot] = target;
            *slot += 1;
        }
        Self { ptr, targets }
    }

    fn of(&self, node: usize) -> &[u32] {
        &self.targets[self.ptr[node]..self.ptr[node + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(spatial_types: usize) -> Graphormer {
        Graphormer {
            spatial_types,
            in_degrees: 4,
            out_degrees: 4,
            degrees_only: false,
            edge_types: true,
        }
    }

    fn graph(n: usize, edges: &[[i64; 2]]) -> Graph {
        let edges = edges.iter().copied();
        Graph::builder(n).edges(edges).build().unwrap()
    }

    /// In-degrees, out-degrees, distances, predecessors.
    fn data(recipe: &Graphormer, graph: &Graph) -> Vec<Vec<f32>> {
        let arrays = recipe.compute(graph);
        let names: Vec<_> = recipe.arrays().iter().map(|(name, ..)| *name).collect();
        assert!(arrays.iter().map(|a| a.name.as_str()).eq(names));
        arrays.into_iter().map(|a| a.data).collect()
    }

    #[test]
    fn directed_paths_start_at_the_target_of_the_pair() {
        // 0 -> 1 -> 2, node 3 apart.
        let data = data(&recipe(5), &graph(4, &[[0, 1], [1, 2]]));
        assert_eq!(data[0], [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(data[1], [1.0, 1.0, 0.0, 0.0]);
        let distances = [
            [0.0, 1.0, 2.0, 5.0],
            [5.0, 0.0, 1.0, 5.0],
            [5.0, 5.0, 0.0, 5.0],
            [5.0, 5.0, 5.0, 0.0],
        ];
        assert_eq!(data[2], distances.as_flattened());
        let predecessors = [
            [-1.0, 0.0, 1.0, -1.0],
            [-1.0, -1.0, 1.0, -1.0],
            [-1.0; 4],
            [-1.0; 4],
        ];
        assert_eq!(data[3], predecessors.as_flattened());
    }

    #[test]
    fn far_nodes_count_as_the_furthest_distance_and_share_its_node() {
        let path = graph(6, &[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]);
        let data = data(&recipe(3), &path);
        assert_eq!(data[2][..6], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(data[3][..6], [-1.0, 0.0, 1.0, 2.0, 2.0, 2.0]);
        let one = self::data(&recipe(1), &path);
        assert_eq!(one[2][..6], [0.0; 6]);
        assert_eq!(one[3][..6], [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn of_equal_paths_the_one_listed_first_counts() {
        let through = |edges| data(&recipe(5), &graph(4, edges))[3][3];
        assert_eq!(through(&[[0, 1], [0, 2], [1, 3], [2, 3]]), 1.0);
        assert_eq!(through(&[[0, 2], [0, 1], [1, 3], [2, 3]]), 2.0);
    }

    #[test]
    fn repeated_edges_and_loops_are_one_edge() {
        let data = data(&recipe(5), &graph(2, &[[0, 1], [0, 1], [0, 0], [0, 0]]));
        assert_eq!((&data[0], &data[1]), (&vec![1.0, 1.0], &vec![2.0, 0.0]));
    }

    #[test]
    fn only_what_is_asked_for_is_made() {
        let star = graph(3, &[[0, 1], [0, 2]]);
        let untyped = Graphormer {
            edge_types: false,
            ..recipe(5)
        };
        assert_eq!(data(&untyped, &star).len(), 3);
        let degrees_only = Graphormer {
            degrees_only: true,
            ..recipe(5)
        };
        assert_eq!(data(&degrees_only, &star).len(), 2);
    }

    #[test]
    fn degrees_beyond_the_tables_are_refused_with_the_number_needed() {
        let out = graph(5, &[[0, 1], [0, 2], [0, 3], [0, 4], [0, 1]]);
        let into = graph(5, &[[1, 0], [2, 0], [3, 0], [4, 0]]);
        for (graph, what) in [(&out, "num_out_degrees"), (&into, "num_in_degrees")] {
            let error = recipe(3).check_graph(graph).unwrap_err().to_string();
            assert!(error.contains(&format!("{what} of at least 5")), "{error}");
        }
        let fits = graph(4, &[[0, 1], [0, 2], [0, 3]]);
        assert!(recipe(3).check_graph(&fits).is_ok());
        assert!(recipe(0).check().is_err());
    }
}
