//! Official GraphGPS checkpoints become complete models, and what does not fit is explained.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::nn::FeatureEncoderConfig;
use candle_graph_models::ModelConfig;
use candle_graph_weights::checkpoint::Training;
use candle_graph_weights::convert::Options;
use candle_graph_weights::convert::gps::GPS;
use candle_graph_weights::convert::graphgym::{
    Converted, GraphGymOptions, convert, convert_tensors, convert_with,
};
use candle_graph_weights::{
    Checkpoint, CheckpointConfig, Error, Limits, StateDict, TensorData, torch,
};
use serde_json::{Value, json};
use support::{find, fixture, shared};

fn converted(folder: &Path) -> Result<Converted, Error> {
    convert(
        &folder.join("model.ckpt"),
        &folder.join("config.json"),
        &GraphGymOptions::default(),
        &Limits::default(),
    )
}

/// The case in `folder` with `value` at `pointer` of its options.
fn with_option(folder: &Path, pointer: &str, value: Value) -> Result<Converted, Error> {
    let text = std::fs::read(folder.join("config.json")).unwrap();
    let mut options: Value = serde_json::from_slice(&text).unwrap();
    *options.pointer_mut(pointer).expect(pointer) = value;
    convert_with(
        &folder.join("model.ckpt"),
        Options::from_value(options, "config.json"),
        &GraphGymOptions::default(),
        &Limits::default(),
    )
}

fn cases(root: &Path) -> Vec<PathBuf> {
    let configs = find(root, "model.ckpt");
    configs
        .iter()
        .map(|path| path.parent().unwrap().to_path_buf())
        .collect()
}

