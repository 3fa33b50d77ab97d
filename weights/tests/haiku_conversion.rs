//! Official models of directed graphs become ours: every tensor is placed, every option counts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;

use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{
    DigraphConfig, DigraphEncoderConfig, DigraphInputConfig, TransformerEncoderConfig,
};
use candle_graph_weights::convert::haiku::{configure_with, convert, convert_tensors};
use candle_graph_weights::convert::{Converted, Options};
use candle_graph_weights::{Error, Limits, StateDict, TensorData};
use serde::Deserialize;
use serde_json::{Value, json};
use support::{fixture, shared};

/// Names and shapes of an official checkpoint, with its options.
#[derive(Clone, Deserialize)]
struct Case {
    options: Value,
    tensors: BTreeMap<String, Vec<usize>>,
}

fn cases() -> BTreeMap<String, Case> {
    let text = std::fs::read_to_string(fixture("digraph/names.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn named(name: &str) -> Case {
    cases().remove(name).unwrap()
}

/// Values that differ within a tensor and between tensors.
fn values(seed: usize, count: usize) -> Vec<f32> {
    (0..count)
        .map(|i| 1e-3 * ((31 * seed + 7 * i) % 997) as f32)
        .collect()
}

impl Case {
    fn set(mut self, pointer: &str, value: Value) -> Self {
        let (section, option) = pointer.rsplit_once('/').unwrap();
        let section = self.options.pointer_mut(section).unwrap();
        section
            .as_object_mut()
            .unwrap()
            .insert(option.to_string(), value);
        self
    }

    fn without(mut self, pointer: &str) -> Self {
        let (section, option) = pointer.rsplit_once('/').unwrap();
        let section = self.options.pointer_mut(section).unwrap();
        section.as_object_mut().unwrap().remove(option).unwrap();
        self
    }

    fn rename(mut self, rename: impl Fn(&str) -> String) -> Self {
        let tensors = std::mem::take(&mut self.tensors);
        self.tensors = (tensors.into_iter())
            .map(|(name, shape)| (rename(&name), shape))
            .collect();
        self
    }

    fn tensor(&self, name: &str) -> Vec<f32> {
        let seed = self.tensors.keys().position(|n| n == name).expect(name);
        values(seed, self.tensors[name].iter().product())
    }

    fn options(&self) -> Options {
        Options::from_value(self.options.clone(), "config.json")
    }

    fn convert(&self) -> Result<Converted, Error> {
        let mut official = StateDict::new("checkpoint.dill");
        for (name, shape) in &self.tensors {
            let tensor = TensorData::from_f32(shape.clone(), &self.tensor(name)).unwrap();
            official.insert(name.clone(), tensor).unwrap();
        }
        convert_tensors(official, self.options(), &Limits::default())
    }

    #[track_caller]
    fn refused(&self, parts: &[&str]) {
        let message = self.convert().map(|_| ()).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    }

    fn config(&self) -> DigraphConfig {
        let configured = configure_with(self.options()).unwrap();
        match configured.config.model {
            ModelConfig::Digraph(config) => config,
            other => panic!("{other:?}"),
        }
    }
}

fn transformer(config: &DigraphConfig) -> &TransformerEncoderConfig {
    match &config.encoder {
        DigraphEncoderConfig::Transformer(config) => config,
        other => panic!("{other:?}"),
    }
}

fn converted_values(converted: &Converted, name: &str) -> (Vec<usize>, Vec<f32>) {
    let tensor = converted.checkpoint.weights().get(name).expect(name);
    let shape = tensor.shape().to_vec();
    (shape, support::floats(converted.checkpoint.weights(), name))
}

/// `[rows, columns]` to `[columns, rows]`.
fn transposed(shape: &[usize], values: &[f32]) -> (Vec<usize>, Vec<f32>) {
    let (rows, columns) = (shape[0], shape[1]);
    let value = |i: usize| values[(i % rows) * columns + i / rows];
    (vec![columns, rows], (0..values.len()).map(value).collect())
}

#[test]
fn every_case_is_placed_and_loads() {
    let cases = cases();
    assert_eq!(cases.len(), 17);
    for (name, case) in &cases {
        let converted = case
            .convert()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let weights = converted.checkpoint.weights();
        // The convolution shares its steps and has a map that nothing reads; the syntax trees get a bias.
        let (ignored, added) = match name.as_str() {
            "code2_seq_gcn" => (4, 2 * 2 * 7 + 1),
            _ => (0, 0),
        };
        assert_eq!(converted.ignored.len(), ignored, "{name}");
        assert_eq!(
            weights.len(),
            case.tensors.len() - ignored + added,
            "{name}"
        );
        // Nothing that training moves is left at a default, and nothing stands for two tensors.
        if name == "sn_lap" {
            continue;
        }
        let mut seen: Vec<&[u8]> = weights.iter().map(|(_, tensor)| tensor.bytes()).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(
            seen.len(),
            weights.len() - added + usize::from(added > 0),
            "{name}"
        );
    }
}

#[test]
fn files_in_both_forms_give_the_same_checkpoint() {
    let mut folders: Vec<_> = ["adj_magnet", "sn_gnn_undirected_maglap"]
        .iter()
        .map(|name| fixture("digraph").join(name))
        .collect();
    if let Some(shared) = shared() {
        let all = support::find(&shared.join("goldens/digraph"), "checkpoint.dill");
        folders.extend(all.iter().map(|path| path.parent().unwrap().to_path_buf()));
        folders.push(shared.join("checkpoints/digraph-sorting"));
    }
    for folder in folders {
        let convert = |file: &str| {
            let (file, options) = (folder.join(file), folder.join("config.json"));
            convert(&file, &options, &Limits::default())
                .unwrap()
                .checkpoint
        };
        let (pickled, flattened) = (convert("checkpoint.dill"), convert("params.safetensors"));
        assert_eq!(pickled.config().model, flattened.config().model);
        assert_eq!(pickled.weights().len(), flattened.weights().len());
        for (name, tensor) in flattened.weights().iter() {
            assert_eq!(pickled.weights().get(name), Some(tensor), "{name}");
        }
    }
}

/// The official files of all cases, where they are.
#[test]
fn all_shared_parameters_convert() {
    let Some(shared) = shared() else { return };
    let files = support::find(&shared.join("goldens/digraph"), "params.safetensors");
    assert_eq!(files.len(), 17);
    for file in files {
        let options = file.with_file_name("config.json");
        convert(&file, &options, &Limits::default()).unwrap();
    }
}

#[test]
fn weights_are_transposed_and_everything_else_is_kept() {
    let case = named("code2_sat_maglap");
    let converted = case.convert().unwrap();
    let layer = "structure_aware_transformer/~/transformer_encoder_layer_2";
    for (official, ours) in [
        ("/~/multi_head_attention/query", "attention.query"),
        ("/~/multi_head_attention/key", "attention.key"),
        ("/~/multi_head_attention/value", "attention.value"),
        ("/~/multi_head_attention/linear", "attention.output"),
        ("/linear", "feed_forward.input"),
        ("/linear_1", "feed_forward.output"),
        ("/~/gnn/linear", "structure.output"),
        (
            "/~/gnn/~_update_fn/edge_mlp1_linear0",
            "structure.steps.1.edge.0",
        ),
        (
            "/~/gnn/~_update_fn/node_mlp2_linear0",
            "structure.steps.2.node.0",
        ),
    ] {
        let (w, b) = (
            format!("{layer}{official}/w"),
            format!("{layer}{official}/b"),
        );
        let weight = converted_values(&converted, &format!("layers.2.{ours}.weight"));
        assert_eq!(
            weight,
            transposed(&case.tensors[&w], &case.tensor(&w)),
            "{ours}"
        );
        let (_, bias) = converted_values(&converted, &format!("layers.2.{ours}.bias"));
        assert_eq!(bias, case.tensor(&b), "{ours}");
    }
    let network = "structure_aware_transformer/~/mag_lap_net/";
    for (official, ours) in [
        (
            "structure_aware_transformer/~/transformer_encoder_layer/layer_norm/scale",
            "layers.0.norm_attention.weight",
        ),
        (
            "structure_aware_transformer/~/transformer_encoder_layer/layer_norm_1/offset",
            "layers.0.norm_feed_forward.bias",
        ),
        (
            "structure_aware_transformer/~/transformer_encoder_layer_1/~/gnn/layer_norm/scale",
            "layers.1.structure.norm.weight",
        ),
        (
            "structure_aware_transformer/~/mag_lap_net/layer_norm/offset",
            "positional.network.norm.bias",
        ),
        (
            "structure_aware_transformer/~/mag_lap_net/~/re_element/linear/b",
            "positional.network.element.output.bias",
        ),
        ("structure_aware_transformer/cls_token", "token"),
        (
            "data_flow_ast_encoder/embed/embeddings",
            "node_encoder.embeddings.0.weight",
        ),
        (
            "data_flow_ast_encoder/embed_1/embeddings",
            "node_encoder.embeddings.1.weight",
        ),
        (
            "data_flow_ast_encoder/embed_2/embeddings",
            "node_encoder.embeddings.2.weight",
        ),
        (
            "data_flow_ast_encoder/embed_3/embeddings",
            "edge_encoder.embeddings.0.weight",
        ),
        (
            "data_flow_ast_encoder/embed_4/embeddings",
            "edge_encoder.embeddings.1.weight",
        ),
    ] {
        let (_, found) = converted_values(&converted, ours);
        assert_eq!(found, case.tensor(official), "{ours}");
    }
    assert!(case.tensors.keys().any(|name| name.starts_with(network)));
}

#[test]
fn heads_walks_magnet_and_syntax_trees_are_placed() {
    let expect = |case: &Case, pairs: &[(&str, &str)]| {
        let converted = case.convert().unwrap();
        for (official, ours) in pairs {
            let official = format!("structure_aware_transformer/{official}");
            let (_, found) = converted_values(&converted, ours);
            assert_eq!(found, case.tensor(&official), "{ours}");
        }
    };
    expect(
        &named("dist_rw_relative"),
        &[
            ("adj_mlp/linear/b", "head.layers.0.bias"),
            ("adj_mlp/linear_1/b", "head.layers.1.bias"),
            ("adj_mlp/layer_norm/scale", "head.norms.0.weight"),
            ("adj_mlp/layer_norm_1/offset", "head.norms.1.bias"),
            ("adj_out/b", "head.output.bias"),
            (
                "~/transformer_encoder_layer_3/~/multi_head_attention/linear/b",
                "layers.3.attention.pair_bias.bias",
            ),
            (
                "~/transformer_encoder_layer_3/~/multi_head_attention/linear_1/b",
                "layers.3.attention.output.bias",
            ),
        ],
    );
    expect(
        &named("adj_magnet"),
        &[
            ("~/mag_net/linear/b", "layers.0.own.bias"),
            ("~/mag_net/linear_2/b", "layers.1.own.bias"),
            ("~/mag_net/linear_4/b", "layers.2.own.bias"),
        ],
    );
    expect(
        &named("sn_rw"),
        &[
            ("linear/b", "head.bias"),
            (
                "~positional_encodings/posenc_linear/b",
                "positional.pair.bias",
            ),
            (
                "~positional_encodings/posenc_mlp_linear0/b",
                "positional.node.bias",
            ),
        ],
    );
    expect(
        &named("sn_maglap_relative"),
        &[
            (
                "~/mag_lap_net/~/re_aggregate/linear/b",
                "positional.network.aggregate.bias",
            ),
            (
                "~/mag_lap_net/~/im_aggregate/linear/b",
                "positional.network.aggregate_imaginary.bias",
            ),
            (
                "~/mag_lap_net/~/re_element/linear/b",
                "positional.network.element.bias",
            ),
        ],
    );
    expect(
        &named("sn_gnn"),
        &[
            ("~/gnn/linear/b", "message_passing.output.bias"),
            (
                "~/gnn/~_update_fn/edge_mlp2_linear0/b",
                "message_passing.steps.2.edge.0.bias",
            ),
        ],
    );
    let magnet = named("adj_magnet");
    let name = "structure_aware_transformer/~/mag_net/linear_3/w";
    let neighbours = converted_values(&magnet.convert().unwrap(), "layers.1.neighbours.weight");
    assert_eq!(neighbours, transposed(&[48, 48], &magnet.tensor(name)));
}

/// Heads of width 0 leave the bias of the output.
#[test]
fn heads_of_no_width_become_one_with_weights_of_zero() {
    let case = named("sn_lap");
    let converted = case.convert().unwrap();
    let attention = "positional.network.attention";
    for part in ["query", "key", "value", "output"] {
        let weight = converted_values(&converted, &format!("{attention}.{part}.weight"));
        assert_eq!(weight, (vec![3, 3], vec![0.0; 9]), "{part}");
    }
    let official = "structure_aware_transformer/~/mag_lap_net/multi_head_attention/linear/b";
    let (_, bias) = converted_values(&converted, &format!("{attention}.output.bias"));
    assert_eq!(bias, case.tensor(official));
    assert!(converted.notes.iter().any(|note| note.contains("width 0")));
}

/// The official code stores the weights of one step and reads them in all.
#[test]
fn steps_of_a_convolution_share_their_weights() {
    let case = named("code2_seq_gcn");
    let converted = case.convert().unwrap();
    let gcn =
        "structure_aware_transformer/~/transformer_encoder_layer_1/~/gnn/~_layer/graph_convolution";
    for step in 0..3 {
        for (official, ours) in [
            ("linear/b", "node.bias"),
            ("linear_1/b", "edge.bias"),
            ("linear_3/b", "backward_edge.bias"),
            ("root_emb", "root"),
        ] {
            let ours = format!("layers.1.structure.steps.{step}.{ours}");
            let (_, found) = converted_values(&converted, &ours);
            assert_eq!(found, case.tensor(&format!("{gcn}/{official}")), "{ours}");
        }
    }
    assert!(
        converted
            .ignored
            .iter()
            .all(|name| name.contains("linear_2"))
    );
    assert!(
        converted
            .notes
            .iter()
            .any(|note| note.contains("backward map"))
    );
    let bias = converted_values(&converted, "edge_encoder.linear.bias");
    assert_eq!(bias, (vec![24], vec![0.0; 24]));
    // As many steps as there is memory for, not as many as an option says.
    let many = case.set("/model/gnn_config/k_hop", json!(4000));
    let mut limits = Limits::default();
    limits.total_bytes = 64 << 20;
    let mut official = StateDict::new("checkpoint.dill");
    for (name, shape) in &many.tensors {
        let tensor = TensorData::from_f32(shape.clone(), &many.tensor(name)).unwrap();
        official.insert(name.clone(), tensor).unwrap();
    }
    let error = convert_tensors(official, many.options(), &limits).unwrap_err();
    assert!(error.to_string().contains("total_bytes"), "{error}");
}

/// Names as Haiku gives them: a batch norm makes its averages twice and reads the second ones.
#[test]
fn batch_norms_take_their_moving_averages() {
    let norm = "structure_aware_transformer/~/transformer_encoder_layer_1/batch_norm_1";
    let mut case = named("code2_sat_rw")
        .set("/model/batch_norm", json!(true))
        .rename(|name| match name.contains("transformer_encoder_layer") {
            true => name.replace("layer_norm", "batch_norm"),
            false => name.to_string(),
        });
    let scales: Vec<String> = (case.tensors.keys())
        .filter(|name| name.contains("batch_norm") && name.ends_with("/scale"))
        .cloned()
        .collect();
    assert_eq!(scales.len(), 2 * 3);
    for scale in scales {
        let norm = scale.strip_suffix("/scale").unwrap();
        let width = case.tensors[&scale][0];
        for name in ["scale", "offset"] {
            case.tensors
                .insert(format!("{norm}/{name}"), vec![1, 1, width]);
        }
        for average in ["mean_ema_1", "var_ema_1"] {
            for (name, shape) in [
                ("counter", vec![]),
                ("hidden", vec![1, 1, width]),
                ("average", vec![1, 1, width]),
            ] {
                case.tensors
                    .insert(format!("{norm}/~/{average}/{name}"), shape);
            }
        }
    }
    let converted = case.convert().unwrap();
    assert_eq!(converted.ignored.len(), 6 * 4);
    for (official, ours) in [
        ("scale", "weight"),
        ("offset", "bias"),
        ("~/mean_ema_1/average", "running_mean"),
        ("~/var_ema_1/average", "running_var"),
    ] {
        let (shape, found) =
            converted_values(&converted, &format!("layers.1.norm_feed_forward.{ours}"));
        assert_eq!(
            (shape, found),
            (vec![48], case.tensor(&format!("{norm}/{official}")))
        );
    }
    let mut incomplete = case.clone();
    incomplete
        .tensors
        .remove(&format!("{norm}/~/var_ema_1/average"));
    incomplete.refused(&["layers.1.norm_feed_forward.running_var", "missing"]);
    // The official code cannot run it there.
    named("sn_maglap")
        .set("/model/batch_norm", json!(true))
        .refused(&["`model.batch_norm`", "maglap_transformer"]);
}

#[test]
fn norms_that_stand_first_are_placed_there() {
    let case = named("sn_sinusoidal").set("/model/attention_config/pre_norm", json!(true));
    let converted = case.convert().unwrap();
    let layer = "structure_aware_transformer/~/transformer_encoder_layer_2";
    let (_, first) = converted_values(&converted, "layers.2.norm_first.weight");
    assert_eq!(first, case.tensor(&format!("{layer}/layer_norm/scale")));
    let (_, second) = converted_values(&converted, "layers.2.norm_attention.bias");
    assert_eq!(second, case.tensor(&format!("{layer}/layer_norm_1/offset")));
}

/// Without the order of nodes there is no table of depths, and the tables of edges move up.
#[test]
fn tables_without_depth_are_told_apart() {
    let mut case = named("code2_sat_rw").set("/model/posenc_config/exclude_canonical", json!(true));
    case.tensors
        .remove("data_flow_ast_encoder/embed_2/embeddings")
        .unwrap();
    let case = case.rename(|name| {
        name.replace("embed_3", "embed_2")
            .replace("embed_4", "embed_3")
    });
    let converted = case.convert().unwrap();
    for (official, ours) in [
        ("embed_1", "node_encoder.embeddings.1.weight"),
        ("embed_2", "edge_encoder.embeddings.0.weight"),
        ("embed_3", "edge_encoder.embeddings.1.weight"),
    ] {
        let official = format!("data_flow_ast_encoder/{official}/embeddings");
        assert_eq!(
            converted_values(&converted, ours).1,
            case.tensor(&official),
            "{ours}"
        );
    }
}

#[test]
fn imaginary_projections_and_naive_networks_are_placed() {
    let mut case = named("sn_maglap_relative").set(
        "/model/attention_config/re_im_separate_projection",
        json!(true),
    );
    for layer in ["", "_1"] {
        for part in ["query_1", "key_1"] {
            let module = format!(
                "structure_aware_transformer/~/transformer_encoder_layer{layer}/~/multi_head_attention/{part}"
            );
            case.tensors.insert(format!("{module}/w"), vec![64, 64]);
            case.tensors.insert(format!("{module}/b"), vec![64]);
        }
    }
    let converted = case.convert().unwrap();
    let official =
        "structure_aware_transformer/~/transformer_encoder_layer_1/~/multi_head_attention/key_1/b";
    let (_, found) = converted_values(&converted, "layers.1.attention.key_imaginary.bias");
    assert_eq!(found, case.tensor(official));

    let mut naive = named("sn_maglap").set("/model/posenc_config/maglap_net_type", json!("naive"));
    naive
        .tensors
        .retain(|name, _| !name.contains("mag_lap_net"));
    for part in ["linear", "linear_1"] {
        let module = format!("structure_aware_transformer/~/naive_mag_lap_net/{part}");
        naive.tensors.insert(format!("{module}/w"), vec![25, 64]);
        naive.tensors.insert(format!("{module}/b"), vec![64]);
    }
    let converted = naive.convert().unwrap();
    let official = "structure_aware_transformer/~/naive_mag_lap_net/linear_1/b";
    let (_, found) = converted_values(&converted, "positional.network.imaginary.bias");
    assert_eq!(found, naive.tensor(official));
}

#[test]
fn tensors_without_a_place_and_missing_ones_are_all_named() {
    let mut extra = named("sn_gnn");
    for name in [
        "structure_aware_transformer/pre_gnn_update_edge_fn_linear0/w",
        "optax/mu",
    ] {
        extra.tensors.insert(name.to_string(), vec![64, 64]);
    }
    extra.refused(&[
        "pre_gnn_update_edge_fn_linear0/w",
        "optax/mu",
        "2 tensors have no place",
    ]);
    let mut missing = named("sn_gnn");
    for name in [
        "sorting_network_encoder/linear/w",
        "structure_aware_transformer/linear/b",
    ] {
        missing.tensors.remove(name).unwrap();
    }
    missing.refused(&["node_encoder.linear.weight", "head.bias", "missing"]);
    let mut wrong = named("sn_gnn");
    let name = "structure_aware_transformer/~/gnn/linear/w";
    wrong.tensors.insert(name.to_string(), vec![161, 64]);
    wrong.refused(&["message_passing.output.weight", "161", "160"]);
    wrong.tensors.insert(name.to_string(), vec![2, 80, 64]);
    wrong.refused(&[name, "[2, 80, 64]"]);
    named("sn_maglap")
        .set("/model/num_layers", json!(3))
        .refused(&["layers.3."]);
    named("sn_maglap")
        .set("/model/num_layers", json!(5))
        .refused(&["layers.4.", "missing"]);
}

#[test]
fn options_are_used_known_or_refused_by_name() {
    let refused = |name: &str, pointer: &str, value: Value, parts: &[&str]| {
        let option = pointer.trim_start_matches('/').replace('/', ".");
        let option = format!("`{option}`");
        let parts = [&[option.as_str()], parts].concat();
        let case = named(name).set(pointer, value);
        let message = configure_with(case.options())
            .map(|_| ())
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(message.contains(part), "`{part}` is not in: {message}");
        }
    };
    refused(
        "sn_maglap",
        "/model/with_pre_gnn",
        json!(true),
        &["not supported"],
    );
    refused("sn_maglap", "/model/activation", json!("swish"), &["swish"]);
    refused("sn_maglap", "/model/global_readout", json!("max"), &["max"]);
    refused("sn_maglap", "/model/global_readout", json!(2), &["2"]);
    refused("sn_maglap", "/model/d_model", json!(31), &["at least 32"]);
    refused("sn_maglap", "/model/d_model", json!("wide"), &["wide"]);
    refused("sn_maglap", "/model/num_layers", json!(0), &["at least 1"]);
    refused(
        "sn_maglap",
        "/model/attention_config/num_head",
        json!(2),
        &["num_heads"],
    );
    refused(
        "sn_maglap",
        "/model/attention_config/num_heads",
        json!(0),
        &["at least 1"],
    );
    refused(
        "sn_maglap",
        "/model/attention_config/dense_widening_factor",
        json!(-4),
        &["-4"],
    );
    refused(
        "sn_maglap",
        "/model/posenc_config/posenc_type",
        json!("rope"),
        &["rope"],
    );
    refused(
        "sn_maglap",
        "/model/posenc_config/maglap_q",
        json!(-0.1),
        &["-0.1"],
    );
    refused(
        "sn_maglap",
        "/model/posenc_config/maglap_r",
        json!(1),
        &["did you mean"],
    );
    refused(
        "sn_rw",
        "/model/posenc_config/ppr_restart_probability",
        json!(1.5),
        &["1.5"],
    );
    refused("sn_maglap", "/dataset/name", json!(""), &["missing"]);
    refused(
        "sn_maglap",
        "/dataset/num_nodeattributes",
        json!(null),
        &["encoder needs it"],
    );
    refused(
        "sn_maglap",
        "/dataset/num_nodeattributes",
        json!(-1),
        &["-1"],
    );
    refused("sn_maglap", "/dataset/num_classes", json!(1u64 << 40), &[]);
    refused(
        "sn_maglap",
        "/dataset/colour",
        json!(1),
        &["unknown option"],
    );
    refused(
        "code2_sat_rw",
        "/model/gnn_config/se",
        json!("k-subtree"),
        &["k-subtree"],
    );
    refused(
        "code2_sat_rw",
        "/model/gnn_config/gnn_type",
        json!("gat"),
        &["gat"],
    );
    refused(
        "code2_seq_gcn",
        "/model/gnn_config/use_edge_attr",
        json!(false),
        &["edge features"],
    );
    refused(
        "adj_magnet",
        "/model/global_readout",
        json!("cls"),
        &["MagNet"],
    );
    refused(
        "adj_magnet",
        "/model/gnn_config/k_hop",
        json!(0),
        &["at least 1"],
    );
    let relative = "/model/posenc_config/relative_positional_encodings";
    refused(
        "sn_gnn_undirected_maglap",
        relative,
        json!(true),
        &["attention"],
    );
    refused("sn_lap", relative, json!(true), &["complex"]);
    let used = "/eigendecomposition";
    let case = named("sn_maglap").set(used, json!({"k": 25, "q": 0.25, "q_absolute": true}));
    let message = configure_with(case.options())
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("`eigendecomposition.q_absolute`"),
        "{message}"
    );
    let case = named("sn_maglap").set(used, json!({"k": 25, "q": 0.25, "q_absolute": false}));
    assert_eq!(case.config(), named("sn_maglap").config());
}

