//! What the examples of the synthetic tasks share.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use candle_graph::datasets::{ReadOptions, open};
use candle_graph::graph::Graph;
use candle_graph::metrics::root_mean_squared_error;

use crate::predictor;

/// How good a model is on graphs of one size.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Nodes of every graph.
    pub size: usize,
    /// Graphs that carry coordinates of their own (`t`); those of others were computed.
    pub with_coordinates: usize,
    /// The model's prediction for every graph.
    pub predictions: Vec<f32>,
    /// The answers.
    pub targets: Vec<f32>,
    /// Root mean squared error, divided by the size of the graphs.
    pub error: f64,
    /// The same of predicting the mean of all answers.
    pub error_of_mean: f64,
}

/// Graphs of a file.
///
/// # Errors
/// What the reader refuses.
pub fn read(path: &Path) -> Result<Vec<Graph>> {
    let graphs = open(path, None, &ReadOptions::default())?;
    Ok(graphs.collect::<Result<_, _>>()?)
}

/// Runs `model`, a checkpoint folder or the name of a shipped model, over `graphs`.
///
/// # Errors
/// A model that cannot be loaded or gives something else than a number a graph, graphs that do not
/// fit it, have no target or are of different sizes.
pub fn evaluate(model: &str, graphs: &[Graph]) -> Result<Evaluation> {
    let predictor = predictor(model)?;
    let size = graphs.first().context("there are no graphs")?.num_nodes();
    let mut targets = Vec::with_capacity(graphs.len());
    for (at, graph) in graphs.iter().enumerate() {
        let label = graph.label(at);
        let nodes = graph.num_nodes();
        ensure!(
            nodes == size,
            "graph {label} has {nodes} nodes, those before {size}: the error is divided by the size"
        );
        let target = graph.targets().and_then(|t| t.data.first().copied());
        targets.push(target.with_context(|| format!("graph {label} has no target `y`"))?);
    }
    let outputs = predictor.predict(graphs)?;
    let predictions: Vec<f32> = outputs.into_iter().flat_map(|o| o.data).collect();
    ensure!(
        predictions.len() == graphs.len(),
        "{model} gives {} values for {} graphs, where one each is wanted",
        predictions.len(),
        graphs.len()
    );
    let sum: f64 = targets.iter().map(|&target| f64::from(target)).sum();
    let mean = vec![(sum / targets.len() as f64) as f32; targets.len()];
    let normalised = |predictions: &[f32]| {
        let error = root_mean_squared_error(predictions, &targets);
        error.map(|error| error / size as f64)
    };
    let no_target = "no graph has a known target";
    Ok(Evaluation {
        size,
        with_coordinates: graphs
            .iter()
            .filter(|graph| graph.rotational_features().is_some())
            .count(),
        error: normalised(&predictions).context(no_target)?,
        error_of_mean: normalised(&mean).context(no_target)?,
        predictions,
        targets,
    })
}

impl Evaluation {
    /// Prints the first predictions and the error, beside the figures of others: what they are of,
    /// and the figure as published.
    pub fn print(&self, model: &str, published: &[(String, &str)]) {
        for (at, (prediction, target)) in self.predictions.iter().zip(&self.targets).enumerate() {
            if at < 5 {
                println!("graph {at}  answer {target:>2}  prediction {prediction:7.3}");
            }
        }
        let graphs = self.predictions.len();
        let coordinates = match self.with_coordinates {
            0 => "computed".to_string(),
            all if all == graphs => "those of the file".to_string(),
            some => format!("those of the file for {some}"),
        };
        println!(
            "\n{graphs} graphs of {} nodes, coordinates: {coordinates}",
            self.size
        );
        println!("RMSE divided by {} ↓", self.size);
        println!("  {:.4}    {model}", self.error);
        println!("  {:.4}    predicting the mean answer", self.error_of_mean);
        for (of, figure) in published {
            println!("  {figure:<9} {of}");
        }
    }
}
