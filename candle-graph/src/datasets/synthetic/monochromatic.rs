//! The largest one-coloured part of a damaged grid.

use petgraph::unionfind::UnionFind;

use super::{Random, SyntheticError, in_range, in_size, labelled, numbered};
use crate::error::Result;
use crate::graph::{Graph, GraphBuilder};

/// A grid with some of its edges deleted and every node coloured at random. The target is the number
/// of nodes of the largest connected subgraph of one colour.
///
/// The default is the paper's 5×5 grid without deletions (it also deletes 5, 10 and 15), with three
/// colours. The paper does not say how many it has: its errors point to two, and the trained models
/// of this repository have seen three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monochromatic {
    /// Rows of the grid.
    pub rows: usize,
    /// Columns of the grid.
    pub columns: usize,
    /// Edges that are deleted, each set of so many being equally likely.
    pub deleted_edges: usize,
    /// Colours, all equally likely for every node; also the width of the features, which are one-hot.
    pub colours: usize,
}

impl Default for Monochromatic {
    fn default() -> Self {
        Self {
            rows: 5,
            columns: 5,
            deleted_edges: 0,
            colours: 3,
        }
    }
}

/// The most colours: a column of features each.
const MAX_COLOURS: usize = 1 << 6;

impl Monochromatic {
    /// The graphs of `seed`, without end. Node `row·columns + column` stands at that place of the
    /// grid.
    ///
    /// # Errors
    /// Options that no graph can be made with.
    pub fn graphs(&self, seed: u64) -> Result<impl Iterator<Item = Result<Graph>> + use<>> {
        self.check()?;
        let task = self.clone();
        let edges = task.grid();
        Ok(numbered(seed, move |random| task.draw(&edges, random)))
    }

    fn check(&self) -> Result<(), SyntheticError> {
        in_range("rows", self.rows, (1, super::MAX_SIZE))?;
        in_range("columns", self.columns, (1, super::MAX_SIZE))?;
        let nodes = self.rows.saturating_mul(self.columns);
        let lines = |along: usize, across: usize| (along - 1).saturating_mul(across);
        let edges = lines(self.rows, self.columns).saturating_add(lines(self.columns, self.rows));
        in_size(nodes, edges)?;
        in_range("deleted_edges", self.deleted_edges, (0, edges))?;
        in_range("colours", self.colours, (1, MAX_COLOURS))
    }

    /// The edges of the grid, in the order of their first nodes.
    fn grid(&self) -> Vec<[u32; 2]> {
        let place = |row: usize, column: usize| (row * self.columns + column) as u32;
        let places = (0..self.rows).flat_map(|row| (0..self.columns).map(move |c| (row, c)));
        let edges = places.flat_map(|(row, column)| {
            let right = (column + 1 < self.columns).then(|| place(row, column + 1));
            let down = (row + 1 < self.rows).then(|| place(row + 1, column));
            let neighbours = [right, down].into_iter().flatten();
            neighbours.map(move |other| [place(row, column), other])
        });
        edges.collect()
    }

    fn draw(&self, grid: &[[u32; 2]], random: &mut Random) -> GraphBuilder {
        let nodes = self.rows * self.columns;
        let mut edges = grid.to_vec();
        random.choose_to_front(&mut edges, self.deleted_edges);
        let mut edges = edges.split_off(self.deleted_edges);
        edges.sort_unstable();
        let colours: Vec<usize> = (0..nodes)
            .map(|_| random.below(self.colours as u32) as usize)
            .collect();
        let target = largest_part(&edges, &colours);
        let marks = colours.iter().copied().enumerate();
        labelled(nodes, &edges, marks, self.colours, target)
    }
}

/// The number of nodes of the largest connected subgraph of one colour.
fn largest_part(edges: &[[u32; 2]], colours: &[usize]) -> usize {
    let mut parts = UnionFind::<usize>::new(colours.len());
    for edge in edges {
        let [a, b] = edge.map(|node| node as usize);
        if colours[a] == colours[b] {
            parts.union(a, b);
        }
    }
    let mut sizes = vec![0; colours.len()];
    for part in parts.into_labeling() {
        sizes[part] += 1;
    }
    sizes.into_iter().max().unwrap_or(0)
}
