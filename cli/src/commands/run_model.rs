//! A model over a stream of graphs, results in input order.

use candle_graph_models::{Output, PredictionLevel, Predictor, Want};
use candle_graph_weights::{Checkpoint, Limits};

use crate::args::RunArgs;
use crate::batches::Batches;
use crate::encoder::{Encoder, Unsaved};
use crate::input;
use crate::model_folder;
use crate::output::{self, Naming};
use crate::progress::Progress;

/// Reads graphs, runs the model and writes `want` for each under the names of `naming`.
pub(crate) fn run_model(
    args: &RunArgs,
    want: Want,
    naming: Naming,
    quiet: bool,
) -> anyhow::Result<()> {
    let device = args.device.open()?;
    let limits = Limits::default();
    let folder = model_folder::find(&args.model.model)?;
    let model = Checkpoint::read(&folder, &limits)?.build(&device, args.dtype.dtype(), &limits)?;
    let plan = model.encoding_plan().clone();
    let level = match want {
        Want::Prediction => model.prediction_level(),
        Want::GraphEmbedding => PredictionLevel::Graph,
        Want::NodeEmbedding => PredictionLevel::Node,
    };
    let width = match want {
        Want::Prediction => model.output_dim(),
        Want::GraphEmbedding | Want::NodeEmbedding => model.embedding_dim(),
    };
    let predictor = Predictor::new(model, device);
    let budget = args.budget.budget(predictor.model().has_pair_state());
    let predictor = predictor.with_budget(budget);

    let mut progress = Progress::start(quiet, args.output.is_none());
    let mut encoder = Encoder::new(plan.clone(), args.cache.cache.as_deref(), Unsaved::Warn)?;
    let reader = input::open(&args.input, &progress)?;
    // A place that cannot be written shows before the work.
    let mut sink = output::open(args.output.as_ref(), naming, level, width)?;
    let mut not_finite = NotFinite::default();
    let batches = Batches::new(reader, predictor.budget(), |graph, position| {
        predictor.check(graph, position, want)?;
        plan.check_bytes(graph, position)
    });
    for chunk in batches {
        let chunk = chunk?;
        let encodings = encoder.encode(&chunk, &progress)?;
        let outputs = predictor.run_batch(&chunk.graphs, &encodings, chunk.first, want)?;
        for (at, (graph, output)) in chunk.graphs.iter().zip(&outputs).enumerate() {
            not_finite.look(output, || graph.label(chunk.first + at));
            sink.write(&output::id(graph, chunk.first + at), output)?;
        }
        sink.flush()?;
        progress.add(outputs.len());
    }
    if let Some(text) = not_finite.warning(naming) {
        progress.warn(&text);
    }
    sink.finish()?;
    let summary = encoder.finish(&progress)?;
    progress.finish(&format!("done{summary}"));
    Ok(())
}

/// Counts results that JSON cannot hold.
#[derive(Default)]
struct NotFinite {
    graphs: usize,
    first: Option<String>,
}

impl NotFinite {
    fn look(&mut self, output: &Output, label: impl FnOnce() -> String) {
        if output.data.iter().any(|value| !value.is_finite()) {
            self.graphs += 1;
            self.first.get_or_insert_with(label);
        }
    }

    fn warning(&self, naming: Naming) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(format!(
            "{} graph(s), first graph {first}, have a {} that is not finite (null in JSON): the \
             features may be far outside what the model was trained on",
            self.graphs, naming.singular
        ))
    }
}
