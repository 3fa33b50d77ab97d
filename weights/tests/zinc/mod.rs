//! The 1000 ZINC test molecules and comparisons with what official models predict for them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::datasets::{ReadOptions, open};
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph::metrics::mean_absolute_error;
use candle_graph::ops::force_reference;
use candle_graph_models::Predictor;
use candle_graph_weights::{Limits, read_safetensors};

/// A file of the tests.
pub fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name)
}

/// The molecules in file order, with their targets.
pub fn molecules() -> Vec<Graph> {
    let file = fixture("grit-zinc/zinc-test.jsonl");
    let reader = open(file, None, &ReadOptions::default()).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// The tensor `name` of the predictions recorded for `model`.
pub fn recorded(model: &str, name: &str) -> Vec<f32> {
    let file = fixture(&format!("{model}/predictions.safetensors"));
    let tensors = read_safetensors(&file, &Limits::default()).unwrap();
    let tensor = tensors.get(name).unwrap().to_tensor(&Device::Cpu).unwrap();
    let tensor = tensor.to_dtype(DType::F32).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

pub fn predictions(predictor: &Predictor, graphs: &[Graph]) -> Vec<f32> {
    let outputs = predictor.predict(graphs).unwrap();
    outputs
        .iter()
        .flat_map(|o| o.data.iter().copied())
        .collect()
}

pub fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f32::max)
}

/// All recorded predictions within `tolerance`, the mean absolute error within 1e-5, and the same
/// numbers one by one, in batches, fused and by the reference.
pub fn reproduces(predictor: &Predictor, model: &str, tolerance: f32, mean_error: f64) {
    let graphs = molecules();
    assert_eq!(graphs.len(), 1000);
    let ours = predictions(predictor, &graphs);
    let found = worst(&ours, &recorded(model, "pred"));
    assert!(found < tolerance, "{found}");

    let targets: Vec<f32> = graphs
        .iter()
        .map(|g| g.targets().unwrap().data[0])
        .collect();
    assert!(worst(&targets, &recorded(model, "target")) < 1e-6);
    let error = mean_absolute_error(&ours, &targets).unwrap();
    assert!((error - mean_error).abs() < 1e-5, "{error}");

    let some = &graphs[..40];
    let single = predictor.clone().with_budget(BatchBudget {
        max_graphs: 1,
        ..BatchBudget::default()
    });
    assert!(worst(&predictions(&single, some), &ours[..40]) < 5e-6);
    let reference = force_reference(|| predictions(predictor, some));
    assert!(worst(&reference, &ours[..40]) < 1e-5);
}
