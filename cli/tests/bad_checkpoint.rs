//! Bad models: the message names file and fault, and nothing is written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};

use candle_graph_weights::TensorData;
use serde_json::{Value, json};
use support::{
    change_tensors, listing, model, molecules, official, program, run_command, write_model,
};
use tempfile::TempDir;

/// `predict`, `embed` and `inspect` all refuse the model in `folder`, and write nothing.
#[track_caller]
fn refused(folder: &Path, parts: &[&str]) {
    let out = TempDir::new().unwrap();
    let output = out.path().join("a.npz");
    let input = molecules();
    run!(
        "predict", "--model", folder, "--input", input, "--output", output
    )
    .fails(1, parts);
    let run = run!("predict", "--model", folder, "--input", input).fails(1, parts);
    assert_eq!(run.stdout, "");
    run!(
        "embed", "--level", "graph", "--model", folder, "--input", input
    )
    .fails(1, parts);
    run!("inspect", "--model", folder).fails(1, parts);
    assert_eq!(listing(out.path()), [""; 0], "nothing is written");
}

/// A copy of the good model whose file `name` holds `bytes`.
fn with_file(name: &str, bytes: &[u8]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for good in ["config.json", "model.safetensors"] {
        std::fs::copy(model().join(good), folder.path().join(good)).unwrap();
    }
    std::fs::write(folder.path().join(name), bytes).unwrap();
    folder
}

/// A copy of the good model with a changed configuration.
fn with_config(change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = TempDir::new().unwrap();
    write_model(folder.path(), change, |state| state);
    folder
}

#[test]
fn missing_extra_and_mis_shaped_tensors_are_listed_together() {
    let folder = TempDir::new().unwrap();
    write_model(
        folder.path(),
        |_| {},
        |state| {
            change_tensors(state, |name, tensor| match name {
                "layers.1.attention.query.weight" => None,
                "head.layers.1.bias" => Some(("surplus".to_string(), tensor.clone())),
                "node_encoder.embeddings.0.weight" => {
                    let values = vec![0.0; 28 * 64];
                    let table = TensorData::from_f32(vec![28, 64], &values).unwrap();
                    Some((name.to_string(), table))
                }
                _ => Some((name.to_string(), tensor.clone())),
            })
        },
    );
    refused(
        folder.path(),
        &[
            "missing (2)",
            "layers.1.attention.query.weight",
            "head.layers.1.bias",
            "unexpected (1)",
            "surplus",
            "wrong shape (1)",
            "node_encoder.embeddings.0.weight: expected [21, 64], found [28, 64]",
        ],
    );
}

#[test]
fn truncated_safetensors() {
    let bytes = std::fs::read(model().join("model.safetensors")).unwrap();
    for length in [0, 5, 200, bytes.len() - 1] {
        let folder = with_file("model.safetensors", &bytes[..length]);
        refused(folder.path(), &["model.safetensors"]);
    }
}

#[test]
fn hostile_safetensors() {
    // A header that claims almost everything there is.
    let mut bytes = u64::MAX.to_le_bytes().to_vec();
    bytes.extend(b"{}");
    let folder = with_file("model.safetensors", &bytes);
    refused(
        folder.path(),
        &["model.safetensors", "header", "18446744073709551615"],
    );
    // A tensor that claims far more than the file has.
    let header = br#"{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend([0; 4]);
    let folder = with_file("model.safetensors", &bytes);
    refused(folder.path(), &["model.safetensors"]);
}

#[test]
fn shard_names_that_lead_out_of_the_folder() {
    let outside = TempDir::new().unwrap();
    let folder = outside.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(model().join("config.json"), folder.join("config.json")).unwrap();
    let secret = outside.path().join("secret.safetensors");
    std::fs::copy(model().join("model.safetensors"), &secret).unwrap();
    for shard in ["../secret.safetensors", secret.to_str().unwrap()] {
        let index = json!({"weight_map": {"head.layers.0.bias": shard}});
        let path = folder.join("model.safetensors.index.json");
        std::fs::write(path, index.to_string()).unwrap();
        refused(
            &folder,
            &["model.safetensors.index.json", "shard", "secret"],
        );
    }
}

#[test]
fn unknown_model_type() {
    let folder = with_config(|config| config["model_type"] = json!("bert"));
    refused(
        folder.path(),
        &["config.json", "unknown model_type \"bert\"", "grit"],
    );
}

#[test]
fn configurations_that_are_wrong() {
    let folder = with_config(|config| config["model"]["layerz"] = json!(3));
    refused(folder.path(), &["config.json", "layerz"]);
    let folder = with_config(|config| config["model"]["heads"] = json!(7));
    refused(folder.path(), &["config.json", "model.heads", "7"]);
    let folder = with_config(|config| config["format_version"] = json!(99));
    refused(folder.path(), &["config.json", "format_version 99"]);
    let folder = with_config(|config| config["features"]["node"]["tables"] = json!([28]));
    refused(folder.path(), &["config.json", "features"]);
    let folder = with_file("config.json", b"{\"format_version\": 1,");
    refused(folder.path(), &["config.json", "malformed JSON"]);
}

