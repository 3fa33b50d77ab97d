//! The trained GRIT, from the official checkpoint to all of its 1000 recorded predictions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::datasets::{ReadOptions, open};
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph::metrics::mean_absolute_error;
use candle_graph::ops::force_reference;
use candle_graph_models::Predictor;
use candle_graph_weights::convert::graphgym::{GraphGymOptions, convert};
use candle_graph_weights::{Checkpoint, Limits, load_model, read_safetensors};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/grit-zinc")
        .join(name)
}

fn converted() -> Checkpoint {
    let options = GraphGymOptions::default();
    let limits = Limits::default();
    convert(
        &fixture("model.ckpt"),
        &fixture("config.json"),
        &options,
        &limits,
    )
    .unwrap()
    .checkpoint
}

fn molecules() -> Vec<Graph> {
    open(fixture("zinc-test.jsonl"), None, &ReadOptions::default())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn recorded(name: &str) -> Vec<f32> {
    read_safetensors(&fixture("predictions.safetensors"), &Limits::default())
        .unwrap()
        .get(name)
        .unwrap()
        .to_tensor(&Device::Cpu)
        .unwrap()
        .to_dtype(DType::F32)
        .unwrap()
        .flatten_all()
        .unwrap()
        .to_vec1()
        .unwrap()
}

fn predictions(predictor: &Predictor, graphs: &[Graph]) -> Vec<f32> {
    let outputs = predictor.predict(graphs).unwrap();
    outputs
        .iter()
        .flat_map(|o| o.data.iter().copied())
        .collect()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y).abs())
        .fold(0.0, f32::max)
}

#[test]
fn all_recorded_predictions_and_the_error_are_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = converted();
    checkpoint.write(folder.path()).unwrap();
    let model = load_model(folder.path(), &Device::Cpu).unwrap();
    let predictor = Predictor::new(model, Device::Cpu);
    let graphs = molecules();
    assert_eq!(graphs.len(), 1000);
    let ours = predictions(&predictor, &graphs);
    assert!(worst(&ours, &recorded("pred")) < 1e-5);

    let targets: Vec<f32> = graphs
        .iter()
        .map(|g| g.targets().unwrap().data[0])
        .collect();
    assert!(worst(&targets, &recorded("target")) < 1e-6);
    let error = mean_absolute_error(&ours, &targets).unwrap();
    assert!((error - 0.203_856_511).abs() < 1e-5, "{error}");

    // One by one and in batches, fused and by the reference, the numbers are the same.
    let some = &graphs[..40];
    let single = predictor.clone().with_budget(BatchBudget {
        max_graphs: 1,
        ..BatchBudget::default()
    });
    assert!(worst(&predictions(&single, some), &ours[..40]) < 5e-6);
    let reference = force_reference(|| predictions(&predictor, some));
    assert!(worst(&reference, &ours[..40]) < 1e-5);
}

#[test]
fn the_parameter_count_is_the_published_one() {
    assert_eq!(converted().num_parameters(), 193_537);
}

#[test]
fn a_written_checkpoint_reads_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = converted();
    checkpoint.write(folder.path()).unwrap();
    let again = Checkpoint::read(folder.path(), &Limits::default()).unwrap();
    assert_eq!(again.config(), checkpoint.config());
    for (name, tensor) in checkpoint.weights().iter() {
        assert_eq!(
            again.weights().get(name).unwrap().bytes(),
            tensor.bytes(),
            "{name}"
        );
    }
}
