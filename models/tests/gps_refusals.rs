//! Configurations of the families of GraphGPS that no model can be built from are refused by name,
//! without a panic, and the others are built.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::slice::from_ref;

use candle_core::{DType, Device};
use candle_graph::graph::{FeatureSchema, Graph};
use candle_graph_models::{GraphModel, ModelConfig, Predictor};
use candle_nn::VarBuilder;
use proptest::prelude::*;
use serde_json::{Value, json};

use support::*;

const FAMILIES: [&str; 4] = ["gps", "mpnn", "san", "graphormer"];

/// The options of a small model.
fn options(family: &str) -> Value {
    let mut options = json!({
        "hidden_dim": 8, "layers": 2,
        "input": {
            "node_encoder": {"features": {"kind": "linear", "width": 3}, "positional": []},
            "edge_encoder": {"kind": "embedding", "tables": [3]},
            "pre_layers": {
                "input_dim": 8, "layers": 1, "batch_norm": true, "activation": "relu",
                "normalise_rows": false,
            },
        },
        "output": {"dim": 1, "pooling": "mean", "head": {"kind": "graph", "layers": 2}},
    });
    let own = match family {
        "gps" => json!({
            "local": {"kind": "gine", "activation": "relu"},
            "attention": {"kind": "softmax", "heads": 2}, "norm": "batch",
        }),
        "mpnn" => json!({"layer": {"kind": "gine", "activation": "relu"}, "residual": true}),
        "san" => json!({
            "heads": 2, "full_graph": true, "weighting": {"kind": "shared", "gamma": 0.1},
            "residual": true, "layer_norm": false, "batch_norm": true,
        }),
        _ => json!({"heads": 2}),
    };
    let all = options.as_object_mut().unwrap();
    all.extend(own.as_object().unwrap().clone());
    options
}

/// The model of `family` with the values at these places, added where there are none.
fn config(family: &str, changes: &[(&str, Value)]) -> ModelConfig {
    let mut options = options(family);
    for (at, value) in changes {
        let (parent, key) = at.rsplit_once('/').unwrap();
        options.pointer_mut(parent).unwrap()[key] = value.clone();
    }
    serde_json::from_value(json!({"model_type": family, "model": options})).unwrap()
}

fn build_zeros(config: &ModelConfig) -> candle_graph::Result<Box<dyn GraphModel>> {
    config.build(VarBuilder::zeros(DType::F32, &Device::Cpu))
}

#[track_caller]
fn assert_refused(family: &str, changes: &[(&str, Value)], option: &str, problem: &str) {
    let config = config(family, changes);
    let error = config.check().unwrap_err();
    assert_eq!(error.option, option, "{family}: {error}");
    assert!(error.problem.contains(problem), "{family}: {error}");
    let message = build_zeros(&config).unwrap_err().to_string();
    assert!(message.starts_with(&error.to_string()), "{message}");
}

fn equiv_stable() -> Value {
    let recipe = json!({"frequencies": 3, "laplacian_norm": "sym", "eigvec_norm": "L2"});
    json!({"kind": "equiv_stable", "recipe": recipe, "raw_norm": false})
}

fn graphormer(heads: usize, degrees_only: bool, edge_types: bool, graph_token: bool) -> Value {
    let recipe = json!({
        "spatial_types": 3, "in_degrees": 8, "out_degrees": 8, "degrees_only": degrees_only,
        "edge_types": edge_types,
    });
    json!({
        "kind": "graphormer", "recipe": recipe, "heads": heads, "edge_types": 3,
        "graph_token": graph_token,
    })
}

const POSITIONAL: &str = "/input/node_encoder/positional";

#[test]
fn sizes_out_of_range_are_refused_in_every_family() {
    let huge = json!(u64::MAX);
    let range = "is out of range";
    for family in FAMILIES {
        build_zeros(&config(family, &[])).unwrap();
        for (at, value, option, problem) in [
            ("/hidden_dim", json!(0), "hidden_dim", range),
            ("/hidden_dim", huge.clone(), "hidden_dim", range),
            ("/layers", json!(0), "layers", range),
            ("/layers", huge.clone(), "layers", range),
            (
                "/input/pre_layers/input_dim",
                json!(0),
                "input.pre_layers.input_dim",
                range,
            ),
            (
                "/input/pre_layers/layers",
                json!(0),
                "input.pre_layers.layers",
                range,
            ),
            (
                "/input/norm_eps",
                json!(-1.0),
                "input.norm_eps",
                "not negative",
            ),
            (
                "/input/node_encoder/features",
                json!({"kind": "none"}),
                "input.node_encoder",
                "it makes 0 of the 8 columns",
            ),
            (
                "/input/node_encoder/features/width",
                json!(0),
                "input.node_encoder.features",
                "size 0",
            ),
            (
                "/input/edge_encoder/tables",
                json!([]),
                "input.edge_encoder",
                "size 0",
            ),
            (
                "/input/edge_encoder",
                json!({"kind": "clamped_embedding", "tables": [3], "clamped": [1]}),
                "input.edge_encoder.clamped",
                "column 1 of 1",
            ),
            (
                "/input/edge_encoder",
                json!({"kind": "none"}),
                "input.edge_encoder",
                "leave the option out",
            ),
            ("/output/dim", json!(0), "output.dim", range),
            ("/output/dim", huge.clone(), "output.dim", range),
            ("/output/head/layers", json!(0), "output.head.layers", range),
            (
                "/output/head",
                json!({"kind": "ogb_code_graph", "positions": 2}),
                "output.head.positions",
                "1 outputs among 2 positions",
            ),
            (
                "/output/pooling",
                json!("graph_token"),
                "output.pooling",
                "no graph token",
            ),
        ] {
            assert_refused(family, &[(at, value)], option, problem);
        }
        assert_refused(
            family,
            &[
                ("/output/dim", json!(2)),
                (
                    "/output/head",
                    json!({"kind": "inductive_edge", "layers": 1, "decoding": "dot"}),
                ),
            ],
            "output.head.decoding",
            "one score a pair",
        );
        assert_refused(
            family,
            &[(POSITIONAL, json!([equiv_stable(), equiv_stable()]))],
            "input.node_encoder",
            "may stand once",
        );
    }
}