/// Every option that shapes a model shows in the configuration.
#[test]
fn options_change_the_configuration() {
    let changes = |name: &str, pointer: &str, value: Value| {
        let changed = named(name).set(pointer, value).config();
        assert_ne!(changed, named(name).config(), "{pointer}");
        changed
    };
    let same = |name: &str, pointer: &str, value: Value| {
        let changed = named(name).set(pointer, value).config();
        assert_eq!(changed, named(name).config(), "{pointer}");
    };
    for (pointer, value) in [
        ("/model/activation", json!("relu")),
        ("/model/d_model", json!(96)),
        ("/model/deg_sensitive_residual", json!(false)),
        ("/model/global_readout", json!("mean")),
        ("/model/global_readout", json!(1)),
        ("/model/global_readout", json!("1")),
        ("/model/num_layers", json!(7)),
        ("/model/model_type", json!("gnn")),
        ("/model/attention_config/dense_widening_factor", json!(2)),
        ("/model/attention_config/num_heads", json!(2)),
        ("/model/attention_config/pre_norm", json!(true)),
        (
            "/model/attention_config/re_im_separate_projection",
            json!(true),
        ),
        ("/model/attention_config/with_bias", json!(false)),
        ("/model/gnn_config/bidirectional", json!(false)),
        ("/model/gnn_config/concat", json!(false)),
        ("/model/gnn_config/gnn_type", json!("gcn")),
        ("/model/gnn_config/k_hop", json!(2)),
        ("/model/gnn_config/k_hop", json!(0)),
        ("/model/gnn_config/mlp_layers", json!(2)),
        ("/model/gnn_config/residual", json!(false)),
        ("/model/gnn_config/se", json!("")),
        ("/model/gnn_config/tightening_factor", json!(4)),
        ("/model/gnn_config/use_edge_attr", json!(false)),
        ("/model/posenc_config/concatenate_eigenvalues", json!(false)),
        ("/model/posenc_config/excl_k_eigenvectors", json!(1)),
        ("/model/posenc_config/exclude_canonical", json!(true)),
        ("/model/posenc_config/maglap_l2_norm", json!(false)),
        ("/model/posenc_config/maglap_norm_comps_sep", json!(true)),
        ("/model/posenc_config/maglap_q", json!(0.2)),
        ("/model/posenc_config/maglap_q_absolute", json!(true)),
        ("/model/posenc_config/maglap_sign_rotate", json!(true)),
        ("/model/posenc_config/maglap_symmetric_norm", json!(false)),
        ("/model/posenc_config/maglap_transformer", json!(false)),
        ("/model/posenc_config/maglap_use_gnn", json!(false)),
        ("/model/posenc_config/maglap_use_signnet", json!(false)),
        ("/model/posenc_config/maglap_net_type", json!("naive")),
        ("/model/posenc_config/posenc_type", json!("")),
        ("/model/posenc_config/posenc_type", json!("svd")),
        ("/model/posenc_config/posenc_type", json!("ppr")),
        ("/model/posenc_config/posenc_type", json!("rw")),
        (
            "/model/posenc_config/relative_positional_encodings",
            json!(true),
        ),
        ("/model/posenc_config/top_k_eigenvectors", json!(10)),
        ("/dataset/ast_depth", json!(30)),
        ("/dataset/edge_ast_types", json!(50)),
        ("/dataset/edge_df_types", json!(13)),
        ("/dataset/num_classes", json!(41)),
        ("/dataset/num_classes", json!(-1)),
        ("/dataset/num_nodeattributes", json!(151)),
        ("/dataset/num_nodetypes", json!(92)),
        ("/dataset/sequence_length", json!(6)),
        ("/dataset/sequence_length", json!(0)),
        ("/dataset/name", json!("ogbg-code2")),
    ] {
        changes("code2_sat_maglap", pointer, value);
    }
    for (pointer, value) in [
        ("/model/attention_config/dropout_p", json!(0.9)),
        ("/model/attention_config/with_attn_dropout", json!(true)),
        ("/model/encoder_config/attribute_dropout", json!(0.9)),
        ("/model/posenc_config/maglap_dropout_p", json!(0.9)),
        ("/model/posenc_config/random_walk_steps", json!(9)),
        (
            "/model/loss_kwargs/only_punish_first_end_of_sequence_token",
            json!(true),
        ),
        ("/dataset/num_train_samples", json!(9)),
        ("/dataset/path", json!("elsewhere")),
        ("/training", json!({"batch_size": 9})),
    ] {
        same("code2_sat_maglap", pointer, value);
    }
    for (pointer, value) in [
        ("/model/posenc_config/do_also_reverse", json!(false)),
        ("/model/posenc_config/ppr_restart_probability", json!(0.1)),
        ("/model/posenc_config/ppr_restart_probability", json!(0)),
        ("/model/posenc_config/random_walk_steps", json!(5)),
        (
            "/model/posenc_config/relative_positional_encodings",
            json!(true),
        ),
    ] {
        changes("sn_rw", pointer, value);
    }
    changes("adj_magnet", "/model/gnn_config/k_hop", json!(2));
    changes("adj_magnet", "/model/posenc_config/maglap_q", json!(0.2));
    changes(
        "adj_magnet",
        "/model/posenc_config/maglap_q_absolute",
        json!(false),
    );
    changes(
        "sn_sinusoidal",
        "/model/posenc_config/exclude_canonical",
        json!(true),
    );
    changes("sn_sinusoidal", "/model/batch_norm", json!(true));
    changes(
        "dist_maglap",
        "/model/posenc_config/exclude_canonical",
        json!(false),
    );
    // Eigenvectors computed on the way to the model have unit length.
    same(
        "sn_maglap",
        "/model/posenc_config/maglap_l2_norm",
        json!(false),
    );
    // Half as wide where the layers do not add up the states of edges.
    let edges = |config: &DigraphConfig| match &config.input {
        DigraphInputConfig::Features { edge_dim, .. } => *edge_dim,
        other => panic!("{other:?}"),
    };
    assert_eq!(edges(&named("code2_seq_gcn").config()), Some(24));
    let residual = named("code2_seq_gcn").set("/model/gnn_config/residual", json!(true));
    assert_eq!(edges(&residual.config()), None);
    let absent = named("code2_seq_gcn").without("/model/gnn_config/residual");
    assert_eq!(edges(&absent.config()), Some(24));
    let structure = transformer(&absent.config()).structure.clone().unwrap();
    assert!(structure.residual);
}

#[test]
fn absent_options_have_the_official_defaults() {
    let bare = json!({
        "dataset": {"name": "ogbg-code2", "num_nodetypes": 98, "num_nodeattributes": 10030,
            "ast_depth": 20, "num_classes": 5002, "sequence_length": 5},
    });
    let stated = json!({
        "dataset": bare["dataset"],
        "model": {
            "model_type": "sat", "num_layers": 4, "d_model": 256, "activation": "relu",
            "batch_norm": false, "deg_sensitive_residual": true, "global_readout": "mean",
            "attention_config": {"num_heads": 4, "dense_widening_factor": 4, "with_bias": false,
                "pre_norm": false, "re_im_separate_projection": false},
            "gnn_config": {"se": "gnn", "gnn_type": "gcn", "use_edge_attr": true, "k_hop": 2,
                "tightening_factor": 1, "concat": false, "bidirectional": true},
            "posenc_config": {"posenc_type": null, "exclude_canonical": false},
        },
    });
    let config = |options: &Value| {
        let options = Options::from_value(options.clone(), "config.json");
        configure_with(options).unwrap().config
    };
    assert_eq!(config(&bare).model, config(&stated).model);
}
