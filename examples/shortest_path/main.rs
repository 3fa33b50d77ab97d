//! The number of hops between two marked nodes of a Watts–Strogatz graph, predicted by a transformer
//! that sees the edges only through rotary encodings (WIRE).
//!
//! ```text
//! cargo run --release --example shortest_path
//! cargo run --release --example shortest_path -- --seed 7 --count 5000
//! cargo run --release --example shortest_path -- --graphs weights/tests/fixtures/wire-spd/test.jsonl
//! ```
//!
//! Graphs are drawn from a seed, and the eigenvectors of their Laplacians computed; a file of graphs
//! may bring its own as `t`.

use std::path::PathBuf;

use anyhow::Result;
use candle_graph::datasets::synthetic::ShortestPath;
use candle_graph::graph::Graph;
use candle_graph_examples::synthetic::{evaluate, read};
use clap::Parser;

/// Evaluates a model on the task "shortest path distance".
#[derive(Parser)]
struct Args {
    /// Graphs, one JSON record a line, instead of new ones.
    #[arg(long, conflicts_with_all = ["count", "seed"])]
    graphs: Option<PathBuf>,
    /// Number of graphs.
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// What they are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of a shipped model, or a checkpoint folder.
    #[arg(long, default_value = "wire-spd")]
    model: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let graphs: Vec<Graph> = match &args.graphs {
        Some(path) => read(path)?,
        None => {
            let graphs = ShortestPath::default().graphs(args.seed)?.take(args.count);
            graphs.collect::<Result<_, _>>()?
        }
    };
    let evaluation = evaluate(&args.model, &graphs)?;
    // Table 2 of the paper.
    let published = [
        ("paper, without rotations".to_string(), "0.065(5)"),
        ("paper".to_string(), "0.045(4)"),
    ];
    evaluation.print(&args.model, &published);
    Ok(())
}
