//! The configuration of message passing along and against edges.

use serde::{Deserialize, Serialize};

use crate::nn::InvalidOption;

/// Message passing along and against the edges (`gnn_config` of "Transformers Meet Directed Graphs").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectedMessagePassingConfig {
    /// Which messages (`gnn_type`).
    pub messages: DirectedMessageKind,
    /// Number of steps (`k_hop`).
    pub steps: usize,
    /// Maps of every perceptron (`mlp_layers`); graph networks only.
    pub mlp_layers: usize,
    /// The states of a step are as wide as the model divided by this (`tightening_factor`).
    pub tightening_factor: usize,
    /// Whether edge states are read (`use_edge_attr`).
    pub edge_features: bool,
    /// Whether the result is mapped from the states of all steps side by side (`concat`).
    pub concatenate: bool,
    /// Whether every step adds the states that it started from, which takes a tightening factor of 1
    /// to have an effect (`residual`).
    pub residual: bool,
    /// Whether the two directions have weights of their own (`bidirectional`). Without it a graph
    /// network adds up the states at both ends, and a convolution passes messages forward only.
    pub bidirectional: bool,
}

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DirectedMessageKind {
    /// Perceptrons on edges, then on nodes (Battaglia et al., `gnn`).
    GraphNetwork,
    /// Degree-normalised sums (`gcn`).
    Convolution,
}

impl DirectedMessagePassingConfig {
    /// Width of the states of a step, in a model of `width`.
    pub(super) fn step_width(&self, width: usize) -> usize {
        width.checked_div(self.tightening_factor).unwrap_or(0)
    }

    /// Whether every step adds what it started from.
    pub(super) fn adds(&self) -> bool {
        self.residual && self.tightening_factor == 1
    }

    /// Checks that there are such layers in a model of `width`, whose edge states are `edge_width`
    /// wide where there are any.
    ///
    /// # Errors
    /// What rules them out.
    pub fn check(&self, width: usize, edge_width: Option<usize>) -> Result<(), InvalidOption> {
        const MAX: usize = 1 << 12;
        for (option, value) in [("steps", self.steps), ("mlp_layers", self.mlp_layers)] {
            if !(1..=MAX).contains(&value) {
                let problem = format!("{value} is out of range, which is 1 to {MAX}");
                return Err(InvalidOption::new(option, problem));
            }
        }
        if self.step_width(width) == 0 {
            let problem = format!("{} for a width of {width}", self.tightening_factor);
            return Err(InvalidOption::new("tightening_factor", problem));
        }
        if self.messages == DirectedMessageKind::Convolution && !self.edge_features {
            return Err(InvalidOption::new(
                "edge_features",
                "convolutions read edge states",
            ));
        }
        if self.edge_features && edge_width.is_none() {
            return Err(InvalidOption::new(
                "edge_features",
                "edge states are read, but the model has no edge encoder",
            ));
        }
        if self.adds()
            && self.messages == DirectedMessageKind::GraphNetwork
            && (!self.edge_features || edge_width != Some(width))
        {
            return Err(InvalidOption::new(
                "residual",
                format!(
                    "with a tightening factor of 1 the states of edges are added up too, and need \
                     an edge encoder of width {width}"
                ),
            ));
        }
        Ok(())
    }
}
