//! Flags of `bench`.

use std::path::PathBuf;

use clap::Args;

use super::{at_least_one, seconds};
use crate::device::DeviceChoice;
use crate::dtype::DTypeChoice;

/// Time models on this machine, with made-up graphs and weights
///
/// The work of a forward pass is counted: its operations' arithmetic, and the bytes that they take and
/// give. Both stand beside what the machine reaches in a large matrix product and in a copy, measured
/// in the same run.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  candle-graph bench
  candle-graph bench --case grit-zinc --compare --json
  candle-graph bench --case forward --roofline roofline.svg
  candle-graph bench --case gps-zinc --batch 256 --device cuda --dtype bf16")]
pub(crate) struct BenchArgs {
    /// Only cases whose name contains this text
    #[arg(long)]
    pub(crate) case: Option<String>,
    /// Timed runs of each case at least, after three that do not count; fewer where they take half
    /// a minute
    #[arg(long, default_value_t = 9)]
    pub(crate) runs: usize,
    /// Seconds that each case is timed for at least
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Graphs of every case instead of its own number; their sizes are those of the case in turn
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) batch: Option<usize>,
    /// Where the forward passes run: cpu, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: DeviceChoice,
    /// Of weights, encodings and states
    #[arg(long, value_name = "DTYPE", default_value = "f32")]
    pub(crate) dtype: DTypeChoice,
    /// Run the reference operations instead of the fused ones
    #[arg(long)]
    pub(crate) reference: bool,
    /// Run the reference operations after the fused ones and tell how much longer they take
    #[arg(long, conflicts_with = "reference")]
    pub(crate) compare: bool,
    /// SVG file for a roofline plot: every forward pass under the measured peaks of the machine
    #[arg(long, value_name = "FILE.svg", value_parser = parse_svg_path)]
    pub(crate) roofline: Option<PathBuf>,
    /// Print one JSON object a case instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Time another implementation on the same graphs, in the same run: a command that reads a case
    /// from standard input, such as "python3 benches/peers/pyg_gps.py"
    #[arg(long, value_name = "COMMAND")]
    pub(crate) peer: Option<String>,
}

fn parse_svg_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("the plot is written as .svg".to_string()),
    }
}
