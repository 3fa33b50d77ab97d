//! `convert`: official checkpoints and options to model folders.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph_weights::{Limits, read_safetensors};
use serde_json::{Value, json};
use support::{listing, official, program, run_command};
use tempfile::TempDir;

#[test]
fn convert_tells_what_it_did_and_spares_what_is_there() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("new/model");
    let (checkpoint, options) = (official("model.ckpt"), official("config.json"));
    let convert = |more: &[&str]| {
        let mut command = program();
        command.args(["convert", "--from", "graphgym", "--checkpoint"]);
        command.arg(&checkpoint).arg("--options").arg(&options);
        command.arg("--output").arg(&output).args(more);
        run_command(&mut command, b"")
    };
    let text = convert(&["--verbose"]).ok();
    assert!(text.contains("left out 13 tensors"), "{text}");
    assert!(text.contains("num_batches_tracked"), "{text}");
    assert!(text.contains("model.safetensors"), "{text}");
    assert!(text.contains("193537 parameters"), "{text}");
    assert_eq!(listing(&output), ["config.json", "model.safetensors"]);

    let marked = output.join("config.json");
    std::fs::write(&marked, "mine").unwrap();
    convert(&[]).fails(1, &["config.json", "--force"]);
    assert_eq!(std::fs::read_to_string(&marked).unwrap(), "mine");
    let text = convert(&["--force"]).ok();
    assert!(!text.contains("num_batches_tracked"), "{text}");
    run!("inspect", "--model", output).ok();
}

#[test]
fn convert_reads_haiku_checkpoints_in_both_forms() {
    let folder = TempDir::new().unwrap();
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../weights/tests/fixtures/digraph/sn_gnn_undirected_maglap");
    let convert = |checkpoint: Option<&str>, output: &str, more: &[&str]| {
        let mut command = program();
        command.args(["convert", "--from", "haiku", "--options"]);
        command.arg(fixture.join("config.json"));
        if let Some(checkpoint) = checkpoint {
            command.arg("--checkpoint").arg(fixture.join(checkpoint));
        }
        command
            .arg("--output")
            .arg(folder.path().join(output))
            .args(more);
        run_command(&mut command, b"")
    };
    for (checkpoint, output) in [
        ("checkpoint.dill", "pickled"),
        ("params.safetensors", "flat"),
    ] {
        let text = convert(Some(checkpoint), output, &[]).ok();
        assert!(text.contains("digraph with 34221 parameters"), "{text}");
    }
    let written =
        |output: &str, file: &str| std::fs::read(folder.path().join(output).join(file)).unwrap();
    let weights = |output: &str| {
        let path = folder.path().join(output).join("model.safetensors");
        let tensors = read_safetensors(&path, &Limits::default()).unwrap();
        let mut tensors: Vec<_> = tensors.into_iter().collect();
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        tensors
    };
    assert_eq!(weights("pickled"), weights("flat"));
    assert_eq!(
        written("pickled", "config.json"),
        written("flat", "config.json")
    );
    let text = convert(None, "alone", &[]).ok();
    assert!(text.contains("digraph without weights"), "{text}");
    assert_eq!(
        written("alone", "config.json"),
        written("flat", "config.json")
    );
    let told = run!("inspect", "--model", folder.path().join("pickled")).ok();
    assert!(told.contains("sorting networks"), "{told}");

    convert(Some("config.json"), "other", &[]).fails(1, &["config.json", "neither"]);
    convert(None, "other", &["--read-rwpse-as-rrwp"]).fails(1, &["--from graphgym"]);
    let graphgym = ["convert", "--from", "graphgym", "--checkpoint"];
    let mut command = program();
    command.args(graphgym).arg(fixture.join("checkpoint.dill"));
    command.arg("--options").arg(fixture.join("config.json"));
    command.arg("--output").arg(folder.path().join("other"));
    run_command(&mut command, b"").fails(1, &["checkpoint.dill", "bare pickle"]);
    assert!(!folder.path().join("other").exists());
}

#[test]
fn convert_of_options_alone_writes_the_configuration() {
    let folder = TempDir::new().unwrap();
    let (options, output) = (folder.path().join("zinc.yaml"), folder.path().join("zinc"));
    let yaml = "
dataset: {format: PyG-ZINC, name: subset, task: graph, task_type: regression, node_encoder: True,
  node_encoder_name: TypeDictNode+RWSE, node_encoder_num_types: 28, node_encoder_bn: False,
  edge_encoder: True, edge_encoder_name: TypeDictEdge, edge_encoder_num_types: 4,
  edge_encoder_bn: False}
posenc_RWSE: {enable: True, kernel: {times_func: 'range(1,21)'}, model: Linear, dim_pe: 28,
  raw_norm_type: BatchNorm}
model: {type: GPSModel, graph_pooling: add}
gt: {layer_type: GINE+Transformer, layers: 10, n_heads: 4, dim_hidden: 64, residual: False}
gnn: {head: san_graph, dim_inner: 64}
";
    std::fs::write(&options, yaml).unwrap();
    let convert = |options: &std::path::Path| {
        let mut command = program();
        command.args(["convert", "--from", "graphgym", "--options"]);
        command.arg(options).arg("--output").arg(&output);
        run_command(&mut command, b"")
    };
    let text = convert(&options).ok();
    assert!(text.contains("note: option `gt.residual`"), "{text}");
    assert!(text.contains("gps without weights"), "{text}");
    assert_eq!(listing(&output), ["config.json"]);
    let config = std::fs::read(output.join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["model_type"], "gps");
    assert_eq!(config["encodings"][0]["kind"], "rwse");
    assert_eq!(config["features"]["node"]["tables"], json!([28]));
    let told = run!("inspect", "--model", output).ok();
    assert!(
        told.contains("none; this is a configuration alone"),
        "{told}"
    );
    assert!(told.contains("RWSE, steps 1 to 20"), "{told}");

    convert(&options).fails(1, &["config.json", "--force"]);
    std::fs::remove_dir_all(&output).unwrap();
    std::fs::write(&options, yaml.replace("layers: 10", "layer: 10")).unwrap();
    convert(&options).fails(1, &["zinc.yaml", "`gt.layer` (did you mean `gt.layers`?)"]);
    assert!(!output.exists());
}