/// Converts every case and checks that only tensors without effect are left out.
fn check_all(folders: &[PathBuf]) {
    let has_no_effect = |name: &str| {
        [
            ".num_batches_tracked",
            ".local_model.aggr_module.avg_deg_lin",
            ".local_model.aggr_module.avg_deg_log",
            ".local_model.lin_dst.weight",
        ]
        .iter()
        .any(|end| name.ends_with(end))
    };
    for folder in folders {
        let Converted {
            checkpoint,
            ignored,
            ..
        } = converted(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let official = torch::read_state_dict(&folder.join("model.ckpt"), &Limits::default());
        let official = official.unwrap();
        assert_eq!(
            checkpoint.weights().len() + ignored.len(),
            official.len(),
            "{}",
            folder.display()
        );
        let name = folder.file_name().unwrap().to_str().unwrap();
        for tensor in ignored.iter().filter(|tensor| !has_no_effect(tensor)) {
            // Parts that are `None` keep their norm, and the bias encoder its tables for edges.
            let known = match name {
                "extra-CustomGatedGCN+None" => tensor.contains(".norm1_attn."),
                "extra-None+Performer" => tensor.contains(".norm1_local."),
                // No edge categories.
                "graphormer-network-node" => {
                    tensor.ends_with(".edge_encoder.weight")
                        || tensor.ends_with(".edge_dis_encoder.weight")
                }
                _ => false,
            };
            assert!(known, "{name}: {tensor} was left out");
        }
    }
}

#[test]
fn the_recorded_checkpoints_are_complete_models() {
    let small = cases(&fixture("gps-checkpoints"));
    assert_eq!(small.len(), 5);
    check_all(&small);
    let recorded = cases(&fixture("gps"));
    assert!(recorded.len() >= 27);
    check_all(&recorded);
}

/// Every reference case, where the folder with them is there.
#[test]
fn all_reference_checkpoints_are_complete_models() {
    let Some(folder) = shared()
        .map(|s| s.join("goldens/gps"))
        .filter(|f| f.is_dir())
    else {
        return;
    };
    let folders = cases(&folder);
    assert!(folders.len() >= 32, "{folders:?}");
    check_all(&folders);
}

fn read(folder: &Path) -> StateDict {
    torch::read_state_dict(&folder.join("model.ckpt"), &Limits::default()).unwrap()
}

fn renamed(tensors: StateDict, rename: impl Fn(&str) -> String) -> StateDict {
    let mut result = StateDict::new("renamed.ckpt");
    for (name, tensor) in tensors {
        result.insert(rename(&name), tensor).unwrap();
    }
    result
}

fn same(a: &StateDict, b: &StateDict) {
    let names = |tensors: &StateDict| tensors.names().map(str::to_string).collect::<BTreeSet<_>>();
    assert_eq!(names(a), names(b));
    for (name, tensor) in a.iter() {
        assert_eq!(Some(tensor), b.get(name), "{name}");
    }
}

#[test]
fn checkpoints_from_before_the_prefix_are_the_same() {
    for folder in cases(&fixture("gps-checkpoints")) {
        let official = read(&folder);
        let old = renamed(official.clone(), |name| {
            name.strip_prefix("model.").expect(name).to_string()
        });
        let new = GPS.apply(official).unwrap().complete().unwrap();
        same(&GPS.apply(old).unwrap().complete().unwrap(), &new);
    }
}

/// One matrix `[2, 3]` or one vector `[3]` under every name.
fn named(names: &[&str]) -> StateDict {
    let mut tensors = StateDict::new("test.ckpt");
    for name in names {
        let tensor = TensorData::from_f32(vec![2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        tensors.insert((*name).to_string(), tensor).unwrap();
    }
    tensors
}

fn ours(names: &[&str]) -> Vec<String> {
    let tensors = GPS.apply(named(names)).unwrap().complete().unwrap();
    tensors.names().map(str::to_string).collect()
}

#[test]
fn names_of_other_releases_of_pyg_are_known() {
    // The map of GAT after the two were joined, and GCN's, which is called the same.
    assert_eq!(
        ours(&[
            "layers.0.local_model.lin.weight",
            "layers.0.local_model.att_src",
        ]),
        [
            "layers.0.local.node.weight",
            "layers.0.local.attention.source"
        ]
    );
    assert_eq!(
        ours(&[
            "layers.0.local_model.lin.weight",
            "layers.0.local_model.bias"
        ]),
        ["layers.0.local.weight", "layers.0.local.bias"]
    );
    // PNA's has a bias.
    assert_eq!(
        ours(&[
            "layers.1.local_model.lin.weight",
            "layers.0.local_model.lin.bias"
        ]),
        ["layers.1.local.output.weight", "layers.0.local.output.bias"]
    );
    // The oldest GCN multiplies from the other side.
    let old = named(&["layers.0.local_model.weight"]);
    let old = GPS.apply(old).unwrap().complete().unwrap();
    let expected = TensorData::from_f32(vec![3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(old.get("layers.0.local.weight"), expected.as_ref());
}

#[test]
fn norms_of_absent_parts_are_left_out_and_those_of_present_ones_are_not() {
    let norms = ["layers.0.norm1_local.weight", "layers.0.norm1_attn.weight"];
    let with = |other: &str| {
        let conversion = GPS.apply(named(&[norms[0], norms[1], other])).unwrap();
        (
            conversion.ignored.clone(),
            conversion.complete().unwrap().len(),
        )
    };
    let (ignored, placed) = with("layers.0.self_attn.in_proj_weight");
    assert_eq!(
        (ignored.as_slice(), placed),
        (&[norms[0].to_string()][..], 2)
    );
    let (ignored, placed) = with("layers.0.local_model.eps");
    assert_eq!(
        (ignored.as_slice(), placed),
        (&[norms[1].to_string()][..], 2)
    );
}

#[test]
fn names_of_another_model_are_listed() {
    let folder = fixture("gps-checkpoints").join("extra-GAT");
    let other = with_option(&folder, "/model/type", json!("GritTransformer"));
    let message = other.unwrap_err().to_string();
    assert!(
        message.contains("posenc_RRWP") || message.contains("have no place"),
        "{message}"
    );
    let mut tensors = read(&folder);
    let extra = TensorData::from_f32(vec![1], &[0.0]).unwrap();
    tensors
        .insert("model.layers.0.gate".to_string(), extra)
        .unwrap();
    let message = GPS
        .apply(tensors)
        .unwrap()
        .complete()
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("model.layers.0.gate") && message.contains("no place"),
        "{message}"
    );
}

#[test]
fn a_local_model_other_than_the_checkpoints_lists_what_differs() {
    let folder = fixture("gps-checkpoints").join("extra-GAT");
    let message = with_option(&folder, "/gt/layer_type", json!("GINE+Transformer"));
    let message = message.unwrap_err().to_string();
    for part in [
        "layers.0.local.mlp.0.weight",
        "unexpected",
        "layers.0.local.attention.edge",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_table_with_other_rows_is_explained_by_its_name_and_both_numbers() {
    // The options state another dictionary than the checkpoint was trained with.
    let folder = fixture("gps-checkpoints").join("extra-GAT");
    let message = with_option(&folder, "/dataset/node_encoder_num_types", json!(21));
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains(
            "node_encoder.features.embeddings.0.weight: expected 21 rows, found 28: the feature \
             table of column 0 in `node_encoder.features` differs"
        ),
        "{message}"
    );
    // The tables of atoms stand in the configuration alone; those of the checkpoint are taken, and
    // a configuration that was changed since is found out.
    let Converted { checkpoint, .. } =
        converted(&fixture("gps").join("atom-signnet-rwse")).unwrap();
    let ModelConfig::Gps(mut config) = checkpoint.config().model.clone() else {
        panic!("not a GPS");
    };
    let FeatureEncoderConfig::Embedding { tables } = &mut config.input.node_encoder.features else {
        panic!("no tables");
    };
    assert_eq!(tables, &[119, 5, 12, 12, 10, 6, 6, 2, 2]);
    tables[1] = 4;
    let config = CheckpointConfig::new(ModelConfig::Gps(config), Training::default()).unwrap();
    let message = Checkpoint::new(config, checkpoint.weights().clone())
        .build(&Device::Cpu, DType::F32, &Limits::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("node_encoder.features.embeddings.1.weight: expected 4 rows, found 5")
            && message.contains("this column is the chirality"),
        "{message}"
    );
}

#[test]
fn tables_of_another_release_are_taken_over_with_a_remark() {
    let folder = fixture("gps").join("atom-signnet-rwse");
    let notes = converted(&folder).unwrap().notes.join("; ");
    assert!(!notes.contains("tables of `Atom`"), "{notes}");
    // The same checkpoint with a chirality of four categories, as older releases have it.
    let mut older = StateDict::new("older.ckpt");
    for (name, tensor) in read(&folder) {
        let tensor = match name.ends_with("atom_embedding_list.1.weight") {
            true => {
                let width = tensor.shape()[1];
                let bytes = tensor.bytes()[..4 * width * tensor.element().size()].to_vec();
                TensorData::new(tensor.element(), vec![4, width], bytes).unwrap()
            }
            false => tensor,
        };
        older.insert(name, tensor).unwrap();
    }
    let text = std::fs::read(folder.join("config.json")).unwrap();
    let options: Value = serde_json::from_slice(&text).unwrap();
    let options = Options::from_value(options, "config.json");
    let choices = GraphGymOptions::default();
    let converted = convert_tensors(older, options, &choices, &Limits::default()).unwrap();
    let notes = converted.notes.join("; ");
    assert!(
        notes.contains("tables of `Atom` have [119, 4, 12"),
        "{notes}"
    );
}
