//! Edges, paths and distances between the nodes of a random directed graph.

use std::ops::RangeInclusive;

use petgraph::unionfind::UnionFind;

use super::hops::hops;
use super::numpy_random::NumpyRandom;
use super::{SyntheticError, in_range};
use crate::error::Result;
use crate::graph::{Graph, GraphBuilder, Targets};

/// Random directed graphs without node features, with every ordered pair of nodes to score. The
/// draws are those of the official code (`script_generate_distance_np.py`, unweighted), number by
/// number, and the graphs of a seed those of its training split for `numpy.random.seed(seed)`; only
/// where a component of less than half of the nodes is kept, networkx may number its nodes in
/// another order than here, which is ascending.
///
/// A graph has a number of nodes and an average degree drawn from those given; each ordered pair is
/// an edge with the probability degree / (nodes − 1), self loops included. Edges stand in the order
/// of their sources, then of their targets.
///
/// `edge_label_index` holds all n² pairs, source s and target t at place t·n + s, and `y` a value a
/// pair, NaN where there is nothing to predict (the official code has −1 there).
///
/// The default are the graphs on which the paper trains adjacency and reachability (`adj_c`,
/// `con_c`), 16 to 17 nodes; it validates on 18 to 19 and tests on 20 to 27. Distances are trained
/// on 16 to 63, validated on 64 to 71 and tested on 72 to 83.
///
/// ```
/// use candle_graph::datasets::synthetic::{Distances, PairTarget};
///
/// let task = Distances { target: PairTarget::Distance, ..Distances::default() };
/// let graph = task.graphs(42)?.next().unwrap()?;
/// let pairs = graph.edge_label_index().unwrap();
/// assert_eq!(pairs.len() as u64, graph.num_pairs());
/// # Ok::<(), candle_graph::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Distances {
    /// Numbers of nodes, all equally likely, before a component is chosen.
    pub nodes: RangeInclusive<usize>,
    /// Average numbers of edges from a node, all equally likely, as before an acyclic graph loses
    /// half of them: [`REGULAR_DEGREES`](Self::REGULAR_DEGREES) or
    /// [`ACYCLIC_DEGREES`](Self::ACYCLIC_DEGREES).
    pub average_degrees: Vec<f64>,
    /// Whether only edges along a random order of the nodes are kept.
    pub acyclic: bool,
    /// Whether only the largest weakly connected component is kept, of equal ones that with the
    /// first node.
    pub connected: bool,
    /// What is asked of a pair.
    pub target: PairTarget,
}

/// What is asked of an ordered pair of nodes, the source and the target. A node and itself is never
/// a question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairTarget {
    /// 1 if there is an edge, else 0.
    #[default]
    Adjacency,
    /// 1 if a directed path leads from source to target, else 0.
    Reachability,
    /// The number of edges of the shortest directed path; without a path no question.
    Distance,
    /// The number of edges of the shortest path that may take edges in either direction; without a
    /// path no question.
    UndirectedDistance,
}

impl PairTarget {
    /// The answer for every ordered pair of nodes of `graph`, source s and target t at place
    /// t·n + s; none where there is no question.
    ///
    /// The official code stores its matrices of distances and reachability the other way round than
    /// those of edges: their row is the target of the path, while the row of an adjacency matrix is
    /// the source of the edge. Here the pair of source and target is the same for all.
    pub fn of(self, graph: &Graph) -> Vec<Option<u32>> {
        self.answers(graph.num_nodes(), graph.edges())
    }

    /// The same for `edges` among `n` nodes.
    fn answers(self, n: usize, edges: &[[u32; 2]]) -> Vec<Option<u32>> {
        let mut neighbours = vec![Vec::new(); n];
        for &[source, target] in edges {
            neighbours[source as usize].push(target);
            if self == Self::UndirectedDistance {
                neighbours[target as usize].push(source);
            }
        }
        let mut answers = vec![None; n * n];
        for source in 0..n {
            let of_target: Vec<Option<u32>> = match self {
                Self::Adjacency => {
                    let mut edges = vec![Some(0); n];
                    let neighbours = neighbours[source].iter();
                    neighbours.for_each(|&target| edges[target as usize] = Some(1));
                    edges
                }
                Self::Reachability => {
                    let reached = hops(&neighbours, source).into_iter();
                    reached
                        .map(|hops| Some(u32::from(hops.is_some())))
                        .collect()
                }
                Self::Distance | Self::UndirectedDistance => {
                    let hops = hops(&neighbours, source).into_iter();
                    hops.map(|hops| hops.map(|hops| hops as u32)).collect()
                }
            };
            for (target, answer) in of_target.into_iter().enumerate() {
                answers[target * n + source] = answer.filter(|_| source != target);
            }
        }
        answers
    }
}

/// The most nodes: there are n² pairs.
const MAX_NODES: usize = 1 << 10;

