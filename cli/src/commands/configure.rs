//! `configure`: the configuration of a published model, without weights.

use std::fmt::Write;

use anyhow::bail;
use candle_graph_models::wire_benchmarks::WireBenchmark;
use candle_graph_weights::CheckpointConfig;
use candle_graph_weights::checkpoint::{CONFIG_FILE, Training};

use crate::args::ConfigureArgs;
use crate::console;

pub(crate) fn run(args: &ConfigureArgs) -> anyhow::Result<()> {
    let Some(name) = &args.name else {
        let mut names = String::new();
        for benchmark in WireBenchmark::all() {
            writeln!(names, "wire/{benchmark}")?;
        }
        return console::print(&names);
    };
    let benchmark: WireBenchmark = name.strip_prefix("wire/").unwrap_or(name).parse()?;
    let training = Training {
        dataset: Some(benchmark.dataset().name().to_string()),
        task: None,
    };
    let config = CheckpointConfig::new(benchmark.config(), training)?;
    let Some(output) = &args.output else {
        return console::print(&format!("{}\n", serde_json::to_string_pretty(&config)?));
    };
    let path = output.join(CONFIG_FILE);
    if path.exists() && !args.force {
        bail!(
            "{}: there is a configuration already; give --force to replace it",
            path.display()
        );
    }
    let path = config.write(output)?;
    console::print(&format!("wrote {}\n", path.display()))
}