#[test]
fn heads_must_divide_the_width() {
    for heads in [0, 3] {
        let problem = format!("{heads} does not divide a width of 8");
        for (family, at, value, option) in [
            ("san", "/heads", json!(heads), "heads"),
            ("graphormer", "/heads", json!(heads), "heads"),
            (
                "gps",
                "/attention",
                json!({"kind": "softmax", "heads": heads}),
                "attention.heads",
            ),
            (
                "gps",
                "/attention",
                json!({
                    "kind": "big_bird", "heads": heads, "block_size": 2, "random_blocks": 1,
                    "use_bias": true,
                }),
                "attention.heads",
            ),
            (
                "gps",
                "/local",
                json!({"kind": "gat", "heads": heads}),
                "local.heads",
            ),
            (
                "mpnn",
                "/layer",
                json!({"kind": "gat", "heads": heads}),
                "layer.heads",
            ),
        ] {
            assert_refused(family, &[(at, value)], option, &problem);
        }
    }
}

#[test]
fn attention_with_counts_of_zero_is_refused() {
    let performer = json!({"kind": "performer", "heads": 2, "head_dim": 4, "features": 5});
    let big_bird = json!({
        "kind": "big_bird", "heads": 2, "block_size": 2, "random_blocks": 1, "use_bias": true,
    });
    for (attention, options) in [
        (performer, ["heads", "head_dim", "features"].as_slice()),
        (big_bird, &["block_size", "random_blocks"]),
    ] {
        build_zeros(&config("gps", &[("/attention", attention.clone())])).unwrap();
        for option in options {
            let at = format!("/attention/{option}");
            let changes = [("/attention", attention.clone()), (at.as_str(), json!(0))];
            let named = format!("attention.{option}");
            assert_refused("gps", &changes, &named, "is out of range");
        }
    }
    let changes = [(
        "/attention",
        json!({
            "kind": "big_bird", "heads": 2, "block_size": 2, "random_blocks": 1, "use_bias": true,
            "norm_eps": -1.0,
        }),
    )];
    assert_refused("gps", &changes, "attention.norm_eps", "not negative");
}

#[test]
fn layers_without_what_they_need_are_refused() {
    let neither = [("/local", Value::Null), ("/attention", Value::Null)];
    assert_refused(
        "gps",
        &neither,
        "local",
        "needs message passing or attention",
    );
    let no_edges = [("/input/edge_encoder", Value::Null)];
    for family in ["gps", "mpnn", "san"] {
        assert_refused(
            family,
            &no_edges,
            "input.edge_encoder",
            "needs an edge encoder",
        );
    }
    // Those that read no edge states do without.
    build_zeros(&config("graphormer", &no_edges)).unwrap();
    for kind in [
        json!({"kind": "gin", "activation": "relu"}),
        json!({"kind": "gcn"}),
    ] {
        let changes = [no_edges[0].clone(), ("/local", kind.clone())];
        build_zeros(&config("gps", &changes)).unwrap();
        let changes = [no_edges[0].clone(), ("/layer", kind)];
        build_zeros(&config("mpnn", &changes)).unwrap();
    }
    let gated = json!({"kind": "gated_gcn", "activation": "relu", "residual": false});
    assert_refused(
        "mpnn",
        &[("/layer", gated)],
        "layer.residual",
        "but `residual` is true",
    );
    for gamma in [-1.0, -2.0] {
        let weighting = json!({"kind": "shared", "gamma": gamma});
        assert_refused(
            "san",
            &[("/weighting", weighting)],
            "weighting.gamma",
            "above -1",
        );
    }
}

