//! What Graphormer's attention bias and degree embeddings need.

use serde::{Deserialize, Serialize};

/// Shortest-path distances, edge categories along shortest paths, and degrees
/// (`posenc_GraphormerBias`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Graphormer {
    /// Distances from here on count as one (`num_spatial_types`).
    pub spatial_types: usize,
    /// In-degrees must be below (`num_in_degrees`).
    pub in_degrees: usize,
    /// Out-degrees must be below (`num_out_degrees`).
    pub out_degrees: usize,
    /// Only the degrees, no attention bias (`node_degrees_only`).
    pub degrees_only: bool,
    /// Whether the categories of edges along shortest paths are part of the bias.
    pub edge_types: bool,
}