#[test]
fn official_options_in_place_of_a_configuration() {
    let options = std::fs::read(official("config.json")).unwrap();
    let folder = with_file("config.json", &options);
    refused(folder.path(), &["config.json", "candle-graph convert"]);
}

#[test]
fn missing_model() {
    let out = TempDir::new().unwrap();
    let folder = out.path().join("no-such-model");
    refused(&folder, &["no-such-model", "not found"]);
    // An empty folder is none either.
    refused(out.path(), &["config.json"]);
    // A name is looked up in the zoos, and the message says where.
    let run = run_command(
        program()
            .args(["inspect", "--model", "grit-nowhere"])
            .env("CANDLE_GRAPH_ZOO", "some-zoo")
            .current_dir(out.path()),
        b"",
    );
    run.fails(
        1,
        &[
            "some-zoo/grit-nowhere/config.json",
            "weights/zoo/grit-nowhere/config.json",
        ],
    );
}

/// `convert` refuses these files, and leaves no folder behind.
#[track_caller]
fn not_converted(checkpoint: &Path, options: &Path, more: &[&str], parts: &[&str]) {
    let out = TempDir::new().unwrap();
    let output = out.path().join("model");
    let mut command = program();
    command.args(["convert", "--from", "graphgym", "--checkpoint"]);
    command.arg(checkpoint).arg("--options").arg(options);
    command.arg("--output").arg(&output).args(more);
    let run = run_command(&mut command, b"").fails(1, parts);
    assert_eq!(run.stdout, "");
    assert_eq!(listing(out.path()), [""; 0], "nothing is written");
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn truncated_checkpoints() {
    let folder = TempDir::new().unwrap();
    let bytes = std::fs::read(official("model.ckpt")).unwrap();
    let options = official("config.json");
    for length in [0, 100, bytes.len() / 2, bytes.len() - 10] {
        let path = file(&folder, "cut.ckpt", &bytes[..length]);
        not_converted(&path, &options, &[], &["cut.ckpt"]);
    }
    not_converted(
        &folder.path().join("none.ckpt"),
        &options,
        &[],
        &["none.ckpt"],
    );
}

/// A checkpoint is never executed: a call of `os.system` is refused by name.
#[test]
fn hostile_checkpoints() {
    let folder = TempDir::new().unwrap();
    let options = official("config.json");
    let witness = folder.path().join("witness");
    let pickle = format!("\u{2}cposix\nsystem\n(Vtouch {}\ntR.", witness.display());
    let mut pickle = pickle.into_bytes();
    pickle.insert(0, 0x80);
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("archive/data.pkl", stored).unwrap();
    std::io::Write::write_all(&mut zip, &pickle).unwrap();
    let path = file(&folder, "evil.ckpt", &zip.finish().unwrap().into_inner());
    not_converted(&path, &options, &[], &["evil.ckpt", "posix.system"]);
    assert!(!witness.exists());
    let path = file(&folder, "noise.ckpt", &[0x80; 4096]);
    not_converted(&path, &options, &[], &["noise.ckpt"]);
}

/// The official options with one change.
fn options(folder: &TempDir, change: impl FnOnce(&mut Value)) -> PathBuf {
    let text = std::fs::read(official("config.json")).unwrap();
    let mut options: Value = serde_json::from_slice(&text).unwrap();
    change(&mut options);
    file(folder, "options.json", options.to_string().as_bytes())
}

#[test]
fn the_misspelt_rrwp_section_is_named_and_read_on_request() {
    let folder = TempDir::new().unwrap();
    let checkpoint = official("model.ckpt");
    let options = options(&folder, |options| {
        let section = options["posenc_RRWP"].take();
        let object = options.as_object_mut().unwrap();
        object.remove("posenc_RRWP");
        object.insert("posenc_RWPSE".to_string(), section);
    });
    not_converted(
        &checkpoint,
        &options,
        &[],
        &["options.json", "posenc_RWPSE", "posenc_RRWP"],
    );
    let output = folder.path().join("model");
    run!(
        "convert",
        "--from",
        "graphgym",
        "--checkpoint",
        checkpoint,
        "--options",
        options,
        "--output",
        output,
        "--read-rwpse-as-rrwp"
    )
    .ok();
    for name in ["config.json", "model.safetensors"] {
        assert_eq!(
            std::fs::read(output.join(name)).unwrap(),
            std::fs::read(model().join(name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn options_that_do_not_fit() {
    let folder = TempDir::new().unwrap();
    let checkpoint = official("model.ckpt");
    let path = options(&folder, |options| options["model"]["type"] = json!("Bert"));
    not_converted(
        &checkpoint,
        &path,
        &[],
        &["options.json", "model.type", "Bert"],
    );
    let path = options(&folder, |options| options["gt"]["layers"] = json!(5));
    not_converted(&checkpoint, &path, &[], &["layers.4."]);
    let path = file(&folder, "options.yaml", b"gt: [unclosed");
    not_converted(&checkpoint, &path, &[], &["options.yaml"]);
    let path = folder.path().join("none.yaml");
    not_converted(&checkpoint, &path, &[], &["none.yaml"]);
}
