//! Predictions are the official code's, whichever way they go in and out.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::Path;

use candle_graph_weights::{Limits, read_safetensors};
use serde_json::{Value, json};
use support::{
    floats, model, molecule_lines, molecules, npy, npz_names, numbers, objects, official, run_with,
    wholes,
};
use tempfile::TempDir;

/// Predictions of all molecules on standard output.
fn printed() -> String {
    run!("predict", "--model", model(), "--input", molecules()).ok()
}

/// The predictions of a graph-level model, one number a graph.
fn values(text: &str) -> Vec<f32> {
    objects(text)
        .iter()
        .flat_map(|object| numbers(&object["prediction"]))
        .collect()
}

fn ids(text: &str) -> Vec<Value> {
    objects(text).iter().map(|o| o["id"].clone()).collect()
}

#[test]
fn predictions_are_those_of_the_official_code() {
    let path = official("predictions.safetensors");
    let reference = floats(
        &read_safetensors(&path, &Limits::default()).unwrap(),
        "pred",
    );
    let input = official("zinc-test.jsonl");
    let text = run!("predict", "--model", model(), "--input", input).ok();
    let found = values(&text);
    assert_eq!(found.len(), 1000);
    assert_eq!(reference.len(), 1000);
    for (at, (found, reference)) in found.iter().zip(&reference).enumerate() {
        assert!(
            (found - reference).abs() <= 1e-4,
            "molecule {at}: {found} instead of {reference}"
        );
    }
    let records = objects(&std::fs::read_to_string(official("zinc-test.jsonl")).unwrap());
    let written: Vec<Value> = records.iter().map(|record| record["id"].clone()).collect();
    assert_eq!(ids(&text), written, "in input order, ids as written");
}

#[test]
fn standard_input_is_read_like_a_file() {
    let input = std::fs::read(molecules()).unwrap();
    let expected = printed();
    for more in [&[][..], &["--input", "-"][..]] {
        let mut args = vec!["predict", "--model", model().to_str().unwrap()];
        args.extend(more);
        assert_eq!(run_with(args, &input).ok(), expected);
    }
}

/// A JSON document, and other records with the same molecules, as the formats allow.
#[test]
fn formats_of_the_input_give_the_same() {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("molecules.json");
    std::fs::write(&list, format!("[{}]", molecule_lines().join(",\n"))).unwrap();
    let predict = ["predict", "--model", model().to_str().unwrap(), "--input"];
    let with = |path: &Path, more: &[&str]| {
        let mut args = predict.to_vec();
        args.push(path.to_str().unwrap());
        args.extend(more);
        run_with(args, b"").ok()
    };
    assert_eq!(with(&list, &[]), printed());
    assert_eq!(with(&molecules(), &["--format", "jsonl"]), printed());

    // One molecule as an edge list with node features, in both readings of a line.
    let record = json!({"x": [0, 1, 2], "edges": [[0, 1, 1], [1, 2, 2]]});
    let single = folder.path().join("single.json");
    std::fs::write(&single, record.to_string()).unwrap();
    let nodes = folder.path().join("nodes.csv");
    std::fs::write(&nodes, "type\n0\n1\n2\n").unwrap();
    let once = folder.path().join("once.csv");
    std::fs::write(&once, "source,target,bond\n0,1,1\n1,2,2\n").unwrap();
    let twice = folder.path().join("twice.tsv");
    std::fs::write(&twice, "0\t1\t1\n1\t0\t1\n1\t2\t2\n2\t1\t2\n").unwrap();
    let nodes = nodes.to_str().unwrap();
    let expected = with(&single, &[]);
    assert_eq!(ids(&expected), [json!(0)], "without an id, the position");
    assert_eq!(with(&once, &["--nodes", nodes]), expected);
    assert_eq!(with(&once, &["--nodes", nodes, "--undirected"]), expected);
    assert_eq!(with(&twice, &["--nodes", nodes, "--directed"]), expected);
    assert_ne!(with(&once, &["--nodes", nodes, "--directed"]), expected);
}

