//! Another implementation, timed on the same graphs in the same run.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use candle_graph::encodings::{EncodingRecipe, Magnetic};
use candle_graph::graph::Graph;
use candle_graph::nn::{AttentionConfig, MessagePassingConfig};
use candle_graph::spectral::Potential;
use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{DigraphConfig, DigraphEncoderConfig, DirectedPositionalConfig};
use candle_graph_models::gps::GpsConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cases::Work;
use super::timing::Effort;

/// What the peer prints.
#[derive(Debug, Deserialize)]
pub(super) struct PeerTimes {
    milliseconds_min: f64,
    milliseconds_median: f64,
    peer: String,
}

/// The peer beside this engine.
#[derive(Debug, Serialize)]
pub(super) struct PeerFigures {
    pub(super) name: String,
    pub(super) milliseconds_min: f64,
    pub(super) milliseconds_median: f64,
    /// The peer's median over this engine's.
    pub(super) ratio: f64,
}

impl PeerTimes {
    /// The ratio to this engine's median.
    pub(super) fn against(self, milliseconds_median: f64) -> PeerFigures {
        PeerFigures {
            ratio: self.milliseconds_median / milliseconds_median,
            name: self.peer,
            milliseconds_min: self.milliseconds_min,
            milliseconds_median: self.milliseconds_median,
        }
    }
}

/// Gives the case to `command` on its standard input and reads its times; `None` for work that no
/// peer knows, and for what this one answers `null` to.
///
/// # Errors
/// The command cannot be run, fails, or prints something else.
pub(super) fn time(
    command: &str,
    work: &Work,
    graphs: &[Graph],
    effort: Effort,
) -> Result<Option<PeerTimes>> {
    let Some(mut task) = task(work) else {
        return Ok(None);
    };
    let graphs: Vec<Value> = graphs.iter().map(graph).collect();
    for (key, value) in [
        ("graphs", json!(graphs)),
        ("runs", json!(effort.runs.max(1))),
        ("seconds", json!(effort.seconds)),
        ("threads", json!(rayon::current_num_threads())),
    ] {
        task[key] = value;
    }
    let mut words = command.split_whitespace();
    let program = words.next().context("the command is empty")?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let input = child.stdin.take().context("no standard input")?;
    // A command that ends before it has read everything is judged by its status below.
    let _ = (&input).write_all(task.to_string().as_bytes());
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`{command}` ended with {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let times = serde_json::from_str(&text);
    times.with_context(|| format!("`{command}` printed {text:?}"))
}

fn graph(graph: &Graph) -> Value {
    let ends = |which: usize| -> Vec<u32> { graph.edges().iter().map(|e| e[which]).collect() };
    json!({"num_nodes": graph.num_nodes(), "edge_index": [ends(0), ends(1)]})
}

fn task(work: &Work) -> Option<Value> {
    match work {
        Work::Forward(config) => match config.as_ref() {
            ModelConfig::Gps(config) => gps(config),
            ModelConfig::Digraph(config) => digraph(config),
            _ => None,
        },
        Work::Encode(EncodingRecipe::Rwse(rwse)) => {
            Some(json!({"task": "rwse", "size": rwse.times.len()}))
        }
        Work::Encode(EncodingRecipe::LapPe(lap_pe)) => {
            Some(json!({"task": "lap_pe", "size": lap_pe.frequencies}))
        }
        Work::Encode(EncodingRecipe::Magnetic(magnetic)) => magnetic_task(magnetic),
        Work::Encode(_) => None,
    }
}

/// What the authors' routine takes.
fn magnetic_task(magnetic: &Magnetic) -> Option<Value> {
    Some(json!({
        "task": "magnetic",
        "size": magnetic.k,
        "q": magnetic.q.value(),
        "q_absolute": matches!(magnetic.q, Potential::Absolute(_)),
        "symmetric_norm": magnetic.symmetric_norm,
    }))
}

/// A transformer of sorting networks.
fn digraph(config: &DigraphConfig) -> Option<Value> {
    let DigraphEncoderConfig::Transformer(encoder) = &config.encoder else {
        return None;
    };
    let DirectedPositionalConfig::Magnetic { eigenvectors, .. } = config.positional.as_ref()?
    else {
        return None;
    };
    let mut task = magnetic_task(eigenvectors)?;
    for (key, value) in [
        ("task", json!("digraph")),
        ("layers", json!(encoder.layers)),
        ("channels", json!(config.hidden_dim)),
        ("heads", json!(encoder.heads)),
    ] {
        task[key] = value;
    }
    Some(task)
}

fn gps(config: &GpsConfig) -> Option<Value> {
    let conv = match config.local.as_ref()? {
        MessagePassingConfig::Gine { .. } => "gine",
        MessagePassingConfig::GatedGcn { .. } => "gated",
        _ => return None,
    };
    let (attention, heads) = match config.attention.as_ref()? {
        AttentionConfig::Softmax {
            heads,
            use_bias: true,
        } => ("multihead", heads),
        AttentionConfig::Performer { heads, .. } => ("performer", heads),
        _ => return None,
    };
    Some(json!({
        "task": "gps",
        "layers": config.layers,
        "channels": config.hidden_dim,
        "heads": heads,
        "conv": conv,
        "attention": attention,
    }))
}
