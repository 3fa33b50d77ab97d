//! Does a list of comparators sort every input? A transformer that sees the comparators as a directed
//! graph ("Transformers Meet Directed Graphs", section 6), beside the exact test with all columns of
//! zeros and ones.
//!
//! ```text
//! cargo run --release --example sorting_networks
//! cargo run --release --example sorting_networks -- --wires 7,12 --networks 100 --seed 5
//! cargo run --release --example sorting_networks -- --graphs networks.jsonl
//! ```
//!
//! Without options the networks are those on which the shipped model was tested when it had been
//! trained: number k is drawn from the seed 950000 + k, and taken as it is, without its last
//! comparator, and in the opposite order. A file holds graphs as `candle-graph generate
//! sorting-networks` writes them. Batcher's odd–even mergesort comes last: it is much shorter than
//! the random networks that the model has seen.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use candle_graph::datasets::synthetic::{NetworkKind, SortingNetwork, SortingNetworks};
use candle_graph::graph::{Graph, GraphId};
use candle_graph_examples::predictor;
use candle_graph_examples::synthetic::read;
use candle_graph_models::Predictor;
use clap::Parser;

/// Tells networks that sort from others, by a model and exactly.
#[derive(Parser)]
struct Args {
    /// Graphs of networks, one JSON record a line, instead of new ones.
    #[arg(long, conflicts_with_all = ["networks", "seed"])]
    graphs: Option<PathBuf>,
    /// Numbers of wires, which take turns; Batcher's networks have them too.
    #[arg(long, value_delimiter = ',', default_value = "7,8,9")]
    wires: Vec<usize>,
    /// Networks of every number of wires, three graphs each.
    #[arg(long, default_value_t = 50)]
    networks: usize,
    /// What the first one is drawn from; every other one has the next seed.
    #[arg(long, default_value_t = 950_000)]
    seed: u64,
    /// Name of a shipped model, or a checkpoint folder.
    #[arg(long, default_value = "digraph-sorting")]
    model: String,
}

/// What is known of the networks of one kind and number of wires.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    networks: usize,
    sorting: usize,
    correct: usize,
}

impl Tally {
    fn add(&mut self, sorts: bool, predicted: bool) {
        self.networks += 1;
        self.sorting += usize::from(sorts);
        self.correct += usize::from(sorts == predicted);
    }

    fn join(self, other: Self) -> Self {
        Self {
            networks: self.networks + other.networks,
            sorting: self.sorting + other.sorting,
            correct: self.correct + other.correct,
        }
    }

    fn print(self, what: &str) {
        let Self {
            networks,
            sorting,
            correct,
        } = self;
        let accuracy = correct as f64 / networks as f64;
        println!("{what:<22} {networks:>8} {sorting:>8}    {accuracy:.4}");
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let graphs = match &args.graphs {
        Some(path) => read(path)?,
        None => drawn(&args)?,
    };
    ensure!(!graphs.is_empty(), "there are no graphs");
    let predictor = predictor(&args.model)?;
    let predicted = predict(&predictor, &graphs)?;

    let mut tallies = BTreeMap::<(usize, String), Tally>::new();
    for (at, (graph, predicted)) in graphs.iter().zip(predicted).enumerate() {
        let named = || format!("graph {}", graph.label(at));
        let network = SortingNetwork::from_graph(graph).with_context(named)?;
        let sorts = network.sorts().with_context(named)?;
        let label = graph.targets().and_then(|t| t.data.first());
        ensure!(
            label.is_none_or(|&label| label == f32::from(u8::from(sorts))),
            "{} has the label {label:?}, and the exact test says {sorts}",
            named()
        );
        let tally = tallies.entry((network.wires(), kind(graph))).or_default();
        tally.add(sorts, predicted);
    }
    println!(
        "wires, kind            networks     sort    accuracy ↑ of {}",
        args.model
    );
    for ((wires, kind), tally) in &tallies {
        tally.print(&format!("{wires:>2}  {kind}"));
    }
    let all = tallies.into_values().fold(Tally::default(), Tally::join);
    all.print("all");
    let most = all.sorting.max(all.networks - all.sorting);
    let share = most as f64 / all.networks.max(1) as f64;
    println!(
        "{:<22} {:>8} {:>8}    {share:.4}",
        "the commoner answer", "", ""
    );

    println!(
        "\nBatcher's odd–even mergesort    comparators   exact test   {}",
        args.model
    );
    let networks = args
        .wires
        .iter()
        .map(|&wires| SortingNetwork::odd_even_merge_sort(wires));
    let networks = networks.collect::<Result<Vec<_>, _>>()?;
    let graphs = networks.iter().map(SortingNetwork::graph);
    let graphs = graphs.collect::<Result<Vec<_>, _>>()?;
    for (network, predicted) in networks.iter().zip(predict(&predictor, &graphs)?) {
        println!(
            "{:>2} wires                        {:>11}   {:<10}   {}",
            network.wires(),
            network.comparators().len(),
            answer(network.sorts()?),
            answer(predicted)
        );
    }
    Ok(())
}

/// New networks, all kinds, of every number of wires.
fn drawn(args: &Args) -> Result<Vec<Graph>> {
    let mut graphs = Vec::new();
    let wires = (0..args.networks).flat_map(|_| &args.wires);
    for (seed, &wires) in (args.seed..).zip(wires) {
        let task = SortingNetworks {
            wires: wires..=wires,
            kinds: NetworkKind::ALL.to_vec(),
        };
        for graph in task.graphs(seed)?.take(task.kinds.len()) {
            graphs.push(graph?);
        }
    }
    Ok(graphs)
}

/// Whether the model holds each network for one that sorts: its second score is the larger one.
fn predict(predictor: &Predictor, graphs: &[Graph]) -> Result<Vec<bool>> {
    let outputs = predictor.predict(graphs)?;
    let of_graph = outputs.iter().map(|output| match output.data.as_slice() {
        [no, yes] => Ok(yes > no),
        other => anyhow::bail!(
            "the model gives {} values a graph, not 2 scores",
            other.len()
        ),
    });
    of_graph.collect()
}

/// The kind of a network, which stands behind the number in its id.
fn kind(graph: &Graph) -> String {
    let named = graph.id().and_then(|id| match id {
        GraphId::Text(text) => NetworkKind::ALL
            .iter()
            .find(|kind| text.ends_with(kind.name())),
        GraphId::Number(_) => None,
    });
    named.map_or_else(|| "unknown".to_string(), NetworkKind::to_string)
}

fn answer(sorts: bool) -> &'static str {
    match sorts {
        true => "sorts",
        false => "does not",
    }
}
