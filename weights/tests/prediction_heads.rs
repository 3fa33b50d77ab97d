//! Heads against what the official GraphGPS gives: link prediction and Graphormer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use candle_graph::datasets::{ReadOptions, open};
use candle_graph::graph::{Graph, GraphBatch, InputSchema, Offsets};
use candle_graph::metrics::{RankingScores, link_ranks};
use candle_graph::nn::{EdgeDecoding, Head, HeadConfig};
use candle_graph::ops::{Reduction, segment_reduce};
use candle_graph_weights::{Limits, StateDict, read_safetensors, torch};
use candle_nn::VarBuilder;
use serde_json::Value;
use support::fixture;

const TOLERANCE: f32 = 1e-5;

struct Case {
    folder: PathBuf,
    weights: StateDict,
    outputs: StateDict,
    graphs: Vec<Graph>,
}

impl Case {
    fn read(name: &str) -> Self {
        let folder = fixture("gps").join(name);
        let limits = Limits::default();
        let read = |file: &str| read_safetensors(&folder.join(file), &limits).unwrap();
        let graphs = open(
            folder.join("inputs.safetensors"),
            None,
            &ReadOptions::default(),
        );
        Self {
            weights: torch::read_state_dict(&folder.join("model.ckpt"), &limits).unwrap(),
            outputs: read("outputs.safetensors"),
            graphs: graphs.unwrap().map(Result::unwrap).collect(),
            folder,
        }
    }

    fn output(&self, name: &str) -> Tensor {
        let data = self
            .outputs
            .get(name)
            .unwrap_or_else(|| panic!("no {name}"));
        data.to_tensor(&Device::Cpu).unwrap()
    }

    /// The head with its official tensors `(official, ours)`.
    fn head(&self, config: &HeadConfig, outputs: usize, names: &[(&str, &str)]) -> Head {
        let tensors: HashMap<String, Tensor> = names
            .iter()
            .flat_map(|(official, ours)| {
                ["weight", "bias"].map(|kind| {
                    let name = format!("model.post_mp.{official}.{kind}");
                    let tensor = self
                        .weights
                        .get(&name)
                        .unwrap_or_else(|| panic!("no {name}"));
                    (
                        format!("{ours}.{kind}"),
                        tensor.to_tensor(&Device::Cpu).unwrap(),
                    )
                })
            })
            .collect();
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let width = self.output("node_after_layer_1").dim(1).unwrap();
        Head::new(config, width, outputs, vb).unwrap()
    }
}

#[track_caller]
fn assert_near(found: &Tensor, expected: &Tensor) {
    let values = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let (found, expected) = (values(found), values(expected));
    assert_eq!(found.len(), expected.len());
    for (at, (a, b)) in found.iter().zip(&expected).enumerate() {
        let error = (a - b).abs() / b.abs().max(1.0);
        assert!(error <= TOLERANCE, "value {at}: {a}, expected {b}");
    }
}

const ONE: [(&str, &str); 1] = [("layer_post_mp.model.0.model", "layers.0")];
const TWO: [(&str, &str); 2] = [
    ("layer_post_mp.model.0.Layer_0.layer.model", "layers.0"),
    ("layer_post_mp.model.1.model", "layers.1"),
];

fn edge_head(layers: usize, decoding: EdgeDecoding) -> HeadConfig {
    HeadConfig::InductiveEdge { layers, decoding }
}

#[test]
fn node_pairs_are_scored_as_by_the_official_code() {
    for (name, decoding, outputs, names) in [
        ("inductive-edge-dot", EdgeDecoding::Dot, 1, &ONE[..]),
        ("inductive-edge-dot-mlp", EdgeDecoding::Dot, 1, &TWO[..]),
        (
            "inductive-edge-cosine",
            EdgeDecoding::CosineSimilarity,
            1,
            &TWO[..],
        ),
        ("inductive-edge-concat", EdgeDecoding::Concat, 3, &TWO[..]),
    ] {
        let case = Case::read(name);
        let head = case.head(&edge_head(names.len(), decoding), outputs, names);
        let schema = InputSchema::default();
        let batch = GraphBatch::new(&case.graphs, &schema, 0, &Device::Cpu).unwrap();
        let pairs = batch.edge_label_index().unwrap();
        let found = head
            .forward_pairs(&case.output("node_after_layer_1"), pairs)
            .unwrap();
        assert_eq!(found.dims(), [32, outputs], "{name}");
        assert_near(&found, &case.output("pred"));
    }
}

