//! Models that score node pairs: a row a pair, in every format, and a clear refusal without pairs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::Path;

use candle_graph_weights::{Limits, TensorData, read_safetensors};
use serde_json::{Value, json};
use support::{
    change_tensors, floats, listing, molecule_lines, npy, npz_names, numbers, objects, run_with,
    wholes, write_model,
};
use tempfile::TempDir;

const WIDTH: usize = 64;
const OUTPUTS: usize = 2;

/// The weights of the head: rows over (source state, target state).
fn weight() -> Vec<f32> {
    let values = 0..OUTPUTS * 2 * WIDTH;
    values.map(|v| (v % 7) as f32 * 0.125 - 0.25).collect()
}

/// The ZINC model with a head of one linear map on pairs of node states.
fn write_link_model(folder: &Path) {
    write_model(
        folder,
        |config| {
            config["model"]["head"] =
                json!({"kind": "inductive_edge", "layers": 1, "decoding": "concat"});
            config["model"]["output_dim"] = json!(OUTPUTS);
        },
        |state| {
            let mut state = change_tensors(state, |name, tensor| {
                (!name.starts_with("head.")).then(|| (name.to_string(), tensor.clone()))
            });
            let mut add = |name: &str, shape: Vec<usize>, values: &[f32]| {
                let tensor = TensorData::from_f32(shape, values).unwrap();
                state.insert(name.to_string(), tensor).unwrap();
            };
            add("head.layers.0.weight", vec![OUTPUTS, 2 * WIDTH], &weight());
            add("head.layers.0.bias", vec![OUTPUTS], &[0.5, -0.5]);
            state
        },
    );
}

/// Molecules with pairs to score: none in the second.
fn input() -> (Vec<u8>, Vec<Vec<[usize; 2]>>) {
    let pairs = vec![vec![[0, 3], [3, 0], [2, 2]], vec![], vec![[1, 4]]];
    let with_pairs = |(line, pairs): (String, &Vec<[usize; 2]>)| {
        let mut graph: Value = serde_json::from_str(&line).unwrap();
        let column = |end: usize| pairs.iter().map(|p| p[end]).collect::<Vec<_>>();
        graph["edge_label_index"] = json!([column(0), column(1)]);
        graph.to_string()
    };
    let lines: Vec<String> = molecule_lines()
        .into_iter()
        .zip(&pairs)
        .map(with_pairs)
        .collect();
    (lines.join("\n").into_bytes(), pairs)
}

#[test]
fn every_pair_gets_a_row_from_its_two_states() {
    let folder = TempDir::new().unwrap();
    write_link_model(folder.path());
    let model = folder.path().to_str().unwrap();
    let (stdin, pairs) = input();
    let embed = ["embed", "--level", "node", "--model", model];
    let states = objects(&run_with(embed, &stdin).ok());
    let predicted = objects(&run_with(["predict", "--model", model], &stdin).ok());
    assert_eq!(predicted.len(), pairs.len());
    for ((pairs, states), prediction) in pairs.iter().zip(&states).zip(&predicted) {
        let rows = prediction["prediction"].as_array().unwrap();
        assert_eq!(rows.len(), pairs.len());
        for (&[source, target], row) in pairs.iter().zip(rows) {
            let state = |node: usize| numbers(&states["embedding"][node]);
            let both = [state(source), state(target)].concat();
            let row = numbers(row);
            assert_eq!(row.len(), OUTPUTS);
            for (output, bias) in [0.5f32, -0.5].into_iter().enumerate() {
                let weights = &weight()[output * both.len()..][..both.len()];
                let products = both.iter().zip(weights).map(|(s, w)| s * w);
                let expected: f32 = products.sum::<f32>() + bias;
                let error = (row[output] - expected).abs();
                assert!(
                    error < 1e-3 * expected.abs().max(1.0),
                    "{expected}: {row:?}"
                );
            }
        }
    }

    let out = TempDir::new().unwrap();
    let all: Vec<f32> = predicted
        .iter()
        .flat_map(|p| numbers(&p["prediction"]))
        .collect();
    for name in ["a.npy", "a.npz", "a.safetensors"] {
        let path = out.path().join(name);
        let file = path.to_str().unwrap();
        run_with(["predict", "--model", model, "--output", file], &stdin).ok();
        let (shape, values, ptr) = match name {
            "a.safetensors" => {
                let tensors = read_safetensors(&path, &Limits::default()).unwrap();
                let shape = tensors.get("predictions").unwrap().shape().iter();
                let shape = shape.map(|&d| d as u64).collect();
                let ptr = wholes(&tensors, "edge_label_ptr");
                (shape, floats(&tensors, "predictions"), Some(ptr))
            }
            _ => {
                let (shape, values) = npy::<f32>(&path, "predictions");
                let ptr = (name == "a.npz").then(|| {
                    assert_eq!(npz_names(&path), ["edge_label_ptr", "ids", "predictions"]);
                    npy::<i64>(&path, "edge_label_ptr").1
                });
                (shape, values, ptr)
            }
        };
        assert_eq!(
            (shape, values),
            (vec![4, OUTPUTS as u64], all.clone()),
            "{name}"
        );
        assert!(ptr.is_none_or(|ptr| ptr == [0, 3, 3, 4]), "{name}");
    }

    let told = run_with(["inspect", "--model", model], b"").ok();
    assert!(told.contains("2 value(s) a node pair"), "{told}");
}

#[test]
fn a_graph_without_pairs_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    write_link_model(folder.path());
    let model = folder.path().to_str().unwrap();
    let out = TempDir::new().unwrap();
    let file = out.path().join("a.npz");
    let line = |pairs: &str| format!(r#"{{"id": 71, "x": [0, 1], "edges": [[0, 1, 1]]{pairs}}}"#);
    for (pairs, parts) in [
        ("", ["edge_label_index: missing", "the node pairs to score"]),
        (
            r#", "edge_label_index": null"#,
            ["edge_label_index: missing", "two lists"],
        ),
        (
            r#", "edge_label_index": [[0], [2]]"#,
            ["edge_label_index: edge 0", "0 -> 2"],
        ),
        (
            r#", "edge_label_index": [[0, 1], [0]]"#,
            ["edge_label_index", "2 sources but 1 targets"],
        ),
    ] {
        let (mut stdin, answered) = input();
        stdin.extend(format!("\n{}\n", line(pairs)).into_bytes());
        let parts = [&["standard input, line 4", "graph 71"][..], &parts[..]].concat();
        let run = run_with(["predict", "--model", model], &stdin).fails(1, &parts);
        assert_eq!(objects(&run.stdout).len(), answered.len());
        let args = [
            "predict",
            "--model",
            model,
            "--output",
            file.to_str().unwrap(),
        ];
        run_with(args, &stdin).fails(1, &parts);
        assert_eq!(listing(out.path()), [""; 0], "nothing is written");
    }
    // Embeddings need no pairs.
    let stdin = line("").into_bytes();
    run_with(["embed", "--level", "graph", "--model", model], &stdin).ok();
}
