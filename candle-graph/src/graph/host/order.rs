//! Graphs with their nodes or edges in another order.

use super::{Features, Graph, Targets};
use crate::error::{Error, Result};

impl Graph {
    /// The same graph with its nodes renumbered: old node `i` becomes `new_of_old[i]`. Features and
    /// targets of nodes move along; where there are as many node pairs to score as nodes, targets are taken
    /// for those of the pairs.
    ///
    /// # Errors
    /// `new_of_old` is not a permutation of `0..num_nodes`.
    pub fn renumbered(&self, new_of_old: &[u32]) -> Result<Self> {
        let n = self.num_nodes;
        let mut old_of_new = vec![u32::MAX; n];
        for (old, &new) in new_of_old.iter().enumerate() {
            match old_of_new.get_mut(new as usize) {
                Some(slot) if *slot == u32::MAX => *slot = old as u32,
                _ => {
                    return Err(Error::Batch(format!(
                        "node order: {new} at {old} repeats or is out of range"
                    )));
                }
            }
        }
        if new_of_old.len() != n {
            return Err(Error::Batch(format!(
                "node order of {} for {n} nodes",
                new_of_old.len()
            )));
        }
        let moved = |pairs: &[[u32; 2]]| -> Vec<[u32; 2]> {
            let nodes = pairs.iter();
            nodes
                .map(|&[s, t]| [new_of_old[s as usize], new_of_old[t as usize]])
                .collect()
        };
        let num_pairs = self.edge_label_index.as_ref().map(Vec::len);
        let targets = self.targets.as_ref().map(|t| {
            if t.rows() != n || n == 1 || num_pairs == Some(n) {
                return t.clone();
            }
            let rows = Features::float(t.width, t.data.clone()).select_rows(&old_of_new);
            match rows {
                Features::Float { width, data } => Targets { width, data },
                Features::Categorical { .. } => t.clone(),
            }
        });
        Ok(Self {
            num_nodes: n,
            edges: moved(&self.edges),
            edge_label_index: self.edge_label_index.as_deref().map(moved),
            node_features: self
                .node_features
                .as_ref()
                .map(|f| f.select_rows(&old_of_new)),
            rotational_features: self
                .rotational_features
                .as_ref()
                .map(|t| t.select_rows(&old_of_new)),
            edge_features: self.edge_features.clone(),
            targets,
            id: self.id.clone(),
        })
    }

    /// The same graph with its edges in another order: position `k` takes old edge `order[k]`.
    ///
    /// # Errors
    /// `order` is not a permutation of `0..num_edges`.
    pub fn with_edge_order(&self, order: &[u32]) -> Result<Self> {
        let mut seen = vec![false; self.edges.len()];
        for &old in order {
            match seen.get_mut(old as usize) {
                Some(slot) if !*slot => *slot = true,
                _ => {
                    return Err(Error::Batch(format!(
                        "edge order: {old} repeats or is out of range"
                    )));
                }
            }
        }
        if order.len() != self.edges.len() {
            return Err(Error::Batch(format!(
                "edge order of {} for {} edges",
                order.len(),
                self.edges.len()
            )));
        }
        let mut out = self.clone();
        out.edges = order.iter().map(|&o| self.edges[o as usize]).collect();
        out.edge_features = self.edge_features.as_ref().map(|f| f.select_rows(order));
        Ok(out)
    }
}
