//! Edges, paths or distances between all pairs of nodes of random directed graphs ("Transformers Meet
//! Directed Graphs", section 5), predicted by a model and computed exactly.
//!
//! ```text
//! cargo run --release --example distances
//! cargo run --release --example distances -- --target distance --nodes 72 --acyclic
//! cargo run --release --example distances -- --target distance --model my-checkpoint
//! ```
//!
//! No trained model was released for these tasks: without `--model` the program shows the questions,
//! the answers, and how good the best constant answer is.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use candle_graph::datasets::synthetic::{Distances, PairTarget};
use candle_graph::graph::Graph;
use candle_graph::metrics::root_mean_squared_error;
use candle_graph_examples::predictor;
use clap::{Parser, ValueEnum};

/// Predicts edges, paths or distances of pairs of nodes.
#[derive(Parser)]
struct Args {
    /// What is asked of a pair.
    #[arg(long, value_enum, default_value_t = Target::Distance)]
    target: Target,
    /// Number of nodes, before the largest component is chosen.
    #[arg(long, default_value_t = 24)]
    nodes: usize,
    /// Draw graphs without cycles.
    #[arg(long)]
    acyclic: bool,
    /// Number of graphs.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// What they are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A checkpoint folder: a model that gives every pair two scores (edges, paths) or a number
    /// (distances).
    #[arg(long)]
    model: Option<String>,
    /// The model names the end of a path first, as those do that the official code trains on paths
    /// and distances.
    #[arg(long)]
    end_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Is there an edge?
    Adjacency,
    /// Does a directed path lead there?
    Reachability,
    /// How many edges has the shortest directed path?
    Distance,
    /// The same with edges in either direction.
    UndirectedDistance,
}

impl Target {
    fn of_pair(self) -> PairTarget {
        match self {
            Self::Adjacency => PairTarget::Adjacency,
            Self::Reachability => PairTarget::Reachability,
            Self::Distance => PairTarget::Distance,
            Self::UndirectedDistance => PairTarget::UndirectedDistance,
        }
    }

    /// Values that a model gives for a pair.
    fn width(self) -> usize {
        match self {
            Self::Adjacency | Self::Reachability => 2,
            Self::Distance | Self::UndirectedDistance => 1,
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let task = Distances {
        nodes: args.nodes..=args.nodes,
        average_degrees: match args.acyclic {
            true => Distances::ACYCLIC_DEGREES.to_vec(),
            false => Distances::REGULAR_DEGREES.to_vec(),
        },
        acyclic: args.acyclic,
        connected: true,
        target: args.target.of_pair(),
    };
    let graphs = task.graphs(args.seed)?.take(args.count);
    let graphs = graphs.collect::<Result<Vec<_>, _>>()?;
    let answers: Vec<f32> = graphs
        .iter()
        .flat_map(|graph| task.target.of(graph))
        .map(|answer| answer.map_or(f32::NAN, |answer| answer as f32))
        .collect();
    let mut counts = BTreeMap::<u32, usize>::new();
    let known = || answers.iter().filter(|answer| !answer.is_nan());
    known().for_each(|&answer| *counts.entry(answer as u32).or_default() += 1);
    let questions = known().count();
    let nodes: usize = graphs.iter().map(Graph::num_nodes).sum();
    println!(
        "{} graphs, {nodes} nodes, {} ordered pairs, {questions} of them with an answer",
        graphs.len(),
        answers.len()
    );
    ensure!(questions > 0, "no pair has an answer");
    for (answer, count) in &counts {
        println!(
            "{answer:>4} {:>7.2} %",
            100.0 * *count as f64 / questions as f64
        );
    }

    let predicted = match &args.model {
        Some(model) => Some(predict(model, &args, &graphs)?),
        None => None,
    };
    let constant = match args.target.width() {
        1 => known().sum::<f32>() / questions as f32,
        _ => counts
            .iter()
            .max_by_key(|(_, count)| **count)
            .map_or(0.0, |(answer, _)| *answer as f32),
    };
    let constant = vec![constant; answers.len()];
    let predictions = [
        ("the best constant", Some(constant)),
        (args.model.as_deref().unwrap_or_default(), predicted),
    ];
    println!();
    for (of, predicted) in predictions {
        let Some(predicted) = predicted else { continue };
        let right = answers
            .iter()
            .zip(&predicted)
            .filter(|(a, p)| p.round() == **a);
        let accuracy = right.count() as f64 / questions as f64;
        let accuracy = format!("{:.2} % of the answers right", 100.0 * accuracy);
        match args.target.width() {
            1 => {
                let error = root_mean_squared_error(&predicted, &answers);
                let error = error.context("no pair has an answer")?;
                println!("RMSE ↓ {error:.4}, {accuracy} when rounded: {of}");
            }
            _ => println!("{accuracy}: {of}"),
        }
    }
    Ok(())
}

/// The model's answer for every pair, in the order of the pairs.
fn predict(model: &str, args: &Args, graphs: &[Graph]) -> Result<Vec<f32>> {
    let outputs = predictor(model)?.predict(graphs)?;
    let width = args.target.width();
    let mut answers = Vec::new();
    for (graph, output) in graphs.iter().zip(&outputs) {
        let n = graph.num_nodes();
        ensure!(
            output.width == width && output.rows().len() == n * n,
            "{model} gives {} rows of {} values for {} pairs, where {width} a pair are wanted",
            output.rows().len(),
            output.width,
            n * n
        );
        let of_pair = |pair: usize| match output.data.get(pair * width..(pair + 1) * width) {
            Some([no, yes]) => f32::from(u8::from(yes > no)),
            Some([distance]) => *distance,
            _ => f32::NAN,
        };
        answers.extend((0..n * n).map(|pair| match args.end_first {
            true => of_pair(pair % n * n + pair / n),
            false => of_pair(pair),
        }));
    }
    Ok(answers)
}
