//! Which message passing a layer does.

use serde::{Deserialize, Serialize};

use crate::nn::InvalidOption;
use crate::ops::Activation;

/// The kinds of message passing (the first half of `gt.layer_type` in GraphGPS).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessagePassingConfig {
    /// `mlp((1 + eps)·x_i + Σ_j relu(x_j + e_ij))` with a perceptron of two maps (`GINE`).
    Gine {
        /// Between the two maps (`gnn.act`).
        activation: Activation,
    },
    /// `mlp((1 + eps)·x_i + Σ_j x_j)` (`GIN`).
    Gin {
        /// Between the two maps (`gnn.act`).
        activation: Activation,
    },
    /// `Σ_j W·x_j / √(d_i·d_j)` with self loops (`GCN`).
    Gcn,
    /// Attention along edges with edge states (`GAT` with `edge_dim`).
    Gat {
        /// Number of heads, a divisor of the width (`gt.n_heads`).
        heads: usize,
    },
    /// Softmax aggregation of `relu(x_j + e_ij) + 1e-7` (`GENConv`).
    GenConv,
    /// Mean, largest value and sum of learned messages, unscaled (`PNA` as GraphGPS sets it up).
    Pna,
    /// Gated sums with edge states that travel to the next layer (`CustomGatedGCN`,
    /// `gatedgcnconv`). Norm, activation and residual sum are part of it.
    GatedGcn {
        /// After the norms (`gnn.act`).
        activation: Activation,
        /// Whether node and edge states are added to the result (always in GraphGPS layers,
        /// `gnn.residual` in plain networks).
        residual: bool,
    },
}

impl MessagePassingConfig {
    /// Whether edge states are read.
    pub fn reads_edges(&self) -> bool {
        !matches!(self, Self::Gin { .. } | Self::Gcn)
    }

    /// Width of the edge states for node states of `width`: PNA reads at most 128 columns.
    pub fn edge_width(&self, width: usize) -> usize {
        match self {
            Self::Pna => width.min(128),
            _ => width,
        }
    }

    /// Whether distances between positions may scale the messages (`posenc_EquivStableLapPE`).
    pub fn takes_positions(&self) -> bool {
        matches!(self, Self::Gine { .. } | Self::GatedGcn { .. })
    }

    /// Checks that a layer of `width` columns can be built.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self, width: usize) -> Result<(), InvalidOption> {
        match self {
            Self::Gat { heads } if *heads == 0 || !width.is_multiple_of(*heads) => {
                let problem = format!("{heads} does not divide a width of {width}");
                Err(InvalidOption::new("heads", problem))
            }
            _ => Ok(()),
        }
    }
}