#[test]
fn every_output_format_holds_the_same_values() {
    let folder = TempDir::new().unwrap();
    let text = printed();
    let expected = values(&text);
    let written = |name: &str| {
        let path = folder.path().join(name);
        let out = run!(
            "predict",
            "--model",
            model(),
            "--input",
            molecules(),
            "--output",
            path
        )
        .ok();
        assert_eq!(out, "", "{name}: results go to the file only");
        path
    };
    for name in ["a.jsonl", "a.ndjson", "A.JSONL"] {
        assert_eq!(std::fs::read_to_string(written(name)).unwrap(), text);
    }
    let list: Value = serde_json::from_slice(&std::fs::read(written("a.json")).unwrap()).unwrap();
    assert_eq!(list.as_array().unwrap(), &objects(&text));

    assert_eq!(
        npy::<f32>(&written("a.npy"), ""),
        (vec![64, 1], expected.clone())
    );
    let npz = written("a.npz");
    let whole_ids: Vec<i64> = ids(&text).iter().map(|id| id.as_i64().unwrap()).collect();
    assert_eq!(npy(&npz, "predictions"), (vec![64, 1], expected.clone()));
    assert_eq!(npy(&npz, "ids"), (vec![64], whole_ids.clone()));
    assert_eq!(npz_names(&npz), ["ids", "predictions"]);

    let tensors = read_safetensors(&written("a.safetensors"), &Limits::default()).unwrap();
    assert_eq!(tensors.get("predictions").unwrap().shape(), [64, 1]);
    assert_eq!(floats(&tensors, "predictions"), expected);
    assert_eq!(wholes(&tensors, "ids"), whole_ids);
    assert_eq!(tensors.len(), 2);
    let files = support::listing(folder.path());
    assert_eq!(files.len(), 7, "no other file is left: {files:?}");
}

#[test]
fn ids_that_are_text_stay_text() {
    let folder = TempDir::new().unwrap();
    let input = "{\"id\": \"C\u{e9}sium\", \"x\": [0], \"edges\": []}\n\
                 {\"x\": [1], \"edges\": []}\n{\"id\": -7, \"x\": [2], \"edges\": []}\n";
    let run_to = |name: &str| {
        let path = folder.path().join(name);
        let model = model().to_str().unwrap();
        let args = [
            "predict",
            "--model",
            model,
            "--output",
            path.to_str().unwrap(),
        ];
        run_with(args, input.as_bytes()).ok();
        path
    };
    let expected = [json!("C\u{e9}sium"), json!(1), json!(-7)];
    let text = std::fs::read_to_string(run_to("a.jsonl")).unwrap();
    assert_eq!(ids(&text), expected);
    let (shape, names) = npy::<String>(&run_to("a.npz"), "ids");
    assert_eq!(shape, [3]);
    assert_eq!(names, ["C\u{e9}sium", "1", "-7"]);
    let path = run_to("a.safetensors");
    let (tensors, metadata) =
        candle_graph_weights::safetensors_file::read_with_metadata(&path, &Limits::default())
            .unwrap();
    assert_eq!(tensors.len(), 1);
    let list: Vec<Value> = serde_json::from_str(&metadata["ids"]).unwrap();
    assert_eq!(list, expected);
}

/// Batches change nothing but speed, and never the order.
#[test]
fn small_budgets_keep_order_and_values() {
    let text = printed();
    let expected = values(&text);
    for budget in [
        ["--batch-graphs", "1"],
        ["--batch-graphs", "7"],
        ["--batch-nodes", "40"],
        ["--batch-pairs", "1444"],
    ] {
        let mut args = vec!["predict", "--model", model().to_str().unwrap(), "--input"];
        let input = molecules();
        args.push(input.to_str().unwrap());
        args.extend(budget);
        let other = run_with(args, b"").ok();
        assert_eq!(ids(&other), ids(&text), "{budget:?}");
        for (a, b) in values(&other).iter().zip(&expected) {
            assert!((a - b).abs() < 1e-5, "{budget:?}: {a} and {b}");
        }
    }
}

