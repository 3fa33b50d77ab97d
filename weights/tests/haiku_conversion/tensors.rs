//! Every tensor is placed, or named.

use candle_graph_weights::convert::haiku::{convert, convert_tensors};
use candle_graph_weights::{Limits, StateDict, TensorData};
use serde_json::json;

use crate::case::{Case, cases, converted_values, named, transposed};
use crate::support::{find, fixture, shared};

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
        let all = find(&shared.join("goldens/digraph"), "checkpoint.dill");
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
    let files = find(&shared.join("goldens/digraph"), "params.safetensors");
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