/// Every node against every other, ranked and averaged.
#[test]
fn ranking_scores_are_the_official_ones() {
    for (name, names) in [
        ("inductive-edge-dot", &ONE[..]),
        ("inductive-edge-dot-mlp", &TWO[..]),
    ] {
        let case = Case::read(name);
        let head = case.head(&edge_head(names.len(), EdgeDecoding::Dot), 1, names);
        let inputs = read_safetensors(&case.folder.join("inputs.safetensors"), &Limits::default());
        let labels = inputs
            .unwrap()
            .get("edge_label")
            .unwrap()
            .to_tensor(&Device::Cpu);
        let labels: Vec<i64> = labels.unwrap().to_vec1().unwrap();
        let all = |graph: &Graph| {
            let n = i64::try_from(graph.num_nodes()).unwrap();
            let pairs = (0..n * n).map(|k| [k / n, k % n]);
            Graph::builder(graph.num_nodes())
                .edge_label_index(pairs)
                .build()
                .unwrap()
        };
        let complete: Vec<Graph> = case.graphs.iter().map(all).collect();
        let batch = GraphBatch::new(&complete, &InputSchema::default(), 0, &Device::Cpu).unwrap();
        let pairs = batch.edge_label_index().unwrap();
        let scores = head
            .forward_pairs(&case.output("node_after_layer_1"), pairs)
            .unwrap();
        let scores: Vec<f32> = scores.flatten_all().unwrap().to_vec1().unwrap();
        let mut first = 0;
        let of_graph = |(graph, range): (&Graph, std::ops::Range<usize>)| {
            let listed = graph.edge_label_index().unwrap();
            let labels = &labels[first..first + listed.len()];
            first += listed.len();
            let positive = listed.iter().zip(labels).filter(|(_, l)| **l == 1);
            let positive: Vec<[u32; 2]> = positive.map(|(pair, _)| *pair).collect();
            let ranks = link_ranks(&scores[range], graph.num_nodes(), &positive).unwrap();
            RankingScores::of_ranks(&ranks)
        };
        let graphs: Vec<_> = case
            .graphs
            .iter()
            .zip(pairs.ptr().ranges())
            .map(of_graph)
            .collect();
        let found = RankingScores::mean(&graphs).unwrap();
        let text = std::fs::read_to_string(case.folder.join("case.json")).unwrap();
        let recorded: Value = serde_json::from_str(&text).unwrap();
        for (key, value) in [
            ("mrr", found.mean_reciprocal_rank),
            ("hits@1", found.hits_at_1),
            ("hits@3", found.hits_at_3),
            ("hits@10", found.hits_at_10),
        ] {
            let expected = recorded["ranking_statistics"][key].as_f64().unwrap();
            assert!(
                (value - expected).abs() < 1e-6,
                "{name} {key}: {value}, {expected}"
            );
        }
    }
}

#[test]
fn graphormer_normalises_nodes_before_it_pools() {
    let case = Case::read("graphormer-network-mean");
    let names = [("ln", "norm"), ("layers.0", "layers.0")];
    let head = case.head(&HeadConfig::GraphormerGraph, 2, &names);
    let sizes = case.graphs.iter().map(Graph::num_nodes);
    let ptr = Offsets::from_lengths(sizes, &Device::Cpu).unwrap();
    let states = head
        .node_states(&case.output("node_after_layer_1"))
        .unwrap();
    let pooled = segment_reduce(&states, &ptr, Reduction::Mean).unwrap();
    assert_near(&pooled, &case.output("pooled_graph_embedding"));
    assert_near(&head.forward(&pooled).unwrap(), &case.output("pred"));
}
