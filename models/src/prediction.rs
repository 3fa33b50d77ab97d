//! From node states to predictions, as every family does it.

use candle_core::Tensor;
use candle_graph::Result;
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{Head, PredictionLevel};

use crate::{GraphModel, Trace};

/// The predictions of `head` for what `model` predicts for, from the model's node states
/// `[nodes, width]`. Records `pooled` (graph level only) and `prediction`.
///
/// # Errors
/// A graph without node pairs for a head that scores pairs, or a tensor operation failed.
pub(crate) fn predict(
    model: &impl GraphModel,
    head: &Head,
    nodes: &Tensor,
    batch: &GraphBatch,
    trace: &mut Trace,
) -> Result<Tensor> {
    let prediction = match model.prediction_level() {
        PredictionLevel::Graph => {
            let pooled = model.pool(&head.node_states(nodes)?, batch)?;
            trace.record(|| "pooled".to_string(), &pooled);
            head.forward(&pooled)?
        }
        PredictionLevel::Node => head.forward(nodes)?,
        PredictionLevel::Edge => head.forward_pairs(nodes, batch.edge_label_index()?)?,
    };
    trace.record(|| "prediction".to_string(), &prediction);
    Ok(prediction)
}
