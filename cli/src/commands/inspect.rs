//! `inspect`: what a checkpoint is.

use std::fmt::{self, Write};
use std::path::Path;

use candle_core::{DType, Device};
use candle_graph::encodings::{EigenvectorScale, EncodingPlan, EncodingRecipe, Level, Rotational};
use candle_graph::graph::InputSchema;
use candle_graph_models::{ModelConfig, PredictionLevel};
use candle_graph_weights::checkpoint::{CONFIG_FILE, Training, WEIGHTS_FILE};
use candle_graph_weights::{Checkpoint, CheckpointConfig, Limits, sharded};
use serde::Serialize;

use crate::args::InspectArgs;
use crate::console;
use crate::model_folder;

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<()> {
    let folder = model_folder::find(&args.model.model)?;
    let limits = Limits::default();
    // A configuration without weights (`convert` without a checkpoint) can be told about as well.
    let (checkpoint, config) = match has_weights(&folder) {
        true => {
            let checkpoint = Checkpoint::read(&folder, &limits)?;
            // Building is the proof that the checkpoint is complete.
            checkpoint.build(&Device::Cpu, DType::F32, &limits)?;
            let config = checkpoint.config().clone();
            (Some(checkpoint), config)
        }
        false => (None, CheckpointConfig::read(&folder.join(CONFIG_FILE))?),
    };
    let model = &config.model;
    let tensors = || {
        let weights = checkpoint.as_ref().map(Checkpoint::weights)?;
        let tensors = weights.iter().map(|(name, tensor)| Tensor {
            name,
            dtype: format!("{:?}", tensor.element()).to_lowercase(),
            shape: tensor.shape(),
        });
        Some(tensors.collect())
    };
    let report = Report {
        folder: folder.display().to_string(),
        config: model,
        training: &config.training,
        parameters: checkpoint.as_ref().map(Checkpoint::num_parameters),
        bytes_on_disk: bytes_on_disk(&folder),
        features: &config.features,
        encodings: &config.encodings,
        prediction: Prediction {
            level: model.prediction_level(),
            width: model.output_dim(),
        },
        embedding_width: model.embedding_dim(),
        tensors: args.tensors.then(tensors).flatten(),
    };
    if args.json {
        console::print(&format!("{}\n", serde_json::to_string_pretty(&report)?))
    } else {
        console::print(&report.to_string())
    }
}

/// Whether the folder holds weights, whole or in shards. A folder without a configuration counts too:
/// reading it says best what is missing.
fn has_weights(folder: &Path) -> bool {
    let has = |name| folder.join(name).exists();
    has(WEIGHTS_FILE) || has(sharded::INDEX_FILE) || !has(CONFIG_FILE)
}

/// Everything that is told, as the JSON object has it.
#[derive(Serialize)]
struct Report<'a> {
    folder: String,
    /// `model_type` and `model`.
    #[serde(flatten)]
    config: &'a ModelConfig,
    training: &'a Training,
    /// Values that training changes; unknown without weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<u64>,
    bytes_on_disk: u64,
    features: &'a InputSchema,
    encodings: &'a EncodingPlan,
    prediction: Prediction,
    embedding_width: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Tensor<'a>>>,
}

#[derive(Serialize)]
struct Prediction {
    level: PredictionLevel,
    width: usize,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    dtype: String,
    shape: &'a [usize],
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &str| writeln!(f, "{name:<16}{value}");
        row("model", self.config.model_type())?;
        row("folder", &self.folder)?;
        if let Some(dataset) = &self.training.dataset {
            row("trained on", dataset)?;
        }
        if let Some(task) = &self.training.task {
            row("task", task)?;
        }
        match self.parameters {
            Some(parameters) => row("parameters", &parameters.to_string())?,
            None => row("weights", "none; this is a configuration alone")?,
        }
        row("on disk", &format!("{} bytes", self.bytes_on_disk))?;
        row("node features", &self.features.node.describe())?;
        row("edge features", &self.features.edge.describe())?;
        for (at, recipe) in self.encodings.recipes().iter().enumerate() {
            let name = if at == 0 { "encodings" } else { "" };
            row(name, &describe(recipe))?;
        }
        let unit = match self.prediction.level {
            PredictionLevel::Graph => "graph",
            PredictionLevel::Node => "node",
            PredictionLevel::Edge => "node pair of `edge_label_index`",
        };
        row(
            "prediction",
            &format!("{} value(s) a {unit}", self.prediction.width),
        )?;
        row(
            "embedding",
            &format!("{} values a node or graph", self.embedding_width),
        )?;
        if let Some(tensors) = &self.tensors {
            writeln!(f, "\ntensors ({})", tensors.len())?;
            for Tensor { name, dtype, shape } in tensors {
                writeln!(f, "  {name}  {dtype} {shape:?}")?;
            }
        }
        Ok(())
    }
}

