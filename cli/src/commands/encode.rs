//! `encode`: encodings into a cache, a file or both.

use candle_graph::encodings::Level;
use candle_graph_weights::CheckpointConfig;
use candle_graph_weights::checkpoint::CONFIG_FILE;

use crate::args::EncodeArgs;
use crate::batches::Batches;
use crate::encoder::{Encoder, Unsaved};
use crate::input;
use crate::model_folder;
use crate::output::EncodingsFile;
use crate::progress::Progress;

pub(crate) fn run(args: &EncodeArgs, quiet: bool) -> anyhow::Result<()> {
    let plan = match (&args.recipe, &args.model) {
        (Some(plan), _) => plan.clone(),
        (None, model) => {
            let folder = model_folder::find(model.as_deref().unwrap_or_default())?;
            CheckpointConfig::read(&folder.join(CONFIG_FILE))?.encodings
        }
    };
    let mut progress = Progress::start(quiet, false);
    // A cache that cannot be filled fails only where it is all that was asked for.
    let unsaved = match args.output {
        Some(_) => Unsaved::Warn,
        None => Unsaved::Fail,
    };
    let mut encoder = Encoder::new(plan.clone(), args.cache.cache.as_deref(), unsaved)?;
    let reader = input::open(&args.input, &progress)?;
    let file = args.output.as_deref();
    let mut file = file
        .map(|path| EncodingsFile::create(path, &plan))
        .transpose()?;
    let has_pairs = plan.arrays().iter().any(|(_, l, _)| *l == Level::Pair);
    let budget = args.budget.budget(has_pairs);
    let batches = Batches::new(reader, budget, |graph, at| plan.check_bytes(graph, at));
    for chunk in batches {
        let chunk = chunk?;
        let encodings = encoder.encode(&chunk, &progress)?;
        if let Some(file) = &mut file {
            for (at, (graph, encoding)) in chunk.graphs.iter().zip(&encodings).enumerate() {
                file.write(graph, chunk.first + at, encoding)?;
            }
        }
        progress.add(chunk.graphs.len());
    }
    if let Some(file) = file {
        file.finish()?;
    }
    let summary = encoder.finish(&progress)?;
    progress.finish(&format!("encoded{summary}"));
    Ok(())
}
