//! Checkpoints of the rotary fork become complete models, and what does not fit is explained.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::PathBuf;

use candle_graph::encodings::{EigenvectorScale, EncodingRecipe, Rotational};
use candle_graph::nn::{AttentionConfig, FeatureEncoderConfig, RotaryConfig};
use candle_graph::spectral::LaplacianNorm;
use candle_graph_models::ModelConfig;
use candle_graph_weights::convert::Options;
use candle_graph_weights::convert::graphgym::{
    Converted, GraphGymOptions, configure_with, convert_tensors,
};
use candle_graph_weights::{Error, Limits, TensorData, torch};
use serde_json::{Value, json};
use support::fixture;

const GPS: &str = "wire/zinc-GPS+LapRoPE-Full-oddhead";
const GT: &str = "wire/gkat-GT+LapRoPE-Linear-layernorm";
const GIVEN: &str = "wire/synthetic-shortest-path";

fn options(case: &str) -> Value {
    let text = std::fs::read(fixture(case).join("config.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn convert(case: &str, options: Value, choices: &GraphGymOptions) -> Result<Converted, Error> {
    let limits = Limits::default();
    let tensors = torch::read_state_dict(&fixture(case).join("model.ckpt"), &limits)?;
    convert_tensors(
        tensors,
        Options::from_value(options, "config.json"),
        choices,
        &limits,
    )
}

fn changed(case: &str, pointer: &str, value: Value) -> Value {
    let mut options = options(case);
    let section = pointer.rsplit_once('/').unwrap();
    let parent = options.pointer_mut(section.0).expect(pointer);
    parent[section.1] = value;
    options
}

fn rotary(converted: &Converted) -> &RotaryConfig {
    let rotary = match &converted.checkpoint.config().model {
        ModelConfig::Gps(config) => config.rotary.as_ref(),
        ModelConfig::Transformer(config) => config.rotary.as_ref(),
        other => panic!("{} is another family", other.model_type()),
    };
    rotary.unwrap()
}

fn names(converted: &Converted) -> Vec<String> {
    let weights = converted.checkpoint.weights();
    weights.names().map(str::to_string).collect()
}

#[test]
fn frequencies_that_layers_share_are_kept_once() {
    let converted = convert(GT, options(GT), &GraphGymOptions::default()).unwrap();
    assert!(rotary(&converted).share_layers && rotary(&converted).separate_keys);
    let names = names(&converted);
    let frequencies: Vec<_> = names.iter().filter(|n| n.contains("rotary.")).collect();
    let shared = frequencies.iter().filter(|n| n.ends_with("query.weight"));
    assert_eq!(shared.count(), 1, "{frequencies:?}");
    assert!(names.contains(&"rotary.key.weight".to_string()));

    // Frequencies that differ although the options say that they are one and the same.
    let limits = Limits::default();
    let mut tensors = torch::read_state_dict(&fixture(GT).join("model.ckpt"), &limits).unwrap();
    let name = "model.layers.1.attention.OmegaQ.weight";
    let first = tensors.get(name).unwrap();
    let zeros = vec![0; first.bytes().len()];
    let other = TensorData::new(first.element(), first.shape().to_vec(), zeros).unwrap();
    let mut moved = candle_graph_weights::StateDict::new("model.ckpt".to_string());
    for (each, tensor) in std::mem::replace(&mut tensors, moved.clone()) {
        let tensor = if each == name { other.clone() } else { tensor };
        drop(moved.insert(each, tensor));
    }
    let options = Options::from_value(options(GT), "config.json");
    let message = convert_tensors(moved, options, &GraphGymOptions::default(), &limits);
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains("OmegaQ.weight` should be one and the same"),
        "{message}"
    );
}

#[test]
fn a_layer_of_its_own_frequencies_keeps_them() {
    let converted = convert(GPS, options(GPS), &GraphGymOptions::default()).unwrap();
    assert!(!rotary(&converted).share_layers && !rotary(&converted).separate_keys);
    let names = names(&converted);
    for name in [
        "layers.0.rotary.query.weight",
        "layers.1.rotary.query.weight",
    ] {
        assert!(names.contains(&name.to_string()), "{name}");
    }
    assert!(
        converted
            .notes
            .iter()
            .any(|note| note.contains("padding mask inverted"))
    );
}

#[test]
fn options_that_cannot_be_followed_are_refused_by_name() {
    for (case, pointer, value, words) in [
        (
            GPS,
            "/gt/graphrope/attn_type",
            json!("Half"),
            "`Half` is not known (Full, Linear)",
        ),
        (
            GPS,
            "/gt/graphrope/encoder",
            json!("RWSE"),
            "`RWSE` makes no coordinates",
        ),
        (GPS, "/gt/graphrope/t_dim", json!(9), "gt.graphrope.t_dim"),
        (
            GPS,
            "/gt/graphrope/encodr",
            json!(""),
            "gt.graphrope.encodr",
        ),
        (
            GPS,
            "/posenc_LapRoPE/model",
            json!("Mean"),
            "posenc_LapRoPE.model",
        ),
        (
            GT,
            "/posenc_LapRoPE/enable",
            json!(false),
            "posenc_LapRoPE.enable",
        ),
        (
            GT,
            "/gt/layer_type",
            json!("SANLayer"),
            "not known to GT (GraphRoPE, Multihead)",
        ),
        (
            GT,
            "/gt/n_heads",
            json!(7),
            "7 heads do not divide gt.dim_hidden",
        ),
        (GT, "/gt/n_heads", json!(36), "no random features"),
    ] {
        let found = convert(
            case,
            changed(case, pointer, value),
            &GraphGymOptions::default(),
        );
        let message = found.unwrap_err().to_string();
        assert!(message.contains(words), "{pointer}: {message}");
    }
}

#[test]
fn options_of_training_change_nothing() {
    let expected = convert(GPS, options(GPS), &GraphGymOptions::default()).unwrap();
    for (pointer, value) in [
        ("/gt/graphrope/init_omega", json!("zero")),
        ("/gt/graphrope/freeze_omega", json!(true)),
    ] {
        let found = convert(
            GPS,
            changed(GPS, pointer, value),
            &GraphGymOptions::default(),
        );
        let found = found.unwrap();
        assert_eq!(
            found.checkpoint.config().model,
            expected.checkpoint.config().model
        );
    }
}

#[test]
fn a_model_that_does_not_rotate_leaves_frequencies_out() {
    let off = changed(GPS, "/gt/graphrope/enable", json!(false));
    let converted = convert(GPS, off, &GraphGymOptions::default())
        .unwrap_err()
        .to_string();
    // The checkpoint holds frequencies that such a model has no place for.
    assert!(converted.contains("rotary.query.weight"), "{converted}");
}

#[test]
fn eigenvectors_are_computed_as_lap_pe_says_where_it_is_on() {
    let other = changed(GPS, "/posenc_LapRoPE/eigen/laplacian_norm", json!("sym"));
    let converted = convert(GPS, other, &GraphGymOptions::default()).unwrap();
    let plan = &converted.checkpoint.config().encodings;
    assert_eq!(plan.recipes().len(), 1, "{plan:?}");
    let EncodingRecipe::LapPe(recipe) = &plan.recipes()[0] else {
        panic!("{plan:?}");
    };
    assert_eq!(recipe.laplacian_norm, LaplacianNorm::None);
    assert!(
        converted
            .notes
            .iter()
            .any(|note| note.contains("posenc_LapRoPE.eigen"))
    );
}

fn eigenvectors(count: usize) -> Rotational {
    Rotational::Eigenvectors {
        count,
        trivial: true,
        laplacian_norm: LaplacianNorm::None,
        scale: EigenvectorScale::Unit,
    }
}

#[test]
fn coordinates_that_come_with_the_data_can_be_named() {
    let converted = convert(GIVEN, options(GIVEN), &GraphGymOptions::default()).unwrap();
    let given = EncodingRecipe::Rotational(Rotational::Given { dim: 5 });
    assert!(
        converted
            .checkpoint
            .config()
            .encodings
            .recipes()
            .contains(&given)
    );
    assert!(
        converted
            .notes
            .iter()
            .any(|note| note.contains("must carry its 5 coordinates"))
    );

    let named = GraphGymOptions {
        coordinates: Some(eigenvectors(5)),
        ..GraphGymOptions::default()
    };
    let converted = convert(GIVEN, options(GIVEN), &named).unwrap();
    let computed = EncodingRecipe::Rotational(eigenvectors(5));
    assert!(
        converted
            .checkpoint
            .config()
            .encodings
            .recipes()
            .contains(&computed)
    );

    let wrong = |case: &str, choices: GraphGymOptions, words: &str| {
        let message = convert(case, options(case), &choices)
            .unwrap_err()
            .to_string();
        assert!(message.contains(words), "{message}");
    };
    let of = |count, begin| GraphGymOptions {
        coordinates: count,
        features_begin_with_coordinates: begin,
        ..GraphGymOptions::default()
    };
    wrong(
        GIVEN,
        of(Some(eigenvectors(6)), false),
        "gt.graphrope.t_dim",
    );
    wrong(
        GPS,
        of(Some(eigenvectors(8)), false),
        "no coordinates that come with the data",
    );
    wrong(GIVEN, of(None, true), "must be given too");
    // The features of this model are two marks, without coordinates before them.
    wrong(
        GIVEN,
        of(Some(eigenvectors(5)), true),
        "no linear map of 5 coordinates",
    );
}

#[test]
fn features_that_begin_with_coordinates_are_told_apart() {
    let mut wide = options("wire/synthetic-shortest-path");
    wide["share"]["dim_in"] = json!(7);
    let choices = GraphGymOptions {
        coordinates: Some(eigenvectors(5)),
        features_begin_with_coordinates: true,
        ..GraphGymOptions::default()
    };
    let configured = configure_with(Options::from_value(wide, "config.json"), &choices).unwrap();
    let ModelConfig::Gps(config) = &configured.config.model else {
        panic!("another family");
    };
    let encoder = &config.input.node_encoder;
    assert_eq!(encoder.features, FeatureEncoderConfig::Linear { width: 2 });
    assert_eq!(encoder.prepend, Some(eigenvectors(5)));
    assert!(matches!(
        config.attention,
        Some(AttentionConfig::Softmax { heads: 1, .. })
    ));
}

#[test]
fn every_fixture_converts() {
    let folder: PathBuf = fixture("wire");
    let cases = std::fs::read_dir(folder).unwrap();
    let mut count = 0;
    for case in cases {
        let name = case.unwrap().file_name().into_string().unwrap();
        let case = format!("wire/{name}");
        let converted = convert(&case, options(&case), &GraphGymOptions::default());
        let converted = converted.unwrap_or_else(|error| panic!("{case}: {error}"));
        let counters = converted.ignored.iter();
        let mut left_out = counters.filter(|n| !n.ends_with(".num_batches_tracked"));
        assert!(
            left_out.all(|n| n.contains(".norm1_local.")),
            "{:?}",
            converted.ignored
        );
        count += 1;
    }
    assert_eq!(count, 4);
}
