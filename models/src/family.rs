//! What every family of this crate answers in the same way.

use std::fmt;

use candle_core::Tensor;
use candle_graph::Result;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{GraphBatch, InputSchema};
use candle_nn::VarBuilder;

use crate::sections::{Output, OutputConfig};
use crate::{GraphModel, NodeStates, PredictionLevel, Trace};

/// What stands around the layers of a model: what it reads, and what it predicts.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    schema: InputSchema,
    plan: EncodingPlan,
    output: Output,
    output_dim: usize,
    embedding_dim: usize,
}

impl Frame {
    /// For node states of `width`; loads the head's tensors, `head.*`.
    pub(crate) fn new(
        schema: InputSchema,
        plan: EncodingPlan,
        output: &OutputConfig,
        width: usize,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        Ok(Self {
            schema,
            plan,
            output: Output::new(output, width, vb.pp("head"))?,
            output_dim: output.dim,
            embedding_dim: width,
        })
    }
}

/// A family: its frame, and what is its own. Whatever is one is a [`GraphModel`].
pub(crate) trait Family: Send + Sync + fmt::Debug {
    /// What stands around the layers.
    fn frame(&self) -> &Frame;

    /// As [`GraphModel::has_pair_state`].
    fn has_pair_state(&self) -> bool {
        false
    }

    /// As [`GraphModel::depends_on_batch`].
    fn depends_on_batch(&self) -> bool {
        false
    }

    /// As [`GraphModel::node_states`].
    fn node_states(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<NodeStates>;
}

impl<F: Family> GraphModel for F {
    fn input_schema(&self) -> &InputSchema {
        &self.frame().schema
    }

    fn encoding_plan(&self) -> &EncodingPlan {
        &self.frame().plan
    }

    fn has_pair_state(&self) -> bool {
        Family::has_pair_state(self)
    }

    fn depends_on_batch(&self) -> bool {
        Family::depends_on_batch(self)
    }

    fn prediction_level(&self) -> PredictionLevel {
        self.frame().output.level()
    }

    fn output_dim(&self) -> usize {
        self.frame().output_dim
    }

    fn embedding_dim(&self) -> usize {
        self.frame().embedding_dim
    }

    fn node_states(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<NodeStates> {
        Family::node_states(self, batch, trace)
    }

    fn pool(&self, states: &NodeStates, batch: &GraphBatch) -> Result<Tensor> {
        self.frame().output.pool(states, batch)
    }

    fn head(&self, states: &NodeStates, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor> {
        self.frame().output.forward(states, batch, trace)
    }
}
