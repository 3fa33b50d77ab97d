//! Prediction heads.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::{InvalidOption, linear};
use crate::ops::{self, Activation, LinearWeights};

/// Which head a model ends with (`gnn.head`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HeadConfig {
    /// On pooled states: three linear maps D → D/2 → D/4 → outputs with an activation between
    /// (`san_graph`).
    SanGraph {
        /// Between the maps (`gnn.act`).
        activation: Activation,
    },
    /// On pooled states: `layers` linear maps; every one but the last is followed by ReLU and the
    /// normalisation of every row to length 1 (`graph`).
    Graph {
        /// Number of maps (`gnn.layers_post_mp`).
        layers: usize,
    },
    /// The same maps on node states (`inductive_node`).
    InductiveNode {
        /// Number of maps (`gnn.layers_post_mp`).
        layers: usize,
    },
}

impl HeadConfig {
    /// Whether the head predicts for graphs (after pooling) rather than for nodes.
    pub fn is_graph_level(&self) -> bool {
        !matches!(self, Self::InductiveNode { .. })
    }

    /// Checks that a head on states of `width` columns can be built.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, width: usize) -> std::result::Result<(), InvalidOption> {
        const MAX_LAYERS: usize = 1 << 20;
        match self {
            Self::SanGraph { .. } if width < 4 => Err(InvalidOption::new(
                "",
                format!("san_graph quarters hidden_dim, which must be at least 4 and is {width}"),
            )),
            Self::Graph { layers } | Self::InductiveNode { layers }
                if !(1..=MAX_LAYERS).contains(layers) =>
            {
                Err(InvalidOption::new(
                    "layers",
                    format!("{layers} is out of range, which is 1 to {MAX_LAYERS}"),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Widths from input to output.
    fn widths(&self, width: usize, outputs: usize) -> Vec<usize> {
        match self {
            Self::SanGraph { .. } => vec![width, width / 2, width / 4, outputs],
            Self::Graph { layers } | Self::InductiveNode { layers } => {
                let mut widths = vec![width; (*layers).max(1)];
                widths.push(outputs);
                widths
            }
        }
    }
}

/// Maps states `[rows, width]` to predictions `[rows, outputs]`.
#[derive(Debug, Clone)]
pub struct Head {
    layers: Vec<LinearWeights>,
    activation: Activation,
    normalise_rows: bool,
}

impl Head {
    /// Loads `layers.{j}.{weight,bias}`.
    pub fn new(
        config: &HeadConfig,
        width: usize,
        outputs: usize,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let layers = config
            .widths(width, outputs)
            .windows(2)
            .enumerate()
            .map(|(j, pair)| linear(pair[0], pair[1], vb.pp("layers").pp(j)))
            .collect::<Result<_>>()?;
        let (activation, normalise_rows) = match config {
            HeadConfig::SanGraph { activation } => (*activation, false),
            HeadConfig::Graph { .. } | HeadConfig::InductiveNode { .. } => (Activation::Relu, true),
        };
        Ok(Self {
            layers,
            activation,
            normalise_rows,
        })
    }

    /// Predicts from `[rows, width]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let last = self.layers.len().saturating_sub(1);
        let mut x = x.clone();
        for (j, layer) in self.layers.iter().enumerate() {
            if j == last {
                return ops::linear(&x, layer, Activation::Identity);
            }
            x = ops::linear(&x, layer, self.activation)?;
            if self.normalise_rows {
                x = ops::normalise_rows(&x)?;
            }
        }
        Ok(x)
    }
}
