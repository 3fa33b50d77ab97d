//! Running a model over graphs.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use candle_graph::device_error::{DeviceBatch, device_name};
use candle_graph::encodings::GraphEncoding;
use candle_graph::graph::{BatchBudget, Graph, GraphBatch, Offsets};
use candle_graph::ops::{implementation_is_forced, runs_kernels};
use candle_graph::{Error, Result};
use rayon::prelude::*;

use crate::threads::is_worth_threads;
use crate::{GraphModel, PredictionLevel, Trace};

/// Rows that a model gives for one graph: one row for the graph, one a node, or one a node pair of
/// its `edge_label_index` in the graph's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// What the rows stand for.
    pub level: PredictionLevel,
    /// Values of a row.
    pub width: usize,
    /// `rows * width` values.
    pub data: Vec<f32>,
}

impl Output {
    /// The rows.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.data.chunks_exact(self.width.max(1))
    }
}

/// A model with its device and batch budget, ready to take graphs. Cheap to clone, and every method
/// takes `&self`, so one predictor serves all threads.
#[derive(Debug, Clone)]
pub struct Predictor {
    model: Arc<dyn GraphModel>,
    device: Device,
    budget: BatchBudget,
}

impl Predictor {
    /// A predictor of `model`, whose weights lie on `device`.
    pub fn new(model: impl Into<Arc<dyn GraphModel>>, device: Device) -> Self {
        Self {
            model: model.into(),
            device,
            budget: BatchBudget::default(),
        }
    }

    /// The same with another batch budget.
    pub fn with_budget(mut self, budget: BatchBudget) -> Self {
        self.budget = budget;
        self
    }

    /// The model.
    pub fn model(&self) -> &dyn GraphModel {
        self.model.as_ref()
    }

    /// The budget; pairs only count for models that keep a state per pair.
    pub fn budget(&self) -> BatchBudget {
        BatchBudget {
            max_pairs: match self.model.has_pair_state() {
                true => self.budget.max_pairs,
                false => u64::MAX,
            },
            ..self.budget
        }
    }

    /// Checks that the model can give `want` for `graph`: its features, and node pairs where the
    /// model scores these. `position` names the graph in messages when it has no id.
    ///
    /// # Errors
    /// What the graph lacks or has wrong, by field, place and value.
    pub fn check(&self, graph: &Graph, position: usize, want: Want) -> Result<()> {
        self.model.input_schema().conform(graph, position)?;
        self.check_pairs(graph, position, want)
    }

    /// Checks that `graph` has node pairs where the model scores these.
    fn check_pairs(&self, graph: &Graph, position: usize, want: Want) -> Result<()> {
        if want == Want::Prediction && self.model.prediction_level() == PredictionLevel::Edge {
            graph.required_edge_label_index(position)?;
        }
        Ok(())
    }

    /// The batch of `graphs` with `encodings` attached, as the model's `forward` wants it. `first`
    /// is the position of `graphs[0]` in the whole input, for messages.
    ///
    /// # Errors
    /// Graphs that do not fit the model, encodings that do not fit the graphs.
    pub fn batch<G: AsRef<Graph>, E: Borrow<GraphEncoding>>(
        &self,
        graphs: &[G],
        encodings: &[E],
        first: usize,
    ) -> Result<GraphBatch> {
        let mut batch = self.bare_batch(graphs, first)?;
        self.model.encoding_plan().attach(&mut batch, encodings)?;
        Ok(batch)
    }

    /// The batch of `graphs` without encodings.
    fn bare_batch<G: AsRef<Graph>>(&self, graphs: &[G], first: usize) -> Result<GraphBatch> {
        GraphBatch::new(graphs, self.model.input_schema(), first, &self.device)
    }

    /// Predictions, one [`Output`] a graph in input order, with encodings computed on the fly.
    ///
    /// # Errors
    /// A graph that does not fit the model or the budget; the message names it.
    pub fn predict<G: AsRef<Graph> + Sync>(&self, graphs: &[G]) -> Result<Vec<Output>> {
        self.run(graphs, Want::Prediction)
    }

