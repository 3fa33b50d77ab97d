//! `completions`: a script for the user's shell.

use clap::CommandFactory;

use crate::args::{Arguments, CompletionsArgs};
use crate::console;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(args.shell, &mut command, "candle-graph", &mut script);
    console::print(&String::from_utf8_lossy(&script))
}
