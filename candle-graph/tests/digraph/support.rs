//! Graphs and comparisons.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_graph::graph::Graph;

pub(crate) fn graph(n: usize, edges: &[[i64; 2]]) -> Graph {
    Graph::builder(n)
        .edges(edges.iter().copied())
        .build()
        .unwrap()
}

/// The largest difference; infinite where one is not a number.
pub(crate) fn worst(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, |worst, d| {
        if d.is_nan() {
            f64::INFINITY
        } else {
            worst.max(d)
        }
    })
}

/// A recorded graph.
pub(crate) struct Recorded {
    pub(crate) graph: Graph,
    tensors: HashMap<String, Tensor>,
}

impl Recorded {
    pub(crate) fn read(file: &Path) -> Self {
        let tensors = candle_core::safetensors::load(file, &Device::Cpu).unwrap();
        let nodes = tensors["svd_singular_values"].dims1().unwrap();
        let [senders, receivers] =
            ["senders", "receivers"].map(|name| tensors[name].to_vec1::<i64>().unwrap());
        let edges = senders.into_iter().zip(receivers).map(|(s, t)| [s, t]);
        let graph = Graph::builder(nodes).edges(edges).build().unwrap();
        Self { graph, tensors }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// All values, row-major.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        let tensor = self.tensors[name].to_dtype(DType::F64).unwrap();
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// The columns of a matrix.
    pub(crate) fn columns(&self, name: &str) -> Vec<Vec<f64>> {
        let tensor = self.tensors[name].to_dtype(DType::F64).unwrap();
        tensor.t().unwrap().to_vec2().unwrap()
    }
}

/// A generator of numbers for tests, the same on every machine.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// A directed graph of random edges, repeated ones and loops among them.
    pub(crate) fn graph(&mut self, n: usize, edges: usize) -> Graph {
        let mut node = || self.below(n as u64) as i64;
        let edges: Vec<[i64; 2]> = (0..edges).map(|_| [node(), node()]).collect();
        graph(n, &edges)
    }

    pub(crate) fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}
