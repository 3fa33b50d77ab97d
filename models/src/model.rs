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

    /// Whether the result for a graph depends on the graphs that it shares a batch with. Only
    /// configurations that repeat the official code's padding say so.
    fn depends_on_batch(&self) -> bool {
        false
    }

    /// What the predictions are for.
    fn prediction_level(&self) -> PredictionLevel;

    /// Values of one prediction row.
    fn output_dim(&self) -> usize;

    /// Width of node and graph embeddings.
    fn embedding_dim(&self) -> usize;

    /// States after the last layer. Recorded names: those that the family documents.
    ///
    /// # Errors
    /// The batch was not made for this model, or a tensor operation failed.
    fn node_states(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<NodeStates>;

    /// Pools [`node_states`](Self::node_states) into `[graphs, embedding_dim]`.
    ///
    /// # Errors
    /// A tensor operation failed.
    fn pool(&self, states: &NodeStates, batch: &GraphBatch) -> Result<Tensor>;

    /// Predictions from [`node_states`](Self::node_states): `[graphs, output_dim]`,
    /// `[nodes, output_dim]`, or `[pairs, output_dim]` for the pairs of
    /// [`GraphBatch::edge_label_index`]. Records `pooled` (graph level only: what the head's maps
    /// take) and `prediction`.
    ///
    /// # Errors
    /// A graph without node pairs for a model that scores pairs, or a tensor operation failed.
    fn head(&self, states: &NodeStates, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor>;

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
        let states = self.node_states(batch, trace)?;
        self.head(&states, batch, trace)
    }

    /// One embedding a node, `[nodes, embedding_dim]`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn node_embeddings(&self, batch: &GraphBatch) -> Result<Tensor> {
        self.node_states(batch, &mut Trace::off())?.nodes()
    }

    /// One embedding a graph, `[graphs, embedding_dim]`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    fn graph_embeddings(&self, batch: &GraphBatch) -> Result<Tensor> {
        let states = self.node_states(batch, &mut Trace::off())?;
        self.pool(&states, batch)
    }
}

/// The states of a batch after the last layer. Some models give every graph a learned node of its
/// own, a graph token, which takes part in everything up to the pooling and is no node of the input.
#[derive(Debug, Clone)]
pub struct NodeStates {
    states: Tensor,
    with_tokens: Option<GraphBatch>,
}

impl NodeStates {
    /// States of the nodes of a batch, `[nodes, embedding_dim]`.
    pub fn new(states: Tensor) -> Self {
        Self {
            states,
            with_tokens: None,
        }
    }

    /// States of the nodes of `with_tokens`, in which a graph token stands before the nodes of every
    /// graph.
    pub(crate) fn with_tokens(states: Tensor, with_tokens: Option<GraphBatch>) -> Self {
        Self {
            states,
            with_tokens,
        }
    }

    /// All states, those of graph tokens included.
    pub fn all(&self) -> &Tensor {
        &self.states
    }

    /// The batch whose nodes [`all`](Self::all) stands for; `batch` is the one without graph tokens.
    pub fn batch<'a>(&'a self, batch: &'a GraphBatch) -> &'a GraphBatch {
        self.with_tokens.as_ref().unwrap_or(batch)
    }

    /// The states of the nodes, `[nodes, embedding_dim]`, without graph tokens.
    ///
    /// # Errors
    /// A tensor operation failed.
    pub fn nodes(&self) -> Result<Tensor> {
        match &self.with_tokens {
            Some(batch) => Ok(batch.without_graph_tokens(&self.states)?),
            None => Ok(self.states.clone()),
        }
    }
}
