//! The other commands, and how the command line is read.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph::datasets;
use candle_graph::encodings::{EncodingPlan, EncodingRecipe, Rrwp, Rwse};
use candle_graph::graph::Graph;
use candle_graph_models::Predictor;
use candle_graph_weights::safetensors_file::read_with_metadata;
use candle_graph_weights::{Limits, TensorData, load_model, read_safetensors};
use serde_json::{Value, json};
use support::{
    change_tensors, floats, model, molecules, npy, npz_names, numbers, objects, program,
    run_command, run_with, wholes, write_model,
};
use tempfile::TempDir;

fn graphs() -> Vec<Graph> {
    datasets::open(molecules(), None, &Default::default())
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn inspect_tells_what_the_model_is() {
    let text = run!("inspect", "--model", model()).ok();
    for part in [
        "grit",
        "ZINC",
        "regression",
        "193537",
        "1 categorical column(s) with 21 categories",
        "1 categorical column(s) with 4 categories",
        "RRWP, 21 steps",
        "1 value(s) a graph",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    assert!(!text.contains("head.layers.2.weight"));
    let text = run!("inspect", "--model", model(), "--tensors").ok();
    assert!(text.contains("head.layers.2.weight  f32 [1, 16]"), "{text}");

    let report: Value =
        serde_json::from_str(&run!("inspect", "--model", model(), "--json", "--tensors").ok())
            .unwrap();
    assert_eq!(report["model_type"], "grit");
    assert_eq!(report["parameters"], 193537);
    assert_eq!(report["training"]["dataset"], "ZINC");
    assert_eq!(report["features"]["node"]["tables"], json!([21]));
    assert_eq!(report["encodings"][0]["steps"], 21);
    assert_eq!(report["prediction"], json!({"level": "graph", "width": 1}));
    assert_eq!(report["tensors"].as_array().unwrap().len(), 126);
    let size: u64 = ["config.json", "model.safetensors"]
        .iter()
        .map(|name| std::fs::metadata(model().join(name)).unwrap().len())
        .sum();
    assert_eq!(report["bytes_on_disk"], size);
}

#[test]
fn models_are_found_in_the_zoo() {
    let zoo = model().parent().unwrap();
    let named = |command: &mut std::process::Command| {
        run_command(command.args(["inspect", "--model", "grit-zinc"]), b"")
    };
    let elsewhere = TempDir::new().unwrap();
    named(
        program()
            .env("CANDLE_GRAPH_ZOO", zoo)
            .current_dir(elsewhere.path()),
    )
    .ok();
    named(program().current_dir(elsewhere.path())).fails(1, &["weights/zoo/grit-zinc/config.json"]);
    let below = elsewhere.path().join("weights/zoo/grit-zinc");
    std::fs::create_dir_all(&below).unwrap();
    for name in ["config.json", "model.safetensors"] {
        std::fs::copy(model().join(name), below.join(name)).unwrap();
    }
    named(program().current_dir(elsewhere.path())).ok();
    // The zoo of this repository.
    named(program().current_dir(support::root())).ok();
}

#[test]
fn embeddings_are_those_of_the_library() {
    let predictor = Predictor::new(
        load_model(model(), &candle_core::Device::Cpu).unwrap(),
        candle_core::Device::Cpu,
    );
    let graphs = graphs();
    let folder = TempDir::new().unwrap();
    for (level, outputs) in [
        ("graph", predictor.embed_graphs(&graphs).unwrap()),
        ("node", predictor.embed_nodes(&graphs).unwrap()),
    ] {
        let expected: Vec<f32> = outputs.iter().flat_map(|o| o.data.clone()).collect();
        let rows: Vec<i64> = outputs.iter().map(|o| o.rows().len() as i64).collect();
        let text = run!(
            "embed",
            "--level",
            level,
            "--model",
            model(),
            "--input",
            molecules()
        )
        .ok();
        let printed = objects(&text);
        for (object, output) in printed.iter().zip(&outputs) {
            let embedding = &object["embedding"];
            assert_eq!(numbers(embedding), output.data);
            let first = &embedding[0];
            assert_eq!(first.is_array(), level == "node", "one list a node");
        }
        assert_eq!(printed.len(), 64);
        let path = folder.path().join(format!("{level}.safetensors"));
        run!(
            "embed",
            "--level",
            level,
            "--model",
            model(),
            "--input",
            molecules(),
            "--output",
            path
        )
        .ok();
        let tensors = read_safetensors(&path, &Limits::default()).unwrap();
        assert_eq!(floats(&tensors, "embeddings"), expected);
        let shape = tensors.get("embeddings").unwrap().shape();
        assert_eq!(shape, [expected.len() / 64, 64]);
        if level == "node" {
            let ptr = wholes(&tensors, "node_ptr");
            let lengths: Vec<i64> = ptr.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert_eq!((ptr[0], lengths), (0, rows));
        } else {
            assert!(!tensors.contains("node_ptr"));
        }
    }
}

/// A model for nodes: the ZINC model with a head of one linear map on node states.
#[test]
fn node_models_give_a_row_a_node() {
    let folder = TempDir::new().unwrap();
    let weight: Vec<f32> = (0..2 * 64).map(|v| (v % 7) as f32 * 0.125 - 0.25).collect();
    write_model(
        folder.path(),
        |config| {
            config["model"]["head"] = json!({"kind": "inductive_node", "layers": 1});
            config["model"]["output_dim"] = json!(2);
        },
        |state| {
            let mut state = change_tensors(state, |name, tensor| {
                (!name.starts_with("head.")).then(|| (name.to_string(), tensor.clone()))
            });
            // One hidden map is none: `layers` counts maps before the last that keep the width.
            let mut add = |name: &str, shape: Vec<usize>, values: &[f32]| {
                let tensor = TensorData::from_f32(shape, values).unwrap();
                state.insert(name.to_string(), tensor).unwrap();
            };
            add("head.layers.0.weight", vec![2, 64], &weight);
            add("head.layers.0.bias", vec![2], &[0.5, -0.5]);
            state
        },
    );
    let embed = |level: &str| {
        objects(
            &run!(
                "embed",
                "--level",
                level,
                "--model",
                folder.path(),
                "--input",
                molecules()
            )
            .ok(),
        )
    };
    let states = embed("node");
    let predicted =
        objects(&run!("predict", "--model", folder.path(), "--input", molecules()).ok());
    assert_eq!(predicted.len(), 64);
    for (state, prediction) in states.iter().zip(&predicted) {
        let states = state["embedding"].as_array().unwrap();
        let rows = prediction["prediction"].as_array().unwrap();
        assert_eq!(states.len(), rows.len());
        for (state, row) in states.iter().zip(rows) {
            let state = numbers(state);
            let row = numbers(row);
            assert_eq!(row.len(), 2);
            for (output, bias) in [0.5f32, -0.5].into_iter().enumerate() {
                let weights = &weight[output * 64..][..64];
                let products = state.iter().zip(weights).map(|(s, w)| s * w);
                let expected: f32 = products.sum::<f32>() + bias;
                let error = (row[output] - expected).abs();
                assert!(
                    error < 1e-3 * expected.abs().max(1.0),
                    "{expected}: {row:?}"
                );
            }
        }
    }
    // As arrays, node_ptr tells the rows of a graph.
    let out = TempDir::new().unwrap();
    let path = out.path().join("a.npz");
    run!(
        "predict",
        "--model",
        folder.path(),
        "--input",
        molecules(),
        "--output",
        path
    )
    .ok();
    assert_eq!(npz_names(&path), ["ids", "node_ptr", "predictions"]);
    let (_, ptr) = npy::<i64>(&path, "node_ptr");
    let (shape, rows) = npy::<f32>(&path, "predictions");
    assert_eq!(shape, [*ptr.last().unwrap() as u64, 2]);
    for (at, prediction) in predicted.iter().enumerate() {
        let range = ptr[at] as usize * 2..ptr[at + 1] as usize * 2;
        assert_eq!(numbers(&prediction["prediction"]), rows[range]);
    }
}

#[test]
fn encodings_are_those_of_the_library() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.safetensors");
    let plan = EncodingPlan::new(vec![
        EncodingRecipe::Rrwp(Rrwp {
            steps: 5,
            shortest_path: false,
        }),
        EncodingRecipe::Rwse(Rwse {
            times: (2..=6).collect(),
        }),
    ])
    .unwrap();
    let recipe = "rrwp:5,rwse:2-6";
    run!(
        "encode",
        "--recipe",
        recipe,
        "--input",
        molecules(),
        "--output",
        path
    )
    .ok();
    let (tensors, metadata) = read_with_metadata(&path, &Limits::default()).unwrap();
    let graphs = graphs();
    let encodings = plan.compute_all(&graphs, 0).unwrap();
    for (name, _, width) in plan.arrays() {
        let arrays = encodings.iter().map(|e| e.get(name).unwrap().data.clone());
        let expected: Vec<f32> = arrays.flatten().collect();
        assert_eq!(floats(&tensors, name), expected, "{name}");
        let shape = tensors.get(name).unwrap().shape();
        assert_eq!(shape, [expected.len() / width, width], "{name}");
    }
    let sums = |size: fn(&Graph) -> i64| {
        let sizes = graphs.iter().scan(0, |sum, graph| {
            *sum += size(graph);
            Some(*sum)
        });
        std::iter::once(0).chain(sizes).collect::<Vec<i64>>()
    };
    assert_eq!(wholes(&tensors, "node_ptr"), sums(|g| g.num_nodes() as i64));
    assert_eq!(wholes(&tensors, "pair_ptr"), sums(|g| g.num_pairs() as i64));
    assert_eq!(wholes(&tensors, "ids").len(), 64);
    let written: EncodingPlan = serde_json::from_str(&metadata["encodings"]).unwrap();
    assert_eq!(written, plan);
}

/// What `encode` puts into a cache, `predict` finds there.
#[test]
fn encode_fills_the_cache_of_predict() {
    let folder = TempDir::new().unwrap();
    let cache = folder.path().join("cache");
    let encode = || {
        run!(
            "encode",
            "--model",
            model(),
            "--input",
            molecules(),
            "--cache",
            cache
        )
    };
    let first = encode();
    assert!(
        first.stderr.contains("0 from the cache, 64 computed"),
        "{}",
        first.stderr
    );
    assert_eq!(first.ok(), "");
    let again = encode();
    assert!(
        again.stderr.contains("64 from the cache, 0 computed"),
        "{}",
        again.stderr
    );
    again.ok();
    let run = run!(
        "predict",
        "--model",
        model(),
        "--input",
        molecules(),
        "--cache",
        cache
    );
    assert!(
        run.stderr.contains("64 from the cache, 0 computed"),
        "{}",
        run.stderr
    );
    run.ok();
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let model = model().to_str().unwrap();
    for (args, part) in [
        (vec![], "Usage"),
        (vec!["dance"], "dance"),
        (vec!["predict"], "--model"),
        (
            vec!["predict", "--model", model, "--format", "xml"],
            "jsonl",
        ),
        (
            vec!["predict", "--model", model, "--output", "a.txt"],
            ".safetensors",
        ),
        (
            vec!["predict", "--model", model, "--batch-graphs", "0"],
            "--batch-graphs",
        ),
        (
            vec!["predict", "--model", model, "--batch-pairs", "0"],
            "--batch-pairs",
        ),
        (
            vec!["predict", "--model", model, "--threads", "0"],
            "--threads",
        ),
        (
            vec!["predict", "--model", model, "--threads", "1025"],
            "1024",
        ),
        (
            vec!["predict", "--model", model, "--device", "tpu"],
            "cuda:N",
        ),
        (
            vec!["predict", "--model", model, "--device", "cuda:x"],
            "cuda:x",
        ),
        (
            vec!["predict", "--model", model, "--directed"],
            "edge lists",
        ),
        (
            vec!["predict", "--model", model, "--nodes", "n.csv"],
            "edge lists",
        ),
        (
            vec!["predict", "--model", model, "--node-attribute", "f"],
            "node-link",
        ),
        (vec!["embed", "--model", model], "--level"),
        (vec!["encode", "--recipe", "rrwp:21"], "--output"),
        (
            vec!["encode", "--recipe", "magic:3", "--cache", "c"],
            "magic:3",
        ),
        (
            vec!["encode", "--recipe", "rwse:0-4", "--cache", "c"],
            "rwse:0-4",
        ),
        (
            vec!["encode", "--recipe", "rrwp:4", "--output", "a.npz"],
            ".safetensors",
        ),
        (
            vec![
                "encode", "--recipe", "rrwp:4", "--model", model, "--cache", "c",
            ],
            "--recipe",
        ),
        (vec!["convert", "--from", "keras"], "graphgym"),
        (vec!["completions", "tcsh"], "bash"),
    ] {
        let run = run_with(&args, b"");
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(part), "{args:?}: {}", run.stderr);
        assert_eq!(run.stdout, "", "{args:?}");
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_is_not_built_in_is_refused() {
    run!(
        "predict",
        "--model",
        model(),
        "--input",
        molecules(),
        "--device",
        "cuda:1"
    )
    .fails(1, &["--device cuda:1", "feature `cuda`"]);
}

#[test]
fn help_and_completions_know_the_commands() {
    let help = run!("--help").ok();
    for command in [
        "convert",
        "inspect",
        "encode",
        "predict",
        "embed",
        "completions",
    ] {
        assert!(help.contains(command), "{help}");
        let text = run!(command, "--help").ok();
        assert!(text.contains("Example"), "{command}: {text}");
    }
    assert!(help.contains("Exit codes"), "{help}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run!("completions", shell).ok();
        for word in ["predict", "batch-pairs", "candle-graph"] {
            assert!(script.contains(word), "{shell} misses {word}");
        }
    }
    assert!(run!("--version").ok().starts_with("candle-graph "));
}
