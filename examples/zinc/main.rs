//! Evaluates a shipped model on ZINC molecules.
//!
//! ```text
//! cargo run --release --example zinc
//! cargo run --release --example zinc -- --data test.jsonl
//! ```
//!
//! Without `--data` the 100 molecules in `examples/data` are used. A data file holds one molecule a
//! line with `x`, `edges` and the target `y`.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use candle_core::Device;
use candle_graph::datasets::{ReadOptions, open};
use candle_graph::graph::Graph;
use candle_graph::metrics::mean_absolute_error;
use candle_graph_examples::{sample, zoo};
use candle_graph_models::Predictor;
use candle_graph_weights::load_model;
use clap::Parser;

/// Evaluates a shipped model on ZINC molecules.
#[derive(Parser)]
struct Args {
    /// Molecules, one JSON record a line.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Name of a shipped model, or a checkpoint folder.
    #[arg(long, default_value = "grit-zinc")]
    model: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let folder = match PathBuf::from(&args.model) {
        folder if folder.is_dir() => folder,
        _ => zoo(&args.model),
    };
    let predictor = Predictor::new(load_model(&folder, &Device::Cpu)?, Device::Cpu);

    let data = args.data.unwrap_or_else(|| sample("zinc-sample.jsonl"));
    let graphs: Vec<Graph> =
        open(&data, None, &ReadOptions::default())?.collect::<Result<_, _>>()?;
    let targets = graphs
        .iter()
        .map(|graph| {
            let target = graph.targets().and_then(|t| t.data.first().copied());
            target.with_context(|| format!("graph {} has no target `y`", graph.label(0)))
        })
        .collect::<Result<Vec<f32>>>()?;

    let start = Instant::now();
    let outputs = predictor.predict(&graphs)?;
    let seconds = start.elapsed().as_secs_f64();
    let predictions: Vec<f32> = outputs
        .iter()
        .flat_map(|o| o.data.iter().copied())
        .collect();
    for (graph, prediction) in graphs.iter().zip(&predictions).take(5) {
        println!(
            "molecule {:>6}  prediction {prediction:8.4}",
            graph.label(0)
        );
    }
    ensure!(
        predictions.len() == targets.len(),
        "{} predictions for {} molecules: the model must give one value a molecule",
        predictions.len(),
        targets.len()
    );
    let error = mean_absolute_error(&predictions, &targets).context("no molecule has a target")?;
    println!(
        "{}: MAE ↓ {error:.6} on {} molecules of {} ({:.2} s, {:.0} molecules/s, encodings included)",
        args.model,
        graphs.len(),
        data.display(),
        seconds,
        graphs.len() as f64 / seconds
    );
    Ok(())
}
