//! The trained GraphGPS of the zoo and all of its 1000 recorded predictions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod zinc;

use std::path::{Path, PathBuf};

use candle_core::Device;
use candle_graph_models::Predictor;
use candle_graph_weights::convert::graphgym::{GraphGymOptions, convert};
use candle_graph_weights::{Checkpoint, Limits, load_model};

fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo/gps-zinc")
}

#[test]
fn all_recorded_predictions_and_the_error_are_reproduced() {
    let predictor = Predictor::new(load_model(&zoo(), &Device::Cpu).unwrap(), Device::Cpu);
    zinc::reproduces(&predictor, "gps-zinc", 1e-5, 0.119_471_210);
}

#[test]
fn the_parameter_count_is_the_published_one() {
    let checkpoint = Checkpoint::read(&zoo(), &Limits::default()).unwrap();
    // The ten `eps` of GINE are buffers in the official code and do not count there.
    assert_eq!(checkpoint.num_parameters(), 423_717 + 10);
}

#[test]
fn the_shipped_weights_are_the_official_ones() {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    let folder = shared.join("checkpoints/gps-zinc");
    if !folder.is_dir() {
        return;
    }
    let converted = convert(
        &folder.join("model.ckpt"),
        &folder.join("config.json"),
        &GraphGymOptions::default(),
        &Limits::default(),
    )
    .unwrap();
    let shipped = Checkpoint::read(&zoo(), &Limits::default()).unwrap();
    assert_eq!(shipped.config(), converted.checkpoint.config());
    for (name, tensor) in converted.checkpoint.weights().iter() {
        let ours = shipped.weights().get(name).unwrap();
        assert_eq!(ours.bytes(), tensor.bytes(), "{name}");
    }
}