/// A recipe with its arrays.
fn describe(recipe: &EncodingRecipe) -> String {
    let mut text = match recipe {
        EncodingRecipe::Rrwp(rrwp) => {
            let form = if rrwp.shortest_path {
                ", one-hot of shortest walks"
            } else {
                ""
            };
            format!("RRWP, {} steps{form}", rrwp.steps)
        }
        EncodingRecipe::Rwse(rwse) => {
            let (first, last) = (rwse.times.first(), rwse.times.last());
            format!(
                "RWSE, steps {} to {}",
                first.unwrap_or(&0),
                last.unwrap_or(&0)
            )
        }
        EncodingRecipe::LapPe(lap_pe) | EncodingRecipe::SignNet(lap_pe) => format!(
            "{}, {} frequencies, Laplacian {}, eigenvectors {}",
            match recipe {
                EncodingRecipe::SignNet(_) => "SignNet",
                _ => "LapPE",
            },
            lap_pe.frequencies,
            lap_pe.laplacian_norm,
            lap_pe.eigvec_norm
        ),
        EncodingRecipe::HeatKernel(heat_kernel) => {
            let (first, last) = (heat_kernel.times.first(), heat_kernel.times.last());
            format!(
                "HKdiagSE, times {} to {}",
                first.unwrap_or(&0),
                last.unwrap_or(&0)
            )
        }
        EncodingRecipe::Electrostatic(_) => "ElstaticSE".to_string(),
        EncodingRecipe::Graphormer(graphormer) => {
            let bias = match (graphormer.degrees_only, graphormer.edge_types) {
                (true, _) => "degrees only".to_string(),
                (false, false) => format!("{} distances", graphormer.spatial_types),
                (false, true) => format!("{} distances, edge types", graphormer.spatial_types),
            };
            format!(
                "Graphormer, in-degrees below {}, out-degrees below {}, {bias}",
                graphormer.in_degrees, graphormer.out_degrees
            )
        }
        EncodingRecipe::Rotational(rotational) => {
            format!("coordinates, {}", coordinates(rotational))
        }
        EncodingRecipe::Magnetic(magnetic) => {
            let normalised = if magnetic.symmetric_norm {
                "sym"
            } else {
                "none"
            };
            format!(
                "Magnetic Laplacian {normalised}, {}, {} eigenvectors",
                magnetic.q, magnetic.k
            )
        }
        EncodingRecipe::DirectedWalk(walk) => {
            let restart = walk
                .restart
                .map(|p| format!(", PageRank restarting at {p}"));
            let reverse = if walk.also_reverse { ", both ways" } else { "" };
            format!(
                "directed walks, {} steps{}{reverse}",
                walk.steps,
                restart.unwrap_or_default()
            )
        }
        EncodingRecipe::Svd(svd) => format!("singular vectors, rank {}", svd.rank),
        EncodingRecipe::MagNet(magnet) => format!("Magnetic Laplacian in full, {}", magnet.q),
        _ => "another encoding".to_string(),
    };
    for (at, (name, level, width)) in recipe.arrays().iter().enumerate() {
        let separator = if at == 0 { ": " } else { ", " };
        // Writing to a String cannot fail.
        let rows = match level {
            Level::Graph => "graphs",
            Level::Node => "nodes",
            Level::Pair => "pairs",
        };
        let _ = write!(text, "{separator}{name} [{rows}, {width}]");
    }
    text
}

/// Bytes of the files of the folder itself.
fn bytes_on_disk(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .filter(std::fs::Metadata::is_file)
        .map(|data| data.len())
        .sum()
}

/// What rotates queries and keys. Graphs may always bring their own.
fn coordinates(rotational: &Rotational) -> String {
    match rotational {
        Rotational::Given { dim } => format!("{dim} given as `t` of every graph"),
        Rotational::Eigenvectors {
            count,
            trivial,
            laplacian_norm,
            scale,
        } => {
            let which = match trivial {
                true => "the constant one included",
                false => "the constant one left out",
            };
            let scale = match scale {
                EigenvectorScale::EffectiveResistance => ", by effective resistance",
                _ => "",
            };
            format!("{count} eigenvectors, {which}, Laplacian {laplacian_norm}{scale}")
        }
        Rotational::RandomWalk(rwse) => format!("{} steps of random walks", rwse.times.len()),
        Rotational::Wave(wave) => format!("heat kernels at {} scales", wave.scales.len()),
        _ => "of another kind".to_string(),
    }
}