    /// One embedding a graph, in input order.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn embed_graphs<G: AsRef<Graph> + Sync>(&self, graphs: &[G]) -> Result<Vec<Output>> {
        self.run(graphs, Want::GraphEmbedding)
    }

    /// One embedding a node, an [`Output`] a graph in input order.
    ///
    /// # Errors
    /// As [`predict`](Self::predict).
    pub fn embed_nodes<G: AsRef<Graph> + Sync>(&self, graphs: &[G]) -> Result<Vec<Output>> {
        self.run(graphs, Want::NodeEmbedding)
    }

    fn run<G: AsRef<Graph> + Sync>(&self, graphs: &[G], want: Want) -> Result<Vec<Output>> {
        let mut outputs = Vec::with_capacity(graphs.len());
        for range in self.budget().cut(graphs, 0)? {
            let first = range.start;
            let graphs = &graphs[range];
            // A misfit is told before its encodings are paid for; the batch checks again, at little cost.
            for (at, graph) in graphs.iter().enumerate() {
                self.check(graph.as_ref(), first + at, want)?;
            }
            if !runs_kernels(&self.device) {
                let encodings = self.model.encoding_plan().compute_all(graphs, first)?;
                outputs.extend(self.run_batch(graphs, &encodings, first, want)?);
            } else {
                let none = Encodings::<GraphEncoding>::OnDevice;
                outputs.extend(self.run_or_halve(graphs, none, first, want)?);
            }
        }
        Ok(outputs)
    }

    /// Runs one batch with precomputed encodings.
    ///
    /// On the CPU, a batch of many small graphs is cut into parts that run side by side, each on one
    /// thread: threads then meet once a batch instead of at every operation. The cut depends on the
    /// graphs alone, so that results do not depend on the number of threads.
    ///
    /// Graphs for which the device has not enough memory are cut into two halves of about as many
    /// states, and each is tried once; models whose result
    /// [depends on the batch](GraphModel::depends_on_batch) are not cut.
    ///
    /// # Errors
    /// As [`batch`](Self::batch), failing tensor operations, [`Error::OutOfDeviceMemory`] with what
    /// does not fit, and [`Error::DeviceFailure`].
    pub fn run_batch<G: AsRef<Graph> + Sync, E: Borrow<GraphEncoding> + Sync>(
        &self,
        graphs: &[G],
        encodings: &[E],
        first: usize,
        want: Want,
    ) -> Result<Vec<Output>> {
        let whole = !self.device.is_cpu()
            || self.model.depends_on_batch()
            || implementation_is_forced()
            || graphs.len() != encodings.len();
        let given = |range: Range<usize>| Encodings::Given(&encodings[range]);
        let parts = match whole {
            true => Vec::new(),
            false => parts(graphs),
        };
        if parts.len() < 2 {
            let run = || self.run_or_halve(graphs, given(0..encodings.len()), first, want);
            return match whole || !self.is_worth_threads(graphs) {
                true => run(),
                // From within the pool, every operation that uses threads goes on with one of them
                // instead of handing over to it and back.
                false => rayon::scope(|_| run()),
            };
        }
        let outputs: Vec<Result<Vec<Output>>> = parts
            .into_par_iter()
            .map(|part| {
                let first = first.saturating_add(part.start);
                self.run_or_halve(&graphs[part.clone()], given(part), first, want)
            })
            .collect();
        let mut all = Vec::with_capacity(graphs.len());
        for part in outputs {
            all.extend(part?);
        }
        Ok(all)
    }

    /// Whether operations on `graphs` are large enough to use threads at all.
    fn is_worth_threads<G: AsRef<Graph>>(&self, graphs: &[G]) -> bool {
        is_worth_threads(self.states(graphs), self.model.embedding_dim())
    }

    /// Runs graphs as one batch, and where the device has not enough memory for them, as two.
    fn run_or_halve<G: AsRef<Graph> + Sync, E: Borrow<GraphEncoding>>(
        &self,
        graphs: &[G],
        encodings: Encodings<'_, E>,
        first: usize,
        want: Want,
    ) -> Result<Vec<Output>> {
        let error = match self.run_part(graphs, encodings, first, want) {
            Err(error @ Error::OutOfDeviceMemory { .. }) => error,
            done => return done,
        };
        if graphs.len() < 2 || self.model.depends_on_batch() {
            return Err(error);
        }
        // Memory that the failed run has given back is only free for certain after its work is done.
        self.device
            .synchronize()
            .map_err(|error| self.of_device(error.into(), graphs, first))?;
        let middle = self.middle(graphs);
        let (left, right) = graphs.split_at(middle);
        let Some((left_encodings, right_encodings)) = encodings.split_at(middle) else {
            return Err(error);
        };
        let mut outputs = self.run_part(left, left_encodings, first, want)?;
        let first = first.saturating_add(middle);
        outputs.extend(self.run_part(right, right_encodings, first, want)?);
        Ok(outputs)
    }

    /// Where two or more graphs are cut so that the larger half is as small as possible.
    fn middle<G: AsRef<Graph>>(&self, graphs: &[G]) -> usize {
        let total = self.states(graphs);
        let mut before = 0u64;
        let larger_half = |at: usize| {
            before = before.saturating_add(self.states(&graphs[at - 1..at]));
            (before.max(total.saturating_sub(before)), at)
        };
        let cuts = (1..graphs.len()).map(larger_half);
        cuts.min().map_or(1, |(_, at)| at)
    }

    /// States that the model keeps for `graphs`: one a pair or one a node.
    fn states<G: AsRef<Graph>>(&self, graphs: &[G]) -> u64 {
        let states = |graph: &Graph| match self.model.has_pair_state() {
            true => graph.num_pairs(),
            false => graph.num_nodes() as u64,
        };
        let counts = graphs.iter().map(|graph| states(graph.as_ref()));
        counts.fold(0, u64::saturating_add)
    }

    /// `error` with its type where it is a fault of the device at `graphs`.
    fn of_device<G: AsRef<Graph>>(&self, error: Error, graphs: &[G], first: usize) -> Error {
        error.of_device(|| {
            let label = |at: usize| {
                let graph = graphs.get(at).map(AsRef::as_ref);
                graph.map_or_else(String::new, |graph| graph.label(first.saturating_add(at)))
            };
            let nodes = graphs.iter().map(|graph| graph.as_ref().num_nodes() as u64);
            let pairs = self.model.has_pair_state().then(|| self.states(graphs));
            DeviceBatch {
                device: device_name(&self.device),
                graphs: graphs.len(),
                first: label(0),
                last: label(graphs.len().saturating_sub(1)),
                nodes: nodes.fold(0, u64::saturating_add),
                pairs,
            }
        })
    }

    /// Runs graphs as one batch.
    fn run_part<G: AsRef<Graph> + Sync, E: Borrow<GraphEncoding>>(
        &self,
        graphs: &[G],
        encodings: Encodings<'_, E>,
        first: usize,
        want: Want,
    ) -> Result<Vec<Output>> {
        for (at, graph) in graphs.iter().enumerate() {
            self.check_pairs(graph.as_ref(), first.saturating_add(at), want)?;
        }
        let run = || {
            let batch = match encodings {
                Encodings::Given(encodings) => self.batch(graphs, encodings, first)?,
                Encodings::OnDevice => {
                    let mut batch = self.bare_batch(graphs, first)?;
                    let plan = self.model.encoding_plan();
                    plan.compute_on_device(&mut batch, graphs, first)?;
                    batch
                }
            };
            let states = self.model.node_states(&batch, &mut Trace::off())?;
            let (tensor, level) = match want {
                Want::Prediction => (
                    self.model.head(&states, &batch, &mut Trace::off())?,
                    self.model.prediction_level(),
                ),
                Want::GraphEmbedding => (self.model.pool(&states, &batch)?, PredictionLevel::Graph),
                Want::NodeEmbedding => (states.nodes()?, PredictionLevel::Node),
            };
            split(&tensor, level, &batch)
        };
        run().map_err(|error| self.of_device(error, graphs, first))
    }
}

