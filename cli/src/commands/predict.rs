//! `predict`: the model's head.

use candle_graph_models::Want;

use super::run_model::run_model;
use crate::args::PredictArgs;
use crate::output::Naming;

pub(crate) fn run(args: &PredictArgs, quiet: bool) -> anyhow::Result<()> {
    run_model(&args.run, Want::Prediction, Naming::PREDICTION, quiet)
}
