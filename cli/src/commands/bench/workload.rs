//! A case with everything that is there before the clock starts.

use std::borrow::Cow;

use anyhow::{Context, Result};
use candle_core::DType;
use candle_graph::encodings::{EncodingPlan, EncodingRecipe, GraphEncoding, Rotational};
use candle_graph::graph::{Features, Graph, InputSchema};
use candle_graph::ops::{Work as Counted, count_work};
use candle_graph_models::{ModelConfig, Predictor, Trace, Want};

use super::cases::{Case, Work};
use super::random;
use super::target::Target;

/// Edges that leave a node: a comparator has two wires.
const COMPARATOR_DEGREE: usize = 2;
/// The same of the random graphs that encodings are timed on.
const DIGRAPH_DEGREE: usize = 5;

/// What is run and on which graphs.
pub(super) struct Workload<'a> {
    pub(super) name: String,
    pub(super) graphs: Vec<Graph>,
    target: &'a Target,
    step: Step,
}

enum Step {
    Forward {
        predictor: Predictor,
        encodings: Vec<GraphEncoding>,
        weight_bytes: u64,
    },
    Encode(EncodingPlan),
}

impl<'a> Workload<'a> {
    /// Makes graphs, weights and encodings. With `batch` the case has so many graphs, of the sizes of
    /// its own ones in turn.
    ///
    /// # Errors
    /// A model that cannot be built in the dtype or on the device.
    pub(super) fn prepare(case: &Case, batch: Option<usize>, target: &'a Target) -> Result<Self> {
        let sizes: Cow<'_, [usize]> = match batch {
            None => Cow::Borrowed(&case.sizes),
            Some(count) => case.sizes.iter().copied().cycle().take(count).collect(),
        };
        let name = match batch {
            Some(count) if count != case.sizes.len() => format!("{} -> {count} graphs", case.name),
            _ => case.name.to_string(),
        };
        let (graphs, step) = match &case.work {
            Work::Forward(config) => forward(config, &sizes, target)
                .with_context(|| format!("{}{}", case.name, on(target)))?,
            Work::Encode(recipe) => encode(recipe, &sizes)?,
        };
        Ok(Self {
            name,
            graphs,
            target,
            step,
        })
    }

    /// Runs the case once and waits until the device is done.
    ///
    /// # Errors
    /// An operation that the device lacks in the dtype.
    pub(super) fn run(&self) -> Result<()> {
        let run = || -> Result<()> {
            match &self.step {
                Step::Forward {
                    predictor,
                    encodings,
                    ..
                } => {
                    match self.target.dtype {
                        DType::F32 => {
                            predictor.run_batch(&self.graphs, encodings, 0, Want::Prediction)?;
                        }
                        _ => self.forward_in_dtype(predictor, encodings)?,
                    }
                    Ok(self.target.device.synchronize()?)
                }
                Step::Encode(plan) => {
                    plan.compute_all(&self.graphs, 0)?;
                    Ok(())
                }
            }
        };
        run().with_context(|| format!("{}{}", self.name, on(self.target)))
    }

    /// One batch whose encodings have the dtype of the weights.
    fn forward_in_dtype(&self, predictor: &Predictor, encodings: &[GraphEncoding]) -> Result<()> {
        let model = predictor.model();
        let mut batch = predictor.batch(&self.graphs, encodings, 0)?;
        for (name, _, _) in model.encoding_plan().arrays() {
            let encoding = batch.encoding(name)?.to_dtype(self.target.dtype)?;
            batch.attach_encoding(name, encoding);
        }
        let states = model.node_states(&batch, &mut Trace::off())?;
        let prediction = model.head(&states, &batch, &mut Trace::off())?;
        // What a caller would read.
        prediction
            .to_dtype(DType::F32)?
            .flatten_all()?
            .to_vec1::<f32>()?;
        Ok(())
    }

    /// The work of one run; `None` for encodings, whose routines do not count.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(super) fn work(&self) -> Result<Option<Counted>> {
        if matches!(self.step, Step::Encode(_)) {
            return Ok(None);
        }
        let count = || count_work(|| self.run());
        let (ran, work) = match self.target.device.is_cpu() {
            // Parts of a batch run on rayon's threads, and work is counted a thread.
            true => rayon::ThreadPoolBuilder::new()
                .num_threads(1)
                .build()?
                .install(count),
            false => count(),
        };
        ran?;
        Ok(Some(work))
    }

    /// Bytes of inputs, weights and two states of all node pairs: what a forward pass has to hold,
    /// beside a few states of nodes and edges. `None` for encodings.
    pub(super) fn least_bytes(&self) -> Option<u64> {
        let Step::Forward {
            predictor,
            encodings,
            weight_bytes,
        } = &self.step
        else {
            return None;
        };
        let arrays = encodings.iter().flat_map(|encoding| &encoding.arrays);
        let encoded: u64 = arrays.map(|array| 4 * array.data.len() as u64).sum();
        let graphs: u64 = self.graphs.iter().map(graph_bytes).sum();
        let model = predictor.model();
        let pair_states = match model.has_pair_state() {
            true => {
                let pairs: u64 = self.graphs.iter().map(Graph::num_pairs).sum();
                let row = model.embedding_dim() * self.target.dtype.size_in_bytes();
                2 * pairs * row as u64
            }
            false => 0,
        };
        Some(encoded + graphs + weight_bytes + pair_states)
    }
}

/// Edges and features.
fn graph_bytes(graph: &Graph) -> u64 {
    let features = [graph.node_features(), graph.edge_features()];
    let features = features.into_iter().flatten().map(Features::len);
    let values: usize = features.sum();
    4 * (2 * graph.num_edges() + values) as u64
}

/// Where a case failed, unless it is what models do everywhere.
fn on(target: &Target) -> String {
    match target.is_plain() {
        true => String::new(),
        false => format!(
            " with --device {} --dtype {}",
            target.device_name,
            target.dtype_name()
        ),
    }
}

fn forward(config: &ModelConfig, sizes: &[usize], target: &Target) -> Result<(Vec<Graph>, Step)> {
    let (predictor, weight_bytes) = random::model(config, target)?;
    let schema = config.input_schema();
    let mut graphs = match config {
        ModelConfig::Digraph(_) => random::digraphs(&schema, sizes, COMPARATOR_DEGREE)?,
        _ => random::graphs(&schema, sizes)?,
    };
    let plan = predictor.model().encoding_plan();
    for recipe in plan.recipes() {
        if let EncodingRecipe::Rotational(Rotational::Given { dim }) = recipe {
            graphs = random::with_coordinates(graphs, *dim)?;
        }
    }
    let encodings = plan.compute_all(&graphs, 0)?;
    let step = Step::Forward {
        predictor,
        encodings,
        weight_bytes,
    };
    Ok((graphs, step))
}

fn encode(recipe: &EncodingRecipe, sizes: &[usize]) -> Result<(Vec<Graph>, Step)> {
    let plan = EncodingPlan::new(vec![recipe.clone()])?;
    let schema = InputSchema::default();
    let graphs = match recipe {
        EncodingRecipe::Magnetic(_) | EncodingRecipe::DirectedWalk(_) => {
            random::digraphs(&schema, sizes, DIGRAPH_DEGREE)?
        }
        _ => random::graphs(&schema, sizes)?,
    };
    Ok((graphs, Step::Encode(plan)))
}
