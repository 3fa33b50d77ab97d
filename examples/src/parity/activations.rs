//! Activations of a run in recorded order.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::GraphEncoding;
use candle_graph::graph::{Graph, GraphBatch};
use candle_graph_models::{Predictor, Trace};
use candle_graph_weights::{Checkpoint, Limits};

/// What the rows of a recorded tensor stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Nothing to reorder: nodes, or graphs.
    Same,
    /// Edges in input order.
    Edges,
    /// Nodes padded to the largest graph, `[graphs, most nodes, width]`.
    PaddedNodes,
    /// Pairs padded to the largest graph, `[graphs, heads, queries, keys]`.
    PaddedPairs,
}

/// All activations of a run, in f32.
#[derive(Debug)]
pub(super) struct Activations {
    tensors: BTreeMap<String, Tensor>,
    /// For every edge of the batch its place in the input.
    edges: Vec<u32>,
}

/// A predictor of `checkpoint` in `dtype`.
pub(super) fn predictor(checkpoint: &Checkpoint, dtype: DType) -> Result<Predictor> {
    let model = checkpoint.build(&Device::Cpu, dtype, &Limits::default())?;
    Ok(Predictor::new(model, Device::Cpu))
}

impl Activations {
    /// Runs `graphs` as one batch.
    pub(super) fn of(
        predictor: &Predictor,
        graphs: &[Graph],
        encodings: &[GraphEncoding],
    ) -> Result<Self> {
        let batch: GraphBatch = predictor.batch(graphs, encodings, 0)?;
        let mut trace = Trace::on();
        predictor.model().forward_traced(&batch, &mut trace)?;
        let tensors = trace
            .into_activations()
            .into_iter()
            .map(|(name, tensor)| Ok((name, tensor.to_dtype(DType::F32)?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            tensors,
            edges: batch.edges().input_positions().to_vec(),
        })
    }

    /// The activation called `name`.
    pub(super) fn tensor(&self, name: &str) -> Result<&Tensor> {
        let tensor = self.tensors.get(name);
        tensor.with_context(|| format!("the model records no `{name}`"))
    }

    /// The rows of the activation called `name` in recorded order.
    pub(super) fn rows(&self, name: &str, rows: Rows) -> Result<Vec<Vec<f32>>> {
        let tensor = self.tensor(name)?;
        let tensor = tensor.flatten_from(1.min(tensor.rank() - 1))?;
        let found = match tensor.rank() {
            1 => tensor.unsqueeze(1)?.to_vec2::<f32>()?,
            _ => tensor.to_vec2::<f32>()?,
        };
        if rows != Rows::Edges {
            return Ok(found);
        }
        if found.len() != self.edges.len() {
            bail!("`{name}` has {} rows, not one an edge", found.len());
        }
        let mut ordered = vec![Vec::new(); found.len()];
        for (row, &place) in found.into_iter().zip(&self.edges) {
            *ordered.get_mut(place as usize).context("edge order")? = row;
        }
        Ok(ordered)
    }
}
