//! What every model can do.

use std::fmt;

use candle_core::Tensor;
use candle_graph::Result;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{GraphBatch, InputSchema};
use candle_graph::nn::PredictionLevel;

use crate::Trace;

/// A graph model, ready to run. A batch must be made with [`input_schema`](Self::input_schema) and
/// carry the encodings of [`encoding_plan`](Self::encoding_plan).
pub trait GraphModel: Send + Sync + fmt::Debug {
    /// The features that the model reads.
    fn input_schema(&self) -> &InputSchema;

    /// The encodings that the model needs.
    fn encoding_plan(&self) -> &EncodingPlan;

    /// Whether the model keeps a state for every ordered node pair, so that memory grows with the
    /// sum of n².
    fn has_pair_state(&self) -> bool;

    /// What the predictions are for.
    fn prediction_level(&self) -> PredictionLevel;

    /// Values of one prediction row.
    fn output_dim(&self) -> usize;

    /// Width of node and graph embeddings.
    fn embedding_dim(&self) -> usize;

    /// States of all nodes after the last layer, `[nodes, embedding_dim]`. Recorded names: those
    /// that the family documents.
    ///
    /// # Errors
    /// The batch was not made for this model, or a tensor operation failed.
    fn node_embeddings(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor>;

    /// Pools [`node_embeddings`](Self::node_embeddings) into `[graphs, embedding_dim]`.
    ///
    /// # Errors
    /// A tensor operation failed.
    fn pool(&self, nodes: &Tensor, batch: &GraphBatch) -> Result<Tensor>;

    /// Predictions from [`node_embeddings`](Self::node_embeddings): `[graphs, output_dim]`,
    /// `[nodes, output_dim]`, or `[pairs, output_dim]` for the pairs of
    /// [`GraphBatch::edge_label_index`]. Records `pooled` (graph level only: what the head's maps
    /// take) and `prediction`.
    ///
    /// # Errors
    /// A graph without node pairs for a model that scores pairs, or a tensor operation failed.
    fn head(&self, nodes: &Tensor, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor>;

    /// Predictions for a batch, a row for each of what
    /// [`prediction_level`](Self::prediction_level) says.
    ///
    /// # Errors
    /// As [`node_embeddings`](Self::node_embeddings).
    fn forward(&self, batch: &GraphBatch) -> Result<Tensor> {
        self.forward_traced(batch, &mut Trace::off())
    }

    /// [`forward`](Self::forward) that records intermediate activations.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn forward_traced(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor> {
        let nodes = self.node_embeddings(batch, trace)?;
        self.head(&nodes, batch, trace)
    }

    /// One embedding a graph, `[graphs, embedding_dim]`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn graph_embeddings(&self, batch: &GraphBatch) -> Result<Tensor> {
        let nodes = self.node_embeddings(batch, &mut Trace::off())?;
        self.pool(&nodes, batch)
    }
}