/// Where the encodings of some graphs come from.
#[derive(Debug)]
enum Encodings<'a, E> {
    /// They are there, one a graph.
    Given(&'a [E]),
    /// They are made with the batch, by its device where it can.
    OnDevice,
}

impl<E> Clone for Encodings<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Encodings<'_, E> {}

impl<E> Encodings<'_, E> {
    /// Those of the first `middle` graphs, and the rest; nothing if there are not so many.
    fn split_at(self, middle: usize) -> Option<(Self, Self)> {
        match self {
            Self::Given(encodings) => {
                let (left, right) = encodings.split_at_checked(middle)?;
                Some((Self::Given(left), Self::Given(right)))
            }
            Self::OnDevice => Some((Self::OnDevice, Self::OnDevice)),
        }
    }
}

/// Nodes of a part of a batch: enough rows for matrix products to run at full speed, few enough for
/// the states of a layer to stay in a core's cache.
const PART_NODES: usize = 256;

/// Cuts `graphs` into an even number of runs of about as many nodes, [`PART_NODES`] or a little more
/// at most, so that two threads, or four, have equal shares. A larger graph is a part by itself.
fn parts<G: AsRef<Graph>>(graphs: &[G]) -> Vec<Range<usize>> {
    let sizes = || graphs.iter().map(|graph| graph.as_ref().num_nodes());
    let total = sizes().fold(0, usize::saturating_add);
    let count = match total.div_ceil(PART_NODES) {
        0 | 1 => 1,
        count => count.next_multiple_of(2),
    };
    let share = total.div_ceil(count);
    let mut parts = Vec::new();
    // Nodes before the part that is being filled, and up to here.
    let (mut start, mut before, mut seen) = (0, 0usize, 0usize);
    for (at, size) in sizes().enumerate() {
        // Where the part should end, but for large graphs behind which small ones keep together. The
        // graph on the border goes where more of it lies.
        let end = share.saturating_mul(parts.len() + 1);
        let end = end.max(before.saturating_add(share / 2));
        if at > start && seen.saturating_add(size / 2) > end {
            parts.push(start..at);
            (start, before) = (at, seen);
        }
        seen = seen.saturating_add(size);
    }
    if start < graphs.len() {
        parts.push(start..graphs.len());
    }
    parts
}

