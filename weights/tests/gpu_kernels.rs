//! The kernels of GPUs in whole models: run on the CPU as C, they give the predictions of the fused
//! CPU path. Nothing else here replaces a GPU, but a GPU runs the same source.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod zinc;

use std::path::Path;

use candle_core::Device;
use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath, SortingNetworks};
use candle_graph::graph::Graph;
use candle_graph::ops::on_kernels;
use candle_graph_models::Predictor;
use candle_graph_weights::load_model;

/// Predictions by kernels, encodings by random walks included, are those of the CPU's own path.
#[track_caller]
fn assert_same(name: &str, graphs: &[Graph]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo").join(name);
    let model = load_model(&folder, &Device::Cpu).unwrap();
    let predictor = Predictor::new(model, Device::Cpu);
    let expected = zinc::predictions(&predictor, graphs);
    let found = on_kernels(|| zinc::predictions(&predictor, graphs));
    let worst = zinc::worst(&found, &expected);
    assert!(worst <= 1e-5, "{name}: {worst}");
}

#[test]
fn grit() {
    assert_same("grit-zinc", &zinc::molecules()[..2]);
}

#[test]
fn gps() {
    assert_same("gps-zinc", &zinc::molecules()[..2]);
}

#[test]
fn rotary_linear_attention() {
    let paths = ShortestPath::default().graphs(1).unwrap().take(2);
    assert_same("wire-spd", &paths.map(Result::unwrap).collect::<Vec<_>>());
    let grids = Monochromatic::default().graphs(1).unwrap().take(1);
    assert_same("wire-mono", &grids.map(Result::unwrap).collect::<Vec<_>>());
}

#[test]
fn directed() {
    let networks = SortingNetworks::default().graphs(1).unwrap().take(1);
    assert_same(
        "digraph-sorting",
        &networks.map(Result::unwrap).collect::<Vec<_>>(),
    );
}