impl Default for Distances {
    fn default() -> Self {
        Self {
            nodes: 16..=17,
            average_degrees: Self::REGULAR_DEGREES.to_vec(),
            acyclic: false,
            connected: true,
            target: PairTarget::Adjacency,
        }
    }
}

impl Distances {
    /// Average degrees of the official graphs that may have cycles.
    pub const REGULAR_DEGREES: [f64; 3] = [1.0, 1.5, 2.0];
    /// Those of the official acyclic ones, of which half of the edges are left.
    pub const ACYCLIC_DEGREES: [f64; 5] = [1.0, 1.5, 2.0, 2.5, 3.0];

    /// The graphs of `seed`, without end, numbered from 0.
    ///
    /// # Errors
    /// Options that no graph can be made with: fewer than 2 nodes or more than 1024, no degree, a
    /// degree that is not between 0 and the smallest number of nodes less one.
    pub fn graphs(&self, seed: u64) -> Result<impl Iterator<Item = Result<Graph>> + use<>> {
        self.check()?;
        let task = self.clone();
        let mut random = NumpyRandom::new(seed);
        Ok((0i64..).map(move |id| task.draw(&mut random).id(id).build()))
    }

    fn check(&self) -> Result<(), SyntheticError> {
        let (smallest, largest) = (*self.nodes.start(), *self.nodes.end());
        in_range("nodes", largest, (2, MAX_NODES))?;
        in_range("nodes", smallest, (2, largest))?;
        if self.average_degrees.is_empty() {
            let option = "average_degrees";
            return Err(SyntheticError::NoneGiven { option });
        }
        let largest = smallest - 1;
        let range = 0.0..=largest as f64;
        match self.average_degrees.iter().find(|d| !range.contains(d)) {
            Some(&value) => Err(SyntheticError::AverageDegree { value, largest }),
            None => Ok(()),
        }
    }

    fn draw(&self, random: &mut NumpyRandom) -> GraphBuilder {
        let smallest = *self.nodes.start();
        let drawn = smallest + random.below(self.nodes.end() - smallest + 1);
        let degree = self.average_degrees[random.below(self.average_degrees.len())];
        let mut edges = self.draw_edges(drawn, degree / (drawn - 1) as f64, random);
        let nodes = match self.connected {
            true => keep_largest_component(drawn, &mut edges),
            false => drawn,
        };
        let sources = 0..nodes as u32;
        let pairs =
            sources.flat_map(|target| (0..nodes as u32).map(move |source| [source, target]));
        let answers = self.target.answers(nodes, &edges).into_iter();
        let data = answers.map(|answer| answer.map_or(f32::NAN, |answer| answer as f32));
        Graph::builder(nodes)
            .edge_label_index(pairs)
            .targets(Targets {
                width: 1,
                data: data.collect(),
            })
            .edges(edges)
    }

    /// Edges among `n` nodes, each with `probability`, in ascending order.
    fn draw_edges(&self, n: usize, probability: f64, random: &mut NumpyRandom) -> Vec<[u32; 2]> {
        let pairs = (0..n).flat_map(|source| (0..n).map(move |target| [source, target]));
        let drawn: Vec<bool> = pairs.map(|_| random.chance(probability)).collect();
        // Place i of the order has the node of that number in the drawn matrix.
        let order = match self.acyclic {
            true => random.permutation(n),
            false => (0..n).collect(),
        };
        let pairs = (0..n).flat_map(|source| (0..n).map(move |target| [source, target]));
        pairs
            .filter(|pair| {
                let [row, column] = pair.map(|node| order[node]);
                drawn[row * n + column] && (!self.acyclic || row < column)
            })
            .map(|pair| pair.map(|node| node as u32))
            .collect()
    }
}

/// Leaves the edges of the largest weakly connected component of `n` nodes, of equal ones that with
/// the first node, and renumbers its nodes in their order. Gives their number.
fn keep_largest_component(n: usize, edges: &mut Vec<[u32; 2]>) -> usize {
    let mut components = UnionFind::<usize>::new(n);
    for edge in edges.iter() {
        let [a, b] = edge.map(|node| node as usize);
        components.union(a, b);
    }
    let component_of = components.into_labeling();
    let mut sizes = vec![0usize; n];
    component_of
        .iter()
        .for_each(|&component| sizes[component] += 1);
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let first = component_of
        .iter()
        .find(|&&component| sizes[component] == largest);
    let mut kept = 0;
    let numbers: Vec<Option<u32>> = component_of
        .iter()
        .map(|component| {
            (Some(component) == first).then(|| {
                kept += 1;
                kept - 1
            })
        })
        .collect();
    let renumbered = edges.iter().filter_map(|&[source, target]| {
        Some([numbers[source as usize]?, numbers[target as usize]?])
    });
    *edges = renumbered.collect();
    largest
}