#[test]
fn threads_do_not_change_the_order_or_the_input() {
    let input = std::fs::read(molecules()).unwrap();
    let model = model().to_str().unwrap();
    let args = ["predict", "--model", model, "--threads", "1"];
    assert_eq!(run_with(args, &input).ok(), printed());
}

#[test]
fn cached_encodings_give_the_same_bytes_and_are_reported() {
    let folder = TempDir::new().unwrap();
    let cache = folder.path().join("cache");
    let run = || {
        run!(
            "predict",
            "--model",
            model(),
            "--input",
            molecules(),
            "--cache",
            cache
        )
    };
    let (first, second) = (run(), run());
    assert!(
        first.stderr.contains("0 from the cache, 64 computed"),
        "{}",
        first.stderr
    );
    assert!(
        second.stderr.contains("64 from the cache, 0 computed"),
        "{}",
        second.stderr
    );
    let expected = printed();
    assert_eq!(first.ok(), expected);
    assert_eq!(second.ok(), expected);

    // A damaged shard is told, and changes no value.
    let shards = std::fs::read_dir(&cache)
        .unwrap()
        .map(|e| e.unwrap().path());
    for shard in shards.filter(|path| path.extension().is_some_and(|e| e == "safetensors")) {
        let mut bytes = std::fs::read(&shard).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 0x40;
        std::fs::write(&shard, bytes).unwrap();
    }
    let third = run();
    assert!(
        third.stderr.contains("warning: cache: "),
        "{}",
        third.stderr
    );
    assert!(
        third
            .stderr
            .contains("63 from the cache, 1 computed, 1 fault"),
        "{}",
        third.stderr
    );
    assert_eq!(third.ok(), expected);
}

#[test]
fn quiet_runs_say_nothing_else() {
    let quiet = run!("predict", "-q", "--model", model(), "--input", molecules());
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.ok(), printed());
}

#[test]
fn an_empty_input_gives_an_empty_result() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.npz");
    let model = model().to_str().unwrap();
    let args = [
        "predict",
        "--model",
        model,
        "--output",
        path.to_str().unwrap(),
    ];
    run_with(args, b"").ok();
    assert_eq!(npy::<f32>(&path, "predictions"), (vec![0, 1], vec![]));
    let path = folder.path().join("a.json");
    let args = [
        "predict",
        "--model",
        model,
        "--output",
        path.to_str().unwrap(),
    ];
    run_with(args, b"").ok();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "[]\n");
}

/// A result that JSON cannot hold is null, and told.
#[test]
fn results_that_are_not_finite_are_told() {
    let folder = TempDir::new().unwrap();
    support::write_model(
        folder.path(),
        |_| {},
        |state| {
            support::change_tensors(state, |name, tensor| {
                let huge = [f32::MAX];
                let changed = (name == "head.layers.2.bias")
                    .then(|| candle_graph_weights::TensorData::from_f32(vec![1], &huge).unwrap());
                let huge_weight = (name == "head.layers.2.weight").then(|| {
                    candle_graph_weights::TensorData::from_f32(vec![1, 16], &[f32::MAX; 16])
                        .unwrap()
                });
                let tensor = changed.or(huge_weight).unwrap_or_else(|| tensor.clone());
                Some((name.to_string(), tensor))
            })
        },
    );
    let run = run!("predict", "--model", folder.path(), "--input", molecules());
    assert!(
        run.stderr.contains("warning: 64 graph(s), first graph 912"),
        "{}",
        run.stderr
    );
    let first = &objects(&run.ok())[0];
    assert_eq!(first["prediction"], json!([null]));
}
