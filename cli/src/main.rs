//! The command line of candle-graph: graph transformers from checkpoint to prediction.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted. Results go to standard output (or a file that
//! appears complete or not at all), everything else to standard error.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod args;
mod batches;
mod commands;
mod console;
mod device;
mod dtype;
mod encoder;
mod failure;
mod input;
mod interrupt;
mod model_folder;
mod output;
mod progress;
mod recipe;
mod threads;

use std::process::ExitCode;

use args::{Arguments, Command};
use clap::Parser;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::exit(&error),
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    threads::set_up(arguments.threads)?;
    interrupt::set_up()?;
    let quiet = arguments.quiet;
    match &arguments.command {
        Command::Convert(args) => commands::convert::run(args),
        Command::Configure(args) => commands::configure::run(args),
        Command::Inspect(args) => commands::inspect::run(args),
        Command::Encode(args) => commands::encode::run(args, quiet),
        Command::Predict(args) => commands::predict::run(args, quiet),
        Command::Embed(args) => commands::embed::run(args, quiet),
        Command::Generate(args) => commands::generate::run(args, quiet),
        Command::Bench(args) => commands::bench::run(args),
        Command::Completions(args) => commands::completions::run(args),
    }
}