/// What a run is to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The head's predictions.
    Prediction,
    /// One embedding a graph.
    GraphEmbedding,
    /// One embedding a node.
    NodeEmbedding,
}

/// Cuts a result of a batch into one output a graph.
fn split(tensor: &Tensor, level: PredictionLevel, batch: &GraphBatch) -> Result<Vec<Output>> {
    let (rows, width) = tensor.dims2()?;
    let segments = match level {
        PredictionLevel::Graph => None,
        PredictionLevel::Node => Some(batch.node_ptr()),
        PredictionLevel::Edge => Some(batch.edge_label_index()?.ptr()),
    };
    let expected = segments.map_or(batch.num_graphs(), Offsets::total);
    if rows != expected {
        return Err(Error::Batch(format!(
            "a result of {rows} rows where {expected} were due"
        )));
    }
    let data = tensor
        .to_dtype(DType::F32)?
        .flatten_all()?
        .to_vec1::<f32>()?;
    let part = |range: std::ops::Range<usize>| Output {
        level,
        width,
        data: data[range.start * width..range.end * width].to_vec(),
    };
    Ok(match segments {
        None => (0..rows).map(|g| part(g..g + 1)).collect(),
        Some(segments) => segments.ranges().map(part).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sizes: &[usize]) -> Vec<Range<usize>> {
        let graph = |&n: &usize| Graph::builder(n).build().unwrap();
        parts(&sizes.iter().map(graph).collect::<Vec<_>>())
    }

    #[test]
    fn parts_are_even_in_number_and_size_and_hold_every_graph_once() {
        let molecules: Vec<usize> = (0..32).map(|i| 20 + i % 8).collect();
        for sizes in [
            molecules.as_slice(),
            &[150; 8],
            &[7; 500],
            &[300, 20, 300, 20],
        ] {
            let found = cut(sizes);
            let nodes: Vec<usize> = (found.iter())
                .map(|part| sizes[part.clone()].iter().sum())
                .collect();
            let ends: Vec<usize> = found
                .iter()
                .flat_map(|part| [part.start, part.end])
                .collect();
            assert!(
                ends.windows(2)
                    .skip(1)
                    .step_by(2)
                    .all(|pair| pair[0] == pair[1])
            );
            assert_eq!((ends[0], ends[ends.len() - 1]), (0, sizes.len()));
            assert_eq!(found.len() % 2, 0, "{nodes:?}");
            let (least, most) = (nodes.iter().min().unwrap(), nodes.iter().max().unwrap());
            let largest = sizes.iter().max().unwrap();
            assert!(most - least <= 2 * largest, "{nodes:?}");
            assert!(*most <= PART_NODES + largest, "{nodes:?}");
        }
        // Too little for two parts, and a graph that cannot be cut.
        assert_eq!(cut(&[100, 100]).len(), 1);
        assert_eq!(cut(&[5000]).len(), 1);
    }
}
