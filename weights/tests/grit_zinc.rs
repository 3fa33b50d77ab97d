//! The trained GRIT, from the official checkpoint to all of its 1000 recorded predictions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod zinc;

use candle_core::Device;
use candle_graph_models::Predictor;
use candle_graph_weights::convert::graphgym::{GraphGymOptions, convert};
use candle_graph_weights::{Checkpoint, Limits, load_model};
use zinc::fixture;

fn converted() -> Checkpoint {
    let options = GraphGymOptions::default();
    let limits = Limits::default();
    convert(
        &fixture("grit-zinc/model.ckpt"),
        &fixture("grit-zinc/config.json"),
        &options,
        &limits,
    )
    .unwrap()
    .checkpoint
}

#[test]
fn all_recorded_predictions_and_the_error_are_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = converted();
    checkpoint.write(folder.path()).unwrap();
    let model = load_model(folder.path(), &Device::Cpu).unwrap();
    let predictor = Predictor::new(model, Device::Cpu);
    zinc::reproduces(&predictor, "grit-zinc", 1e-5, 0.203_856_511);
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
