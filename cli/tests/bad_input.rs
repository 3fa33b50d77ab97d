//! Bad graphs: the message names place, graph, field and value, and nothing is written.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::{Run, listing, model, molecule_lines, objects, run_with};
use tempfile::TempDir;

/// Sixteen good molecules and then this line: what goes before and after must not matter.
fn input_with(line: &str) -> Vec<u8> {
    let mut lines = molecule_lines();
    lines.truncate(18);
    lines.insert(16, line.to_string());
    lines.join("\n").into_bytes()
}

/// Runs `predict` on line 17 being `line`, once to standard output, once to each kind of file.
#[track_caller]
fn refused(line: &str, more: &[&str], parts: &[&str]) {
    let folder = TempDir::new().unwrap();
    let stdin = input_with(line);
    let mut args = vec!["predict", "--model", model().to_str().unwrap()];
    args.extend(more);
    let place = ["standard input", "line 17"];
    let check = |run: Run| run.fails(1, &[&place[..], parts].concat());
    let printed = check(run_with(&args, &stdin)).stdout;
    assert_eq!(
        objects(&printed).len(),
        16,
        "the graphs before are answered, the ones after are not"
    );
    for name in ["a.jsonl", "a.json", "a.npy", "a.npz", "a.safetensors"] {
        let path = folder.path().join(name);
        let mut args = args.clone();
        args.extend(["--output", path.to_str().unwrap()]);
        check(run_with(&args, &stdin));
        assert_eq!(
            listing(folder.path()),
            [""; 0],
            "{name}: nothing is written"
        );
    }
}

#[test]
fn malformed_json() {
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1, 1]]"#,
        &[],
        &["graph 71", "malformed JSON"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1}, "edges": []}"#,
        &[],
        &["graph 71", "malformed JSON", "x", "character"],
    );
    refused("certainly no JSON", &[], &["graph #16", "malformed JSON"]);
}

#[test]
fn edge_out_of_range() {
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1, 1], [1, 9, 1]]}"#,
        &[],
        &["graph 71", "edge", "1 -> 9", "0 to 1"],
    );
    refused(
        r#"{"id": "k", "num_nodes": 2, "x": [0, 1], "edge_index": [[0], [2]], "edge_attr": [1]}"#,
        &[],
        &["graph \"k\"", "edge_index", "0 -> 2", "0 to 1"],
    );
}

#[test]
fn negative_edge() {
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, -1, 1]]}"#,
        &[],
        &["graph 71", "edge", "0 -> -1"],
    );
}

#[test]
fn features_that_are_not_finite() {
    refused(
        r#"{"id": 71, "x": [0, NaN], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: NaN", "row 1"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1, -Infinity]]}"#,
        &[],
        &["graph 71", "-Infinity"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1e99], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: value 1e99", "row 1", "not finite"],
    );
}

#[test]
fn wrong_width() {
    refused(
        r#"{"id": 71, "x": [[0, 3], [1, 3]], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: 2 feature(s)", "expects 1"],
    );
    refused(
        r#"{"id": 71, "x": [[0], [1, 3]], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: row 1"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1, 1, 2]]}"#,
        &[],
        &["graph 71", "edge_attr: 2 feature(s)", "expects 1"],
    );
}

#[test]
fn category_out_of_the_table() {
    refused(
        r#"{"id": 71, "x": [0, 21], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: category 21", "row 1", "table of 21"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1, 4]]}"#,
        &[],
        &["graph 71", "edge_attr: category 4", "row 0", "table of 4"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1.5], "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: value 1.5", "row 1", "not a category"],
    );
}

#[test]
fn missing_features() {
    refused(
        r#"{"id": 71, "num_nodes": 2, "edges": [[0, 1, 1]]}"#,
        &[],
        &["graph 71", "x: missing", "21 categories"],
    );
    refused(
        r#"{"id": 71, "x": [0, 1], "edges": [[0, 1]]}"#,
        &[],
        &["graph 71", "edge_attr: missing", "4 categories"],
    );
}

#[test]
fn empty_graph() {
    refused(
        r#"{"id": 71, "x": [], "edges": []}"#,
        &[],
        &["graph 71", "no nodes"],
    );
    refused(
        r#"{"num_nodes": 0, "edges": []}"#,
        &[],
        &["graph #16", "no nodes"],
    );
}

#[test]
fn graph_over_the_budget() {
    let large = |n: usize| format!(r#"{{"id": 71, "x": {:?}, "edges": []}}"#, vec![0; n]);
    refused(
        &large(50),
        &["--batch-pairs", "2499"],
        &["graph 71", "2500 node pairs", "2499"],
    );
    refused(
        &large(50),
        &["--batch-nodes", "49"],
        &["graph 71", "50 nodes", "49"],
    );
    refused(
        &large(501),
        &[],
        &["graph 71", "251001 node pairs", "250000"],
    );
}

#[test]
fn lines_over_the_limit() {
    let long = format!(
        r#"{{"id": 71, "x": [0], "edges": [], "comment": "{}"}}"#,
        "-".repeat(5000)
    );
    refused(&long, &["--max-input-bytes", "4000"], &["4000 bytes"]);
}

/// Other formats name their place too.
#[test]
fn places_in_other_formats() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let list = write(
        "list.json",
        "[\n{\"x\": [0], \"edges\": []},\n\n{\"id\": \"b\",\n \"x\": [99], \"edges\": []}]",
    );
    run!("predict", "--model", model(), "--input", list)
        .fails(1, &["list.json, line 4", "graph \"b\"", "x: category 99"]);
    let edges = write("edges.csv", "0,1,1\n0,x,1\n");
    run!("predict", "--model", model(), "--input", edges)
        .fails(1, &["edges.csv, line 2", "column 2", "\"x\""]);
    let edges = write("pairs.csv", "graph,source,target,b\n3,0,1,1\n4,0,1,1\n");
    run!("predict", "--model", model(), "--input", edges)
        .fails(1, &["pairs.csv, line 2", "graph 3", "x: missing"]);
    let batch = write("batch.safetensors", "\u{1}");
    run!("predict", "--model", model(), "--input", batch).fails(1, &["batch.safetensors"]);
    let missing = folder.path().join("missing.jsonl");
    run!("predict", "--model", model(), "--input", missing).fails(1, &["missing.jsonl"]);
}

#[test]
fn encode_and_embed_refuse_the_same() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("a.safetensors");
    let output = output.to_str().unwrap();
    let bad = r#"{"id": 71, "x": [0, 1], "edges": [[0, 5, 1]]}"#;
    let parts = ["standard input, line 17", "graph 71", "0 -> 5"];
    let model = model().to_str().unwrap();
    let embed = [
        "embed", "--level", "node", "--model", model, "--output", output,
    ];
    run_with(embed, &input_with(bad)).fails(1, &parts);
    let encode = ["encode", "--recipe", "rwse:1-4", "--output", output];
    run_with(encode, &input_with(bad)).fails(1, &parts);
    let large = r#"{"id": 71, "num_nodes": 50, "edges": []}"#;
    let encode = [
        "encode",
        "--recipe",
        "rrwp:4",
        "--output",
        output,
        "--batch-pairs",
        "2499",
    ];
    run_with(encode, &input_with(large)).fails(1, &["line 17", "graph 71", "2500 node pairs"]);
    assert_eq!(listing(folder.path()), [""; 0]);
}
