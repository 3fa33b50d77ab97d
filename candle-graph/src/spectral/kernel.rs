//! The null space of a Laplacian, which is known: one vector a connected component.

use super::{Lanes, Laplacian, LaplacianNorm, operator::LANES};

/// An orthonormal basis of the null space of the symmetric matrix of a Laplacian. Every vector
/// lives on one connected component, where the entries are equal (combinatorial) or as the root of
/// the degree (normalised).
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// Which vector each node belongs to.
    vector: Vec<u32>,
    /// The node's entry in it; 0 for a node that belongs to none.
    entry: Vec<f64>,
    count: usize,
}

impl Laplacian {
    /// How many eigenvalues are 0: one a connected component, and of a normalised Laplacian none for
    /// an isolated node. Not for [`LaplacianNorm::RwLowerTriangle`].
    pub(crate) fn null_space_dim(&self) -> usize {
        Kernel::new(self).count()
    }
}

impl Kernel {
    /// No null space in `n` dimensions.
    pub(super) fn none(n: usize) -> Self {
        Self {
            vector: vec![0; n],
            entry: vec![0.0; n],
            count: 0,
        }
    }

    /// The null space of a Laplacian that is positive semidefinite (all but
    /// [`LaplacianNorm::RwLowerTriangle`]), vectors in the order of their first nodes.
    pub(super) fn new(laplacian: &Laplacian) -> Self {
        let n = laplacian.num_nodes();
        let mut parent: Vec<u32> = (0..n as u32).collect();
        for (i, j, _) in laplacian.weights() {
            let (a, b) = (root(&mut parent, i as u32), root(&mut parent, j as u32));
            // The root of a component is its first node.
            parent[a.max(b) as usize] = a.min(b);
        }
        let weight = |i: usize| match laplacian.norm() {
            LaplacianNorm::None => 1.0,
            _ => laplacian.degrees()[i],
        };
        let mut count = 0;
        let mut vector = vec![0u32; n];
        let mut total = Vec::new();
        for i in 0..n {
            let first = root(&mut parent, i as u32) as usize;
            if weight(i) == 0.0 {
                continue;
            }
            if first == i {
                vector[i] = count as u32;
                count += 1;
                total.push(0.0);
            }
            vector[i] = vector[first];
            total[vector[i] as usize] += weight(i);
        }
        let entry = (0..n).map(|i| match weight(i) {
            0.0 => 0.0,
            weight => (weight / total[vector[i] as usize]).sqrt(),
        });
        Self {
            entry: entry.collect(),
            vector,
            count,
        }
    }

    /// Its dimension.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first `count` vectors of the basis, one after the other.
    pub(super) fn vectors(&self, count: usize) -> Vec<f64> {
        let n = self.vector.len();
        let mut out = vec![0.0; n * count];
        for (i, (&vector, &entry)) in self.vector.iter().zip(&self.entry).enumerate() {
            if entry != 0.0 && (vector as usize) < count {
                out[vector as usize * n + i] = entry;
            }
        }
        out
    }

    /// Takes the part in the null space out of every vector of `block`.
    pub(super) fn project_out(&self, block: &mut [Lanes]) {
        if self.count == 0 {
            return;
        }
        let mut sums = vec![[0.0; LANES]; self.count];
        let nodes = || self.vector.iter().zip(&self.entry);
        for (row, (&vector, &entry)) in block.iter().zip(nodes()) {
            let sum = &mut sums[vector as usize];
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += entry * x;
            }
        }
        for (row, (&vector, &entry)) in block.iter_mut().zip(nodes()) {
            let sum = &sums[vector as usize];
            for (x, sum) in row.iter_mut().zip(sum) {
                *x -= entry * sum;
            }
        }
    }
}

/// The root of the tree of `node`, with shorter ways left behind.
fn root(parent: &mut [u32], mut node: u32) -> u32 {
    while parent[node as usize] != node {
        let above = parent[parent[node as usize] as usize];
        parent[node as usize] = above;
        node = above;
    }
    node
}
