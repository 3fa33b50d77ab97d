//! Names or embeddings for the functions of a Python file, from their data-flow graphs, as in the
//! function name prediction of "Transformers Meet Directed Graphs" (ogbg-code2).
//!
//! ```text
//! cargo run --release --example code2
//! cargo run --release --example code2 -- script.py --graph
//! cargo run --release --example code2 -- script.py --model my-checkpoint
//! cargo run --release --example code2 -- script.py --model my-checkpoint --embeddings
//! ```
//!
//! Without `--model` the program shows the graphs. A model is a checkpoint folder with two more
//! files: `vocabulary.json` (node types, attributes and edge names in the order of their numbers)
//! and `tokenizer.json` (the sub-tokens of the classes). No trained weights were released for this
//! task.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use candle_graph::datasets::python::PythonFunction;
use candle_graph::metrics::SubTokenScores;
use candle_graph::nn::SubTokenDecoding;
use candle_graph_examples::code2::{FunctionNamer, read_functions};
use candle_graph_examples::sample;
use candle_graph_weights::sub_tokens::name_parts;
use clap::Parser;

/// Names or embeds the functions of a Python file.
#[derive(Parser)]
struct Args {
    /// Python file; without it a shipped sample.
    file: Option<PathBuf>,
    /// Only functions of this name.
    #[arg(long)]
    function: Option<String>,
    /// Print nodes and edges, a JSON object a function.
    #[arg(long, conflicts_with = "model")]
    graph: bool,
    /// A checkpoint folder.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Print embeddings instead of names, a JSON object a function.
    #[arg(long, requires = "model")]
    embeddings: bool,
    /// Subtracted from the probability of an unknown sub-token.
    #[arg(long, default_value_t = SubTokenDecoding::default().unk_offset)]
    unk_offset: f32,
    /// Subtracted from the probability of the end of the name.
    #[arg(long, default_value_t = SubTokenDecoding::default().eos_offset)]
    eos_offset: f32,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let file = args.file.unwrap_or_else(|| sample("functions.py"));
    let mut functions = read_functions(&file)?;
    if let Some(name) = &args.function {
        functions.retain(|function| function.name() == name);
        ensure!(
            !functions.is_empty(),
            "{}: no function called `{name}`",
            file.display()
        );
    }
    let Some(folder) = &args.model else {
        for function in &functions {
            match args.graph {
                true => println!("{}", listing(function)),
                false => println!("{}", summary(function)),
            }
        }
        return Ok(());
    };

    let namer = FunctionNamer::load(folder)?;
    if args.embeddings {
        for (function, embedding) in functions.iter().zip(namer.embeddings(&functions)?) {
            let name = function.name();
            println!(
                "{}",
                serde_json::json!({ "name": name, "embedding": embedding })
            );
        }
        return Ok(());
    }
    let decoding = SubTokenDecoding {
        unk_offset: args.unk_offset,
        eos_offset: args.eos_offset,
    };
    let mut scores = Vec::with_capacity(functions.len());
    for (function, name) in functions.iter().zip(namer.names(&functions, decoding)?) {
        let score = SubTokenScores::of_sets(&name_parts(function.name()), &name);
        println!(
            "{:32} {:32} F1 {:.2}",
            function.name(),
            name.join(" "),
            score.f1
        );
        scores.push(score);
    }
    if let Some(mean) = SubTokenScores::mean(&scores) {
        println!(
            "F1 ↑ {:.4} on {} functions of {}",
            mean.f1,
            scores.len(),
            file.display()
        );
    }
    Ok(())
}

/// Name and size of a function's graph.
fn summary(function: &PythonFunction) -> String {
    let mut counts = BTreeMap::new();
    for edge in function.graph().edges() {
        *counts.entry(edge.edge_type).or_insert(0usize) += 1;
    }
    let counts = counts
        .iter()
        .map(|(edge_type, count)| format!("{count} {edge_type:?}"));
    format!(
        "{} (line {}): {} nodes, edges: {}",
        function.name(),
        function.line(),
        function.graph().nodes().len(),
        counts.collect::<Vec<_>>().join(", ")
    )
}

/// Nodes `[type, attribute, depth]` and edges `[sender, receiver, type, name, order]`.
fn listing(function: &PythonFunction) -> serde_json::Value {
    let graph = function.graph();
    let nodes = graph.nodes().iter();
    let nodes = nodes.map(|n| serde_json::json!([n.node_type.name(), n.attribute_name(), n.depth]));
    let edges = graph.edges().iter().map(|edge| {
        let edge_type = format!("{:?}", edge.edge_type);
        serde_json::json!([edge.sender, edge.receiver, edge_type, edge.name, edge.order])
    });
    serde_json::json!({
        "name": function.name(),
        "line": function.line(),
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    })
}
