//! A step of a graph network without global state.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::{DirectedMessagePassingConfig, States};
use crate::graph::Adjacency;
use crate::nn::linear;
use crate::ops::{
    self, Activation, EdgeUpdateInput, LinearWeights, edge_update, sum_by_source, sum_by_target,
};

/// Sizes of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widths {
    /// Of the node states that come in.
    pub(super) nodes: usize,
    /// Of the edge states that come in and are read.
    pub(super) edges: Option<usize>,
    /// Of what comes out.
    pub(super) out: usize,
}

/// `e' = φ(W·[e ‖ x_s ‖ x_t] + b)` and `x' = φ(U·[x ‖ Σ_out e' ‖ Σ_in e'] + c)`, each followed by
/// further maps where there are any; without `bidirectional` the parts of the two directions are
/// added up instead of standing side by side.
#[derive(Debug, Clone)]
pub(super) struct GraphNetworkStep {
    /// From edge states to the first edge map.
    of_edges: Option<LinearWeights>,
    /// From node states to the first edge map: the part of the sources with the bias, and behind it
    /// that of the targets; without `bidirectional` the one part of both ends.
    of_nodes: LinearWeights,
    edge_maps: Vec<LinearWeights>,
    node_maps: Vec<LinearWeights>,
    bidirectional: bool,
    activation: Activation,
    out: usize,
}

impl GraphNetworkStep {
    /// Loads `edge.{j}.{weight,bias}` and `node.{j}.{weight,bias}`.
    pub(super) fn new(
        config: &DirectedMessagePassingConfig,
        widths: Widths,
        activation: Activation,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let Widths { nodes, edges, out } = widths;
        let directions = if config.bidirectional { 2 } else { 1 };
        let of_edges = edges.unwrap_or(0);
        let first = linear(of_edges + directions * nodes, out, vb.pp("edge.0"))?;
        let part = |start: usize, width: usize| first.weight().narrow(1, start, width);
        let sources = part(of_edges, nodes)?;
        let (weight, bias) = match (config.bidirectional, first.bias()) {
            (true, Some(bias)) => (
                Tensor::cat(&[sources, part(of_edges + nodes, nodes)?], 0)?,
                Some(Tensor::cat(&[bias.clone(), bias.zeros_like()?], 0)?),
            ),
            // Half of the bias at each end.
            (_, bias) => (
                sources.contiguous()?,
                bias.map(|bias| bias * 0.5).transpose()?,
            ),
        };
        let further = |kind: &str| -> Result<Vec<LinearWeights>> {
            (1..config.mlp_layers)
                .map(|j| linear(out, out, vb.pp(kind).pp(j)))
                .collect()
        };
        let mut node_maps = vec![linear(nodes + directions * out, out, vb.pp("node.0"))?];
        node_maps.extend(further("node")?);
        Ok(Self {
            of_edges: match edges {
                Some(width) => Some(LinearWeights::new(part(0, width)?.contiguous()?, None)?),
                None => None,
            },
            of_nodes: LinearWeights::new(weight, bias)?,
            edge_maps: further("edge")?,
            node_maps,
            bidirectional: config.bidirectional,
            activation,
            out,
        })
    }

    /// One step.
    pub(super) fn forward(&self, states: &States, edges: &Adjacency) -> Result<States> {
        let channels = states.channels;
        let projected = ops::linear(&states.nodes, &self.of_nodes, Activation::Identity)?;
        // Rows of nodes, with the channels side by side.
        let rows = |part: Tensor| -> Result<Tensor> {
            match channels {
                1 => Ok(part),
                _ => part
                    .contiguous()?
                    .reshape((edges.num_nodes(), channels * self.out)),
            }
        };
        let (from_sources, from_targets) = match self.bidirectional {
            true => (
                rows(projected.narrow(1, 0, self.out)?)?,
                rows(projected.narrow(1, self.out, self.out)?)?,
            ),
            false => {
                let states = rows(projected)?;
                (states.clone(), states)
            }
        };
        let of_edges = match (&self.of_edges, &states.edges) {
            (Some(map), Some(edges)) => Some(ops::linear(edges, map, Activation::Identity)?),
            _ => None,
        };
        let mut messages = edge_update(EdgeUpdateInput {
            edge_states: of_edges.as_ref(),
            from_sources: &from_sources,
            from_targets: &from_targets,
            adjacency: edges,
            activation: self.activation,
        })?;
        for map in &self.edge_maps {
            let flat = messages.reshape((edges.len() * channels, self.out))?;
            messages = ops::linear(&flat, map, self.activation)?
                .reshape((edges.len(), channels * self.out))?;
        }
        let sent = sum_by_source(&messages, edges)?;
        let received = sum_by_target(&messages, edges)?;
        let flat = |sums: Tensor| sums.reshape((edges.num_nodes() * channels, self.out));
        let mut nodes = match self.bidirectional {
            true => Tensor::cat(&[&states.nodes, &flat(sent)?, &flat(received)?], 1)?,
            false => Tensor::cat(&[&states.nodes, &flat((sent + received)?)?], 1)?,
        };
        for map in &self.node_maps {
            nodes = ops::linear(&nodes, map, self.activation)?;
        }
        Ok(States {
            nodes,
            edges: (channels == 1).then_some(messages),
            channels,
        })
    }
}
