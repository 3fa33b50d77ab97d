//! Message passing along and against the edges of directed graphs: the graph networks of
//! "Transformers Meet Directed Graphs", also as structure extractors before an attention.

mod config;
mod convolution;
mod graph_network;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};
use candle_nn::VarBuilder;

pub use config::{DirectedMessageKind, DirectedMessagePassingConfig};

use super::linear;
use crate::graph::Adjacency;
use crate::ops::{self, Activation, LinearWeights};
use convolution::ConvolutionStep;
use graph_network::{GraphNetworkStep, Widths};

/// States between two steps.
struct States {
    /// `[N·channels, width]`, the channels of a node one after the other.
    nodes: Tensor,
    /// `[E, width]`, where there are any.
    edges: Option<Tensor>,
    channels: usize,
}

#[derive(Debug, Clone)]
enum Step {
    GraphNetwork(GraphNetworkStep),
    Convolution(ConvolutionStep),
}

/// Several steps of message passing, and the map of what they make.
#[derive(Debug, Clone)]
pub struct DirectedMessagePassing {
    steps: Vec<Step>,
    output: Option<LinearWeights>,
    concatenate: bool,
    adds: bool,
}

/// Widths of what [`DirectedMessagePassing`] reads and makes.
#[derive(Debug, Clone, Copy)]
pub struct MessageWidths {
    /// Of the node states that come in.
    pub nodes: usize,
    /// Of the edge states that come in, where there are any.
    pub edges: Option<usize>,
    /// Of the model, that is of what comes out (`d_model`).
    pub out: usize,
}

impl DirectedMessagePassing {
    /// Loads `steps.{i}.…`: of a graph network the maps `edge.{j}` from edge states (where they are
    /// read), source and target side by side, and `node.{j}` from node states, sums over leaving and
    /// over coming edges; of a convolution the maps `node`, `edge`, `backward_edge` and `root`
    /// `[1, out]`. Where the states of all steps stand side by side or are narrower than the model,
    /// the map `output` from them to the model's width.
    ///
    /// # Errors
    /// Missing or mis-shaped tensors; options that [`DirectedMessagePassingConfig::check`] refuses.
    pub fn new(
        config: &DirectedMessagePassingConfig,
        widths: MessageWidths,
        activation: Activation,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        if let Err(invalid) = config.check(widths.out, widths.edges) {
            bail!("message passing: {invalid}");
        }
        let out = config.step_width(widths.out);
        let mut nodes = widths.nodes;
        let mut edges = widths.edges.filter(|_| config.edge_features);
        let mut all = nodes;
        let mut steps = Vec::with_capacity(config.steps);
        for i in 0..config.steps {
            let vb = vb.pp("steps").pp(i);
            steps.push(match config.kind {
                DirectedMessageKind::GraphNetwork => {
                    let widths = Widths { nodes, edges, out };
                    // From here on edges have states of their own.
                    edges = edges.map(|_| out);
                    Step::GraphNetwork(GraphNetworkStep::new(config, widths, activation, vb)?)
                }
                DirectedMessageKind::Convolution => {
                    let widths = [nodes, edges.unwrap_or(0), out];
                    Step::Convolution(ConvolutionStep::new(config, widths, activation, vb)?)
                }
            });
            nodes = out;
            all += out;
        }
        let output = match (config.concatenate, config.tightening_factor > 1) {
            (false, false) => None,
            (concatenate, _) => {
                let inputs = if concatenate { all } else { nodes };
                Some(linear(inputs, widths.out, vb.pp("output"))?)
            }
        };
        Ok(Self {
            steps,
            output,
            concatenate: config.concatenate,
            adds: config.adds(),
        })
    }

    /// Width of the states before the output map, for a model as [`new`](Self::new) gets it.
    pub fn inner_width(config: &DirectedMessagePassingConfig, widths: MessageWidths) -> usize {
        let out = config.step_width(widths.out);
        match config.concatenate {
            true => widths.nodes + config.steps * out,
            false => out,
        }
    }

    /// Node states `[N, nodes]` and edge states `[E, edges]` to node states `[N, out]`. `norm` is
    /// applied before the output map.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward(
        &self,
        nodes: &Tensor,
        edge_states: Option<&Tensor>,
        edges: &Adjacency,
        norm: impl Fn(Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.run(nodes, edge_states, edges, 1, norm)
    }

    /// The same for `channels` independent states of every node, `[N·channels, nodes]` with those of
    /// a node one after the other, without edge states.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn forward_channels(
        &self,
        nodes: &Tensor,
        edges: &Adjacency,
        channels: usize,
    ) -> Result<Tensor> {
        self.run(nodes, None, edges, channels, Ok)
    }

    fn run(
        &self,
        nodes: &Tensor,
        edge_states: Option<&Tensor>,
        edges: &Adjacency,
        channels: usize,
        norm: impl Fn(Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut states = States {
            nodes: nodes.clone(),
            edges: edge_states.cloned(),
            channels,
        };
        let mut all = vec![nodes.clone()];
        for step in &self.steps {
            let mut made = match step {
                Step::GraphNetwork(step) => step.forward(&states, edges)?,
                Step::Convolution(step) => step.forward(&states, edges)?,
            };
            if self.adds {
                made.nodes = (&states.nodes + made.nodes)?;
                // A convolution keeps the states of edges, so that this doubles them, as trained
                // weights have it.
                made.edges = match (&states.edges, made.edges) {
                    (Some(before), Some(after)) => Some((before + after)?),
                    (_, after) => after,
                };
            }
            states = made;
            if self.concatenate {
                all.push(states.nodes.clone());
            }
        }
        let nodes = match self.concatenate {
            true => Tensor::cat(&all, 1)?,
            false => states.nodes,
        };
        let nodes = norm(nodes)?;
        match &self.output {
            Some(map) => ops::linear(&nodes, map, Activation::Identity),
            None => Ok(nodes),
        }
    }
}
