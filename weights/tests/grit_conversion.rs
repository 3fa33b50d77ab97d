//! The GRIT table places every tensor of official checkpoints.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph_weights::convert::grit::GRIT;
use candle_graph_weights::{Limits, StateDict, TensorData, torch};
use support::{find, fixture, shared};

fn named(names: &[&str]) -> StateDict {
    let mut state = StateDict::new("test.ckpt");
    for (position, name) in names.iter().enumerate() {
        let tensor = TensorData::from_f32(vec![1], &[position as f32 + 1.0]).unwrap();
        state.insert((*name).to_string(), tensor).unwrap();
    }
    state
}

/// Our names for official ones, in order.
fn ours(names: &[&str]) -> Vec<String> {
    let converted = GRIT.apply(named(names)).unwrap();
    assert_eq!(converted.unplaced, [""; 0]);
    converted.tensors.names().map(str::to_string).collect()
}

#[test]
fn the_real_zinc_checkpoint_is_placed_completely() {
    let official =
        torch::read_state_dict(&fixture("grit-zinc/model.ckpt"), &Limits::default()).unwrap();
    let query = official
        .get("model.layers.3.attention.Q.weight")
        .unwrap()
        .clone();
    let conversion = GRIT.apply(official).unwrap();
    // 139 official tensors; the counters of 4 × 3 norms and one padding have no effect.
    assert_eq!(conversion.ignored.len(), 13);
    assert_eq!(conversion.tensors.len(), 139 - 13);
    let tensors = conversion.complete().unwrap();
    assert_eq!(tensors.get("layers.3.attention.query.weight"), Some(&query));
    let shape = |name: &str| tensors.get(name).expect(name).shape().to_vec();
    assert_eq!(shape("node_encoder.embeddings.0.weight")[1], 64);
    assert_eq!(shape("edge_encoder.embeddings.0.weight")[1], 64);
    assert_eq!(shape("rrwp_node.weight"), shape("rrwp_pair.weight"));
    assert_eq!(shape("layers.0.attention.logit_weight"), [8, 8, 1]);
    assert_eq!(shape("layers.0.attention.edge_value"), [8, 8, 8]);
    assert_eq!(shape("layers.0.degree_scaler"), [1, 64, 2]);
    assert_eq!(shape("layers.0.feed_forward.input.weight"), [128, 64]);
    assert_eq!(shape("layers.0.batch_norm_pair.running_var"), [64]);
    assert_eq!(shape("head.layers.2.weight"), [1, 16]);
}

/// Every official GRIT configuration on this machine, if there are any beside the repository.
#[test]
fn every_shared_grit_checkpoint_is_placed_completely() {
    let Some(shared) = shared() else { return };
    for path in find(&shared.join("goldens/grit"), "model.ckpt") {
        let official = torch::read_state_dict(&path, &Limits::default()).unwrap();
        let tensors = GRIT.apply(official).unwrap().complete().unwrap();
        let layers: Vec<&str> = tensors
            .names()
            .filter(|n| n.starts_with("head.layers.") && n.ends_with(".weight"))
            .collect();
        // The head is numbered without gaps.
        for position in 0..layers.len() {
            assert!(
                tensors.contains(&format!("head.layers.{position}.weight")),
                "{}: {layers:?}",
                path.display()
            );
        }
        assert!(!layers.is_empty());
    }
}

#[test]
fn encoders_are_told_apart_by_their_bias() {
    assert_eq!(
        ours(&["model.encoder.node_encoder.encoder.weight"]),
        ["node_encoder.embeddings.0.weight"]
    );
    assert_eq!(
        ours(&[
            "model.encoder.node_encoder.encoder.weight",
            "model.encoder.node_encoder.encoder.bias",
            "model.encoder.edge_encoder.encoder.weight",
        ]),
        [
            "node_encoder.linear.weight",
            "node_encoder.linear.bias",
            "edge_encoder.embeddings.0.weight"
        ]
    );
    assert_eq!(
        ours(&[
            "model.encoder.node_encoder.atom_embedding_list.8.weight",
            "model.encoder.edge_encoder.bond_embedding_list.2.weight",
            "model.encoder.node_encoder_bn.bn.running_mean",
            "model.encoder.edge_encoder_bn.bn.weight",
        ]),
        [
            "node_encoder.embeddings.8.weight",
            "edge_encoder.embeddings.2.weight",
            "node_encoder_norm.running_mean",
            "edge_encoder_norm.weight",
        ]
    );
}

