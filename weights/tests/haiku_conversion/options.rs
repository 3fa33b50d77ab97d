//! Every option counts, is known to have no effect, or is refused by name.

use candle_graph_models::digraph::{DigraphConfig, DigraphInputConfig};
use candle_graph_weights::convert::Options;
use candle_graph_weights::convert::haiku::configure_with;
use serde_json::{Value, json};

use crate::case::{named, transformer};

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
