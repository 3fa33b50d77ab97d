//! Models of the zoo that compute in bf16 and f16: how far their predictions are from those in f32.
//! Largest differences seen over 100 molecules, 40 synthetic graphs and 10 sorting networks, in bf16 and f16: grit-zinc 0.060 and 0.0058, gps-zinc
//! 0.028 and 0.0037 (predictions spread by 1.8 around their mean), wire-spd 0.029 and 0.0033, wire-mono
//! 0.079 and 0.0090 (1.25), digraph-sorting 0.085 and 0.0125 (logits, 2.1).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod zinc;

use std::path::Path;

use candle_core::{DType, Device};
use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath, SortingNetworks};
use candle_graph::graph::Graph;
use candle_graph_models::Predictor;
use candle_graph_weights::{Checkpoint, Limits};

fn predictions(name: &str, dtype: DType, graphs: &[Graph]) -> Vec<f32> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo").join(name);
    let limits = Limits::default();
    let checkpoint = Checkpoint::read(&folder, &limits).unwrap();
    let model = checkpoint.build(&Device::Cpu, dtype, &limits).unwrap();
    zinc::predictions(&Predictor::new(model, Device::Cpu), graphs)
}

/// Predictions in bf16 and f16 are within these tolerances of those in f32, and not the same.
#[track_caller]
fn assert_near(name: &str, graphs: &[Graph], tolerances: [f32; 2]) {
    let exact = predictions(name, DType::F32, graphs);
    for (dtype, tolerance) in [DType::BF16, DType::F16].into_iter().zip(tolerances) {
        let worst = zinc::worst(&predictions(name, dtype, graphs), &exact);
        // A model that computes in f32 after all would be closer.
        let span = tolerance / 50.0..tolerance;
        assert!(span.contains(&worst), "{name} in {dtype:?}: {worst}");
    }
}

#[test]
fn molecules() {
    let molecules = &zinc::molecules()[..20];
    assert_near("grit-zinc", molecules, [0.1, 0.01]);
    assert_near("gps-zinc", molecules, [0.05, 0.007]);
}

#[test]
fn synthetic_graphs() {
    let paths = ShortestPath::default().graphs(1).unwrap().take(40);
    let paths: Vec<_> = paths.map(Result::unwrap).collect();
    assert_near("wire-spd", &paths, [0.05, 0.007]);
    let grids = Monochromatic::default().graphs(1).unwrap().take(40);
    let grids: Vec<_> = grids.map(Result::unwrap).collect();
    assert_near("wire-mono", &grids, [0.15, 0.02]);
    let networks = SortingNetworks::default().graphs(1).unwrap().take(10);
    let networks: Vec<_> = networks.map(Result::unwrap).collect();
    assert_near("digraph-sorting", &networks, [0.15, 0.025]);
}