#[test]
fn optional_parts_of_a_layer_are_placed() {
    assert_eq!(
        ours(&[
            "layers.3.layer_norm1_h.weight",
            "layers.3.layer_norm1_e.bias",
            "layers.3.layer_norm2_h.weight",
            "layers.3.alpha1_h",
            "layers.3.alpha1_e",
            "layers.3.alpha2_h",
            "layers.3.attention.K.bias",
        ]),
        [
            "layers.3.layer_norm_attention.weight",
            "layers.3.layer_norm_pair.bias",
            "layers.3.layer_norm_feed_forward.weight",
            "layers.3.rezero_attention",
            "layers.3.rezero_pair",
            "layers.3.rezero_feed_forward",
            "layers.3.attention.key.bias",
        ]
    );
}

#[test]
fn the_last_head_layer_gets_the_last_number() {
    let hidden =
        |j: usize| format!("model.post_mp.layer_post_mp.model.0.Layer_{j}.layer.model.weight");
    let last = "model.post_mp.layer_post_mp.model.1.model.weight";
    for count in 1..4 {
        let names: Vec<String> = (0..count).map(hidden).collect();
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        names.insert(0, last);
        let converted = ours(&names);
        assert_eq!(converted[0], format!("head.layers.{count}.weight"));
        assert_eq!(
            converted[count],
            format!("head.layers.{}.weight", count - 1)
        );
    }
    assert_eq!(
        ours(&["model.post_mp.layer_post_mp.model.0.model.bias"]),
        ["head.layers.0.bias"]
    );
}

#[test]
fn the_prefix_is_optional_but_uniform() {
    assert_eq!(ours(&["layers.0.deg_coef"]), ["layers.0.degree_scaler"]);
    let mixed = GRIT
        .apply(named(&["model.layers.0.deg_coef", "layers.1.deg_coef"]))
        .unwrap();
    assert_eq!(mixed.unplaced, ["model.layers.0.deg_coef"]);
}

#[test]
fn unknown_names_are_listed() {
    let names = [
        "model.layers.0.deg_coef",
        "model.layers.0.gate.weight",
        "model.pe.weight",
    ];
    let message = GRIT
        .apply(named(&names))
        .unwrap()
        .complete()
        .unwrap_err()
        .to_string();
    assert!(message.contains("test.ckpt"), "{message}");
    assert!(
        message.contains("model.layers.0.gate.weight, model.pe.weight"),
        "{message}"
    );
    assert!(!message.contains("deg_coef"), "{message}");
}

#[test]
fn colliding_names_are_refused() {
    let names = [
        "encoder.node_encoder.encoder.weight",
        "encoder.node_encoder.atom_embedding_list.0.weight",
    ];
    let message = GRIT.apply(named(&names)).unwrap_err().to_string();
    assert!(
        message.contains("both become `node_encoder.embeddings.0.weight`"),
        "{message}"
    );
    assert!(
        message.contains(names[0]) && message.contains(names[1]),
        "{message}"
    );
}

#[test]
fn a_padding_that_is_not_zero_is_refused() {
    let message = GRIT
        .apply(named(&["model.rrwp_rel_encoder.padding"]))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("model.rrwp_rel_encoder.padding") && message.contains("zero"),
        "{message}"
    );
    let mut zero = StateDict::new("test.ckpt");
    let tensor = TensorData::from_f32(vec![1, 4], &[0.0; 4]).unwrap();
    zero.insert("model.rrwp_rel_encoder.padding".into(), tensor)
        .unwrap();
    assert_eq!(
        GRIT.apply(zero).unwrap().ignored,
        ["model.rrwp_rel_encoder.padding"]
    );
}
