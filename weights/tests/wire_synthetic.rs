//! The transformers with rotary encodings of the zoo, for the synthetic tasks: the recorded
//! predictions, on the coordinates that the graphs carry.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath};
use candle_graph::encodings::{EigenvectorScale, Rotational};
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph::metrics::root_mean_squared_error;
use candle_graph::ops::force_reference;
use candle_graph::spectral::LaplacianNorm;
use candle_graph_models::Predictor;
use candle_graph_weights::convert::graphgym::{GraphGymOptions, convert};
use candle_graph_weights::{Checkpoint, Limits, load_model, read_safetensors};

/// A model of the zoo and what was recorded for it.
struct Case {
    name: &'static str,
    parameters: u64,
    /// Nodes of a graph.
    size: f64,
    /// Root mean squared error on all 1000 test graphs.
    error: f64,
}

const SHORTEST_PATH: Case = Case {
    name: "wire-spd",
    parameters: 39_489,
    size: 10.0,
    error: 0.240_769_497,
};

const MONOCHROMATIC: Case = Case {
    name: "wire-mono",
    parameters: 39_521,
    size: 25.0,
    error: 1.273_097_949,
};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn zoo(case: &Case) -> PathBuf {
    here("zoo").join(case.name)
}

fn predictor(case: &Case) -> Predictor {
    Predictor::new(load_model(&zoo(case), &Device::Cpu).unwrap(), Device::Cpu)
}

/// The project's shared data of a model, where it is there.
fn shared(case: &Case) -> Option<PathBuf> {
    let default = here("../../shared");
    let shared = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    let folder = shared.join("checkpoints").join(case.name);
    folder.is_dir().then_some(folder)
}

/// The graphs of a file, whose records may list their edges twice.
fn graphs(file: &Path) -> Vec<Graph> {
    let text = std::fs::read_to_string(file).unwrap();
    let graph = |line: &str| {
        let mut record: serde_json::Value = serde_json::from_str(line).unwrap();
        record.as_object_mut().unwrap().remove("edges");
        serde_json::from_value(record).unwrap()
    };
    text.lines().map(graph).collect()
}

/// The tensor `name` of the recorded predictions.
fn recorded(case: &Case, name: &str) -> Vec<f32> {
    let file = here("tests/fixtures")
        .join(case.name)
        .join("predictions.safetensors");
    let tensors = read_safetensors(&file, &Limits::default()).unwrap();
    let tensor = tensors.get(name).unwrap().to_tensor(&Device::Cpu).unwrap();
    let tensor = tensor.to_dtype(DType::F32).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn targets(graphs: &[Graph]) -> Vec<f32> {
    graphs
        .iter()
        .map(|g| g.targets().unwrap().data[0])
        .collect()
}

fn predictions(predictor: &Predictor, graphs: &[Graph]) -> Vec<f32> {
    let outputs = predictor.predict(graphs).unwrap();
    outputs.into_iter().flat_map(|o| o.data).collect()
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let off = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let worst = off.fold(0.0, f32::max);
    assert!(worst < tolerance, "{worst:e}");
}

/// The recorded predictions for `graphs`, the first ones, and their error.
fn reproduces(case: &Case, graphs: &[Graph]) -> f64 {
    let predictor = predictor(case);
    let ours = predictions(&predictor, graphs);
    let official = &recorded(case, "pred")[..graphs.len()];
    let targets = targets(graphs);
    assert_eq!(targets, recorded(case, "target")[..graphs.len()]);
    assert_near(&ours, official, 1e-5);
    let error = root_mean_squared_error(&ours, &targets).unwrap();
    let expected = root_mean_squared_error(official, &targets).unwrap();
    assert!((error - expected).abs() < 1e-5, "{error} {expected}");

    let some = &graphs[..40];
    let single = predictor.clone().with_budget(BatchBudget {
        max_graphs: 1,
        ..BatchBudget::default()
    });
    assert_near(&predictions(&single, some), &ours[..40], 5e-6);
    let reference = force_reference(|| predictions(&predictor, some));
    assert_near(&reference, &ours[..40], 1e-5);
    error
}

#[test]
fn recorded_predictions_and_their_error_are_reproduced() {
    for case in [&SHORTEST_PATH, &MONOCHROMATIC] {
        let some = graphs(&here("tests/fixtures").join(case.name).join("test.jsonl"));
        assert_eq!(some.len(), 200);
        reproduces(case, &some);
        let Some(folder) = shared(case) else { continue };
        let all = graphs(&folder.join("test.jsonl"));
        assert_eq!((all.len(), &all[..200]), (1000, &some[..]));
        let error = reproduces(case, &all);
        assert!((error - case.error).abs() < 1e-5, "{error}");
    }
}

/// On fresh graphs, whose coordinates are computed, the models are as good as on the recorded ones:
/// signs of eigenvectors are free, and training has seen both.
#[test]
fn fresh_graphs_are_as_easy() {
    let normalised = |case: &Case, graphs: Vec<Graph>| {
        assert!(
            graphs
                .iter()
                .all(|graph| graph.rotational_features().is_none())
        );
        let ours = predictions(&predictor(case), &graphs);
        root_mean_squared_error(&ours, &targets(&graphs)).unwrap() / case.size
    };
    let paths = ShortestPath::default().graphs(1).unwrap().take(1000);
    let error = normalised(&SHORTEST_PATH, paths.map(Result::unwrap).collect());
    // The mean answer gives 0.141, the model without its rotations 0.061.
    assert!((0.021..0.030).contains(&error), "{error}");
    let grid = Monochromatic {
        deleted_edges: 10,
        ..Monochromatic::default()
    };
    let grids = grid.graphs(1).unwrap().take(1000);
    let error = normalised(&MONOCHROMATIC, grids.map(Result::unwrap).collect());
    // The mean answer gives 0.072, the model without its rotations 0.055.
    assert!((0.047..0.0545).contains(&error), "{error}");
}

#[test]
fn the_parameter_count_is_the_published_one() {
    for case in [&SHORTEST_PATH, &MONOCHROMATIC] {
        let checkpoint = Checkpoint::read(&zoo(case), &Limits::default()).unwrap();
        assert_eq!(
            checkpoint.num_parameters(),
            case.parameters,
            "{}",
            case.name
        );
    }
}

/// The official options say nothing of where coordinates come from, and count them as features: that
/// is named at conversion.
fn computed_coordinates() -> GraphGymOptions {
    GraphGymOptions {
        coordinates: Some(Rotational::Eigenvectors {
            count: 10,
            trivial: true,
            laplacian_norm: LaplacianNorm::None,
            scale: EigenvectorScale::Unit,
        }),
        features_begin_with_coordinates: true,
        ..GraphGymOptions::default()
    }
}

#[test]
fn the_shipped_weights_are_the_official_ones() {
    for case in [&SHORTEST_PATH, &MONOCHROMATIC] {
        let Some(folder) = shared(case) else { continue };
        let (checkpoint, options) = (folder.join("model.ckpt"), folder.join("config.json"));
        let choices = computed_coordinates();
        let converted = convert(&checkpoint, &options, &choices, &Limits::default()).unwrap();
        let shipped = Checkpoint::read(&zoo(case), &Limits::default()).unwrap();
        // The official options name no data set; the shipped ones do.
        assert_eq!(shipped.config().model, converted.checkpoint.config().model);
        for (name, tensor) in converted.checkpoint.weights().iter() {
            let ours = shipped.weights().get(name).unwrap();
            assert_eq!(ours.bytes(), tensor.bytes(), "{name}");
        }
    }
}
