//! The example `code2` from a Python file to names and embeddings, with made-up weights.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_graph::datasets::python::{PythonFunction, Vocabulary};
use candle_graph::nn::SubTokenDecoding;
use candle_graph_examples::code2::{FunctionNamer, VOCABULARY_FILE, read_functions};
use candle_graph_examples::sample;
use candle_graph_models::{ModelConfig, untrained};
use candle_graph_weights::checkpoint::Training;
use candle_graph_weights::{CheckpointConfig, SubTokens};
use candle_nn::{VarBuilder, VarMap};

const POSITIONS: usize = 5;
const DEPTH: usize = 20;

/// Writes a model folder. Whatever the graph, the logits are those of the classes `answer`.
fn write_model(folder: &Path, vocabulary: &Vocabulary, words: &[&str], answer: [u32; POSITIONS]) {
    let lists = serde_json::to_value(vocabulary).unwrap();
    let size = |list: &str| lists[list].as_array().unwrap().len() + 1;
    let sub_tokens = SubTokens::new(words.iter().copied()).unwrap();
    let classes = sub_tokens.num_classes();
    let config: ModelConfig = serde_json::from_value(serde_json::json!({
        "model_type": "digraph",
        "model": {
            "hidden_dim": 16,
            "input": {
                "kind": "features",
                "node": {
                    "kind": "clamped_embedding",
                    "tables": [size("node_types"), size("attributes"), DEPTH + 1],
                    "clamped": [2],
                },
            },
            "positional": {
                "kind": "walk",
                "walks": { "steps": 3, "restart": 0.05, "also_reverse": true },
                "relative": false,
            },
            "encoder": {
                "kind": "transformer",
                "layers": 2,
                "heads": 2,
                "feed_forward_dim": 32,
                "bias": true,
                "degree_scaled_residual": true,
            },
            "activation": "gelu_tanh",
            "readout": "token",
            "output_dim": POSITIONS * classes,
            "head": { "kind": "graph", "positions": POSITIONS },
        },
    }))
    .unwrap();

    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    config.build(builder).unwrap();
    let logit = |index: usize| {
        let (position, class) = (index / classes, index % classes);
        if answer[position] as usize == class {
            8.0f32
        } else {
            0.0
        }
    };
    let bias: Vec<f32> = (0..POSITIONS * classes).map(logit).collect();
    {
        let variables = variables.data().lock().unwrap();
        let weights = untrained(1, DType::F32, &Device::Cpu);
        for (name, variable) in variables.iter() {
            let value = weights.get(variable.shape(), name).unwrap();
            variable.set(&value).unwrap();
        }
        let weight = &variables["head.weight"];
        weight.set(&weight.zeros_like().unwrap()).unwrap();
        let bias = Tensor::new(bias, &Device::Cpu).unwrap();
        variables["head.bias"].set(&bias).unwrap();
    }
    variables.save(folder.join("model.safetensors")).unwrap();
    let config = CheckpointConfig::new(config, Training::default()).unwrap();
    config.write(folder).unwrap();
    sub_tokens.write(folder).unwrap();
    std::fs::write(folder.join(VOCABULARY_FILE), lists.to_string()).unwrap();
}

#[test]
fn names_are_decoded_with_the_models_own_words() {
    let functions = read_functions(&sample("functions.py")).unwrap();
    assert_eq!(functions.len(), 4);
    let vocabulary = Vocabulary::of_graphs(functions.iter().map(PythonFunction::graph), 20);
    let folder = tempfile::tempdir().unwrap();
    // `score`, unknown, `f`, the end, and a word behind it.
    let words = ["f", "get", "score"];
    write_model(folder.path(), &vocabulary, &words, [2, 3, 0, 4, 1]);
    let namer = FunctionNamer::load(folder.path()).unwrap();
    let names = namer
        .names(&functions, SubTokenDecoding::default())
        .unwrap();
    assert_eq!(names, vec![vec!["score", "f"]; 4]);
}

/// The order of independent statements does not matter to a model, what they compute does. Random
/// walks give every node its own state whatever its number, so equal graphs have equal embeddings.
#[test]
fn embeddings_do_not_depend_on_the_order_of_independent_statements() {
    let parse = |source: &str| PythonFunction::parse(source).unwrap();
    let functions = [
        parse("def f(a, b):\n    x = a * a\n    y = b + 1\n    return x - y\n"),
        parse("def f(a, b):\n    y = 1 + b\n    x = a * a\n    return x - y\n"),
        parse("def f(a, b):\n    x = a * a\n    y = a + 1\n    return x - y\n"),
    ];
    let vocabulary = Vocabulary::of_graphs(functions.iter().map(PythonFunction::graph), 20);
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path(), &vocabulary, &["f"], [0; POSITIONS]);
    let namer = FunctionNamer::load(folder.path()).unwrap();
    let embeddings = namer.embeddings(&functions).unwrap();
    let distance = |a: &[f32], b: &[f32]| {
        let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
        differences.fold(0.0f32, f32::max)
    };
    assert_eq!(embeddings[0].len(), 16);
    let reordered = distance(&embeddings[0], &embeddings[1]);
    let other = distance(&embeddings[0], &embeddings[2]);
    assert!(reordered < 1e-5, "{reordered}");
    assert!(other > 1e-3, "{other}");
}

#[test]
fn folders_and_files_that_do_not_fit_are_named() {
    let functions = read_functions(&sample("functions.py")).unwrap();
    let vocabulary = Vocabulary::of_graphs(functions.iter().map(PythonFunction::graph), 20);
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path(), &vocabulary, &["f", "get"], [0; POSITIONS]);
    let refused = || format!("{:#}", FunctionNamer::load(folder.path()).unwrap_err());
    SubTokens::new(["f"]).unwrap().write(folder.path()).unwrap();
    let message = refused();
    assert!(
        message.contains("multiple of 3 values") && message.contains("gives 20"),
        "{message}"
    );
    std::fs::write(folder.path().join(VOCABULARY_FILE), "{}").unwrap();
    assert!(refused().contains(VOCABULARY_FILE));
    std::fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    std::fs::write(
        folder.path().join(VOCABULARY_FILE),
        serde_json::to_string(&vocabulary).unwrap(),
    )
    .unwrap();
    assert!(refused().contains("tokenizer.json"));

    let python = folder.path().join("broken.py");
    for (bytes, words) in [
        (&b"def f(:\n    pass\n"[..], "line 1, column 7"),
        (&b"x = 1\n"[..], "no function definition"),
        (
            &b"def f(): return '\xff'\n"[..],
            "byte 17 of the source is not UTF-8",
        ),
    ] {
        std::fs::write(&python, bytes).unwrap();
        let message = format!("{:#}", read_functions(&python).unwrap_err());
        assert!(
            message.contains(words) && message.contains("broken.py"),
            "{message}"
        );
    }
}
