//! `embed`: node states after the last layer, or pooled.

use candle_graph_models::Want;

use super::run_model::run_model;
use crate::args::{EmbedArgs, EmbeddingLevel};
use crate::output::Naming;

pub(crate) fn run(args: &EmbedArgs, quiet: bool) -> anyhow::Result<()> {
    let want = match args.level {
        EmbeddingLevel::Graph => Want::GraphEmbedding,
        EmbeddingLevel::Node => Want::NodeEmbedding,
    };
    run_model(&args.run, want, Naming::EMBEDDING, quiet)
}
