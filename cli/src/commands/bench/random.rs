//! Made-up graphs and weights: neither changes what a forward pass costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use candle_core::{DType, Device, Shape, Tensor};
use candle_graph::graph::{FeatureSchema, Features, Graph, InputSchema};
use candle_graph_models::{ModelConfig, Predictor, untrained};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use super::target::Target;

/// A model of this configuration with random weights, and the bytes of these.
pub(super) fn model(config: &ModelConfig, target: &Target) -> Result<(Predictor, u64)> {
    let bytes = Arc::<AtomicU64>::default();
    let counted = Counted {
        weights: untrained(1, target.dtype, &target.device),
        bytes: Arc::clone(&bytes),
    };
    let weights = VarBuilder::from_backend(Box::new(counted), target.dtype, target.device.clone());
    let model = config.build(weights)?;
    let predictor = Predictor::new(model, target.device.clone());
    Ok((predictor, bytes.load(Ordering::Relaxed)))
}

/// Weights that are counted where a model takes them.
struct Counted {
    weights: VarBuilder<'static>,
    bytes: Arc<AtomicU64>,
}

impl SimpleBackend for Counted {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        init: Init,
        dtype: DType,
        _: &Device,
    ) -> candle_core::Result<Tensor> {
        let bytes = shape.elem_count() * dtype.size_in_bytes();
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.weights.get_with_hints_dtype(shape, name, init, dtype)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, _: &Device) -> candle_core::Result<Tensor> {
        self.weights.get_unchecked_dtype(name, dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.weights.contains_tensor(name)
    }
}

/// A molecule-like graph a size: a tree with one ring closure every ten nodes, both directions of
/// every edge, and the features that `schema` asks for.
pub(super) fn graphs(schema: &InputSchema, sizes: &[usize]) -> Result<Vec<Graph>> {
    let mut random = Random(7);
    sizes
        .iter()
        .map(|&n| {
            let mut edges: Vec<[i64; 2]> = Vec::new();
            for node in 1..n as u64 {
                let parent = node - 1 - random.below(node.min(3));
                edges.push([parent as i64, node as i64]);
                if node >= 5 && node.is_multiple_of(10) {
                    edges.push([node as i64 - 5, node as i64]);
                }
            }
            let nodes = features(&schema.node, n, &mut random);
            let attributes = features(&schema.edge, edges.len(), &mut random);
            let mut builder = Graph::builder(n).edges(edges).undirected(true);
            if let Some(nodes) = nodes {
                builder = builder.node_features(nodes);
            }
            if let Some(attributes) = attributes {
                builder = builder.edge_features(attributes);
            }
            Ok(builder.build()?)
        })
        .collect()
}

/// A graph a size with `degree` directed edges a node to nodes drawn at random, and the features
/// that `schema` asks for.
pub(super) fn digraphs(schema: &InputSchema, sizes: &[usize], degree: usize) -> Result<Vec<Graph>> {
    let mut random = Random(13);
    sizes
        .iter()
        .map(|&n| {
            let sources = (0..n as i64).flat_map(|node| std::iter::repeat_n(node, degree));
            let edges: Vec<[i64; 2]> = sources
                .map(|source| [source, random.below(n as u64) as i64])
                .filter(|[source, target]| source != target)
                .collect();
            let nodes = features(&schema.node, n, &mut random);
            let attributes = features(&schema.edge, edges.len(), &mut random);
            Ok(Graph::builder(n)
                .edges(edges)
                .node_features(nodes)
                .edge_features(attributes)
                .build()?)
        })
        .collect()
}

/// The same graphs with `dim` coordinates a node.
pub(super) fn with_coordinates(graphs: Vec<Graph>, dim: usize) -> Result<Vec<Graph>> {
    let mut random = Random(11);
    graphs
        .into_iter()
        .map(|graph| {
            let values = (0..graph.num_nodes() * dim)
                .map(|_| random.unit())
                .collect();
            Ok(graph.with_rotational_features(Features::float(dim, values))?)
        })
        .collect()
}

fn features(schema: &FeatureSchema, rows: usize, random: &mut Random) -> Option<Features> {
    match schema {
        FeatureSchema::Categorical { tables }
        | FeatureSchema::ClampedCategorical { tables, .. } => {
            let columns = tables.iter().cycle().take(rows * tables.len());
            let data = columns.map(|&t| random.below(t as u64) as u32).collect();
            Some(Features::categorical(tables.len(), data))
        }
        FeatureSchema::Float { width } if *width > 0 => {
            let data = (0..rows * width).map(|_| random.unit()).collect();
            Some(Features::float(*width, data))
        }
        _ => None,
    }
}

/// SplitMix64, so that every run times the same graphs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// From −1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