#[test]
fn positions_go_to_message_passing_that_takes_them() {
    let positions = (POSITIONAL, json!([equiv_stable()]));
    let gated = json!({"kind": "gated_gcn", "activation": "relu", "residual": true});
    for (family, option) in [("gps", "local"), ("mpnn", "layer")] {
        let at = format!("/{option}");
        build_zeros(&config(family, from_ref(&positions))).unwrap();
        build_zeros(&config(family, &[positions.clone(), (&at, gated.clone())])).unwrap();
        for kind in [
            json!({"kind": "gcn"}),
            json!({"kind": "gin", "activation": "relu"}),
            json!({"kind": "gat", "heads": 2}),
            json!({"kind": "gen_conv"}),
            json!({"kind": "pna"}),
        ] {
            let changes = [positions.clone(), (at.as_str(), kind)];
            assert_refused(family, &changes, option, "EquivStable");
        }
    }
    let changes = [positions.clone(), ("/local", Value::Null)];
    assert_refused("gps", &changes, "local", "EquivStable");
    for family in ["san", "graphormer"] {
        let changes = [positions.clone()];
        assert_refused(family, &changes, "input.node_encoder", "EquivStable");
    }
}

#[test]
fn an_attention_bias_goes_to_softmax_attention_of_as_many_heads() {
    let with = |encoder: Value| (POSITIONAL, json!([encoder]));
    let bias = with(graphormer(2, false, false, false));
    for family in ["gps", "graphormer"] {
        build_zeros(&config(family, from_ref(&bias))).unwrap();
    }
    let other = with(graphormer(4, false, false, false));
    let problem = "2, but the attention bias has 4";
    assert_refused("gps", from_ref(&other), "attention.heads", problem);
    assert_refused("graphormer", &[other], "heads", problem);
    for attention in [
        Value::Null,
        json!({"kind": "performer", "heads": 2, "head_dim": 4, "features": 5}),
        json!({
            "kind": "big_bird", "heads": 2, "block_size": 2, "random_blocks": 1, "use_bias": true,
        }),
    ] {
        let changes = [bias.clone(), ("/attention", attention)];
        assert_refused("gps", &changes, "attention", "needs softmax attention");
    }
    for family in ["mpnn", "san"] {
        let changes = [bias.clone()];
        assert_refused(family, &changes, "input.node_encoder", "an attention bias");
        // Degrees alone make no bias, but a graph token has no place either.
        build_zeros(&config(family, &[with(graphormer(2, true, false, false))])).unwrap();
        let token = [with(graphormer(2, true, false, true))];
        assert_refused(family, &token, "input.node_encoder", "a graph token");
    }
}

#[test]
fn edge_types_along_paths_need_categories() {
    let paths = (POSITIONAL, json!([graphormer(2, false, true, false)]));
    for family in ["gps", "graphormer"] {
        for encoder in [
            json!({"kind": "embedding", "tables": [3]}),
            json!({"kind": "dummy"}),
        ] {
            let config = config(family, &[paths.clone(), ("/input/edge_encoder", encoder)]);
            let model = build_zeros(&config).unwrap();
            let tables = vec![3];
            let expected = FeatureSchema::Categorical { tables };
            assert_eq!(model.input_schema().edge, expected);
        }
        for encoder in [
            json!({"kind": "linear", "width": 2}),
            json!({"kind": "raw"}),
        ] {
            let changes = [paths.clone(), ("/input/edge_encoder", encoder)];
            assert_refused(family, &changes, "input.edge_encoder", "categories");
        }
    }
}

/// Whole numbers of `value` become small ones, about one in `share`.
fn disturb(value: &mut Value, share: u64, stream: &mut Stream) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|v| disturb(v, share, stream)),
        Value::Object(fields) => fields.values_mut().for_each(|v| disturb(v, share, stream)),
        Value::Number(number) if number.is_u64() => {
            let draw = stream.next();
            if draw.is_multiple_of(share) {
                *value = json!((draw >> 32) % 6);
            }
        }
        _ => (),
    }
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn what_passes_the_check_is_built_and_runs(
        model in any_gps_model(),
        share in 2u64..40,
        seed: u64,
    ) {
        let mut value = serde_json::to_value(&model.config).unwrap();
        disturb(&mut value, share, &mut Stream::new(seed));
        let config: ModelConfig = serde_json::from_value(value).unwrap();
        let built = build_zeros(&config);
        prop_assert_eq!(config.check().is_ok(), built.is_ok(), "{:?}", built);
        let Ok(model) = built else {
            return Ok(());
        };
        let predictor = Predictor::new(model, Device::Cpu);
        let (_, specs): (Vec<&str>, Vec<_>) = unusual_graphs().into_iter().unzip();
        let graphs: Vec<Graph> = build(&specs, &predictor);
        if let Err(error) = predictor.predict(&graphs) {
            // Degrees and edge types beyond the model's tables are the graphs' affair.
            let message = error.to_string();
            let known = ["-degree", "edge types, but an edge has the category"];
            prop_assert!(known.iter().any(|k| message.contains(k)), "{}", message);
        }
    }
}
