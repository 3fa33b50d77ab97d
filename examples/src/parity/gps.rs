//! Recorded cases of GraphGPS and of the families that share its code: plain message passing
//! networks, SAN, Graphormer, and the rotary fork's models and plain transformer.

use anyhow::{Context, Result, bail};
use candle_core::DType;
use candle_graph::encodings::EncodingRecipe;
use candle_graph::graph::Graph;
use candle_graph::nn::{AttentionConfig, BigBirdLayout, MessagePassingConfig};
use candle_graph_models::ModelConfig;
use candle_graph_weights::{Checkpoint, CheckpointConfig};

use super::activations::{Activations, Rows, predictor};
use super::case::Recorded;
use super::compare::{Difference, PREDICTION, Report, difference_and_rounding};
use super::gps_encodings::{compare_encodings, recorded_encodings};

/// Suffix of recordings in which an upstream error was put right.
const CORRECTED: [&str; 2] = ["_self_term_fixed", "_edges_renumbered"];

/// Runs one case.
pub(super) fn run(case: &super::Case<'_>, name: String) -> Result<Report> {
    let checkpoint = as_recorded(&case.converted.checkpoint)?;
    let model = &checkpoint.config().model;
    let exact = predictor(&checkpoint, DType::F64)?;
    let predictor = predictor(&checkpoint, DType::F32)?;
    let plan = predictor.model().encoding_plan().clone();
    let recorded = recorded_encodings(case.folder, &case.graphs, &plan)?;
    let computed = plan.compute_all(&case.graphs, 0)?;

    let compared = Compared {
        outputs: &case.outputs,
        graphs: &case.graphs,
        trust: Trust::of(model, &case.outputs),
        tokens: case.outputs.names().any(|name| name == "batch_with_token"),
        tolerance: case.tolerance,
    };
    let exact = Activations::of(&exact, &case.graphs, &recorded)?;
    let mut sets = vec![("recorded encodings", &recorded)];
    // Sign and basis of eigenvectors are free, and most models react to them.
    if !plan.recipes().iter().any(is_eigenvectors) {
        sets.push(("computed encodings", &computed));
    }
    let mut runs = Vec::new();
    for (run, encodings) in sets {
        let ours = Activations::of(&predictor, &case.graphs, encodings)?;
        runs.push((run, compared.compare(&ours, &exact)?));
    }
    Ok(Report {
        case: name,
        has_encodings: !plan.is_empty(),
        encodings: compare_encodings(&case.graphs, &plan, &computed, &recorded)?,
        runs,
        not_comparable: compared.not_comparable(),
    })
}

/// The checkpoint with BigBird's blocks laid out for the batch: the recording depends on the length
/// that the official code pads a batch to, which is not the default here.
fn as_recorded(checkpoint: &Checkpoint) -> Result<Checkpoint> {
    let CheckpointConfig {
        mut model,
        training,
        ..
    } = checkpoint.config().clone();
    if let ModelConfig::Gps(config) = &mut model
        && let Some(AttentionConfig::BigBird { layout, .. }) = &mut config.attention
    {
        *layout = BigBirdLayout::Batch;
    }
    let config = CheckpointConfig::new(model, training)?;
    Ok(Checkpoint::new(config, checkpoint.weights().clone()))
}

/// Whether the encoding is a set of eigenvectors.
fn is_eigenvectors(recipe: &EncodingRecipe) -> bool {
    matches!(
        recipe,
        EncodingRecipe::LapPe(_) | EncodingRecipe::SignNet(_)
    )
}

/// Which part of a recording is the mathematics that was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// All of it.
    All,
    /// Padding enters the result of every graph but the largest (linear attention): rows of the largest
    /// graph, everything before the first attention, and the prediction without batching.
    LargestGraph,
    /// The self term of GINE is wrong (EquivStable): what does not depend on it, and the corrected
    /// prediction.
    BeforeLocal,
}

impl Trust {
    fn of(model: &ModelConfig, outputs: &Recorded) -> Self {
        let (local, attention) = match model {
            ModelConfig::Gps(config) => (config.local.as_ref(), config.attention.as_ref()),
            ModelConfig::Transformer(config) => (None, Some(&config.attention)),
            _ => return Self::All,
        };
        let has = |name: &str| outputs.names().any(|recorded| recorded == name);
        let linear = matches!(
            attention,
            Some(AttentionConfig::Performer { .. } | AttentionConfig::Linear { .. })
        );
        if linear {
            Self::LargestGraph
        } else if has("pred_self_term_fixed")
            && matches!(local, Some(MessagePassingConfig::Gine { .. }))
        {
            Self::BeforeLocal
        } else {
            Self::All
        }
    }

    /// Whether the recorded activation is right for all graphs.
    fn is_whole(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::LargestGraph => {
                name.ends_with("_after_encoder")
                    || name == "layer_0_local_raw"
                    || name == PREDICTION
            }
            // GINE leaves the edge states alone.
            Self::BeforeLocal => {
                name.starts_with("edge_")
                    || name.ends_with("_after_encoder")
                    || name.starts_with("layer_0_attn")
                    || name == "pe_EquivStableLapPE"
                    || name == PREDICTION
            }
        }
    }
}

/// What a run is compared with.
struct Compared<'a> {
    outputs: &'a Recorded,
    graphs: &'a [Graph],
    trust: Trust,
    /// Whether every graph has a graph token before its nodes.
    tokens: bool,
    tolerance: f64,
}

impl Compared<'_> {
    /// The recorded tensor that is right for `name`.
    fn source(&self, name: &str) -> String {
        let has = |wanted: &str| self.outputs.names().any(|recorded| recorded == wanted);
        let corrected = CORRECTED.iter().map(|suffix| format!("{name}{suffix}"));
        let unbatched = (name == PREDICTION && self.trust == Trust::LargestGraph)
            .then(|| "pred_unbatched".to_string());
        corrected
            .chain(unbatched)
            .find(|wanted| has(wanted))
            .unwrap_or(name.to_string())
    }

    /// Recorded activations that have no right value for any row.
    fn not_comparable(&self) -> Vec<String> {
        let names = self.outputs.names().filter(|name| our_name(name).is_some());
        let wrong =
            names.filter(|name| self.trust == Trust::BeforeLocal && !self.trust.is_whole(name));
        wrong.map(str::to_string).collect()
    }

    fn compare(&self, ours: &Activations, exact: &Activations) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for name in self.outputs.names() {
            let Some((our_name, rows)) = our_name(name) else {
                continue;
            };
            let whole = self.trust.is_whole(name);
            if !whole && self.trust == Trust::BeforeLocal {
                continue;
            }
            let source = self.source(name);
            let context = || format!("{source}, recorded as {:?}", self.outputs.shape(&source));
            let recorded = self.recorded(&source, rows).with_context(context)?;
            let values = |activations: &Activations| -> Result<Vec<f32>> {
                let rows = activations.rows(&our_name, rows)?;
                self.pick(rows, name, whole)
            };
            let (values_here, recorded) = (values(ours)?, self.pick(recorded, name, whole)?);
            let exact = || values(exact);
            let found =
                difference_and_rounding(name, &values_here, &recorded, self.tolerance, exact)
                    .with_context(context)?;
            differences.push(found);
        }
        Ok(differences)
    }

    /// Nodes of every graph, graph tokens included.
    fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        let token = usize::from(self.tokens);
        self.graphs.iter().map(move |g| g.num_nodes() + token)
    }

    /// The rows of the recorded tensor `name`, without padding.
    fn recorded(&self, name: &str, rows: Rows) -> Result<Vec<Vec<f32>>> {
        let values = self.outputs.values(name)?;
        let shape = self.outputs.shape(name)?;
        match rows {
            // Code sequences are recorded by position, [positions, graphs, vocabulary].
            Rows::Same | Rows::Edges if name.starts_with(PREDICTION) && shape.len() == 3 => {
                let &[positions, graphs, vocabulary] = shape.as_slice() else {
                    bail!("it is not [positions, graphs, vocabulary]");
                };
                let of_position = |graph: usize, position: usize| {
                    let start = (position * graphs + graph) * vocabulary;
                    values[start..start + vocabulary].iter().copied()
                };
                let row = |graph| (0..positions).flat_map(move |p| of_position(graph, p));
                Ok((0..graphs).map(|graph| row(graph).collect()).collect())
            }
            Rows::Same | Rows::Edges => {
                let width = shape.iter().skip(1).product::<usize>().max(1);
                Ok(values.chunks_exact(width).map(<[f32]>::to_vec).collect())
            }
            Rows::PaddedNodes => {
                let &[_, most, width] = shape.as_slice() else {
                    bail!("it is not [graphs, nodes, width]");
                };
                let graphs = values.chunks_exact(most * width).zip(self.lengths());
                Ok(graphs
                    .flat_map(|(graph, n)| graph.chunks_exact(width).take(n).map(<[f32]>::to_vec))
                    .collect())
            }
            Rows::PaddedPairs => {
                let &[_, heads, most, _] = shape.as_slice() else {
                    bail!("it is not [graphs, heads, queries, keys]");
                };
                let mut pairs = Vec::new();
                for (graph, n) in values.chunks_exact(heads * most * most).zip(self.lengths()) {
                    // Our pairs are sorted by target, which is the query.
                    for query in 0..n {
                        for key in 0..n {
                            let of_head = |head| graph[(head * most + query) * most + key];
                            pairs.push((0..heads).map(of_head).collect());
                        }
                    }
                }
                Ok(pairs)
            }
        }
    }

    /// All values of `rows`, or those of the largest graph.
    fn pick(&self, rows: Vec<Vec<f32>>, name: &str, whole: bool) -> Result<Vec<f32>> {
        if whole {
            return Ok(rows.concat());
        }
        let largest = self.lengths().max().unwrap_or(0);
        let lengths: Vec<usize> = match name {
            _ if name.starts_with("edge_") => self.graphs.iter().map(Graph::num_edges).collect(),
            _ if name.starts_with("pooled") => vec![1; self.graphs.len()],
            _ => self.lengths().collect(),
        };
        let mut rows = rows.into_iter();
        let mut kept = Vec::new();
        for (count, nodes) in lengths.into_iter().zip(self.lengths()) {
            let block = rows.by_ref().take(count);
            match nodes == largest {
                true => kept.extend(block.flatten()),
                false => drop(block.count()),
            }
        }
        Ok(kept)
    }
}

/// Our name of a recorded activation and what its rows are; `None` for entries that are no
/// activation of the f32 batch.
fn our_name(recorded: &str) -> Option<(String, Rows)> {
    let side = ["_f64", "_unbatched"].iter().any(|s| recorded.ends_with(s))
        || CORRECTED.iter().any(|s| recorded.contains(s))
        || recorded.contains("_edge_norm_on_edges")
        // What the released attention makes of its inverted padding mask.
        || recorded.contains("_as_released_");
    if side || ["bigbird_rand_attn", "batch_with_token"].contains(&recorded) {
        return None;
    }
    let fixed = match recorded {
        PREDICTION => Some(("prediction", Rows::Same)),
        "pooled_graph_embedding" => Some(("pooled", Rows::Same)),
        "node_after_encoder" => Some(("encoder.node", Rows::Same)),
        "t_after_encoder" => Some(("rotary.coordinates", Rows::Same)),
        "node_after_pre_mp" => Some(("pre_layers", Rows::Same)),
        "edge_after_encoder" => Some(("encoder.edge", Rows::Edges)),
        "pe_EquivStableLapPE" => Some(("encoder.positions", Rows::Same)),
        "attn_bias" => Some(("encoder.bias", Rows::PaddedPairs)),
        "layer_0_local_raw" => Some(("layers.0.local", Rows::Same)),
        "layer_0_attn_raw" => Some(("layers.0.attention", Rows::Same)),
        "layer_0_attn_raw_dense" => Some(("layers.0.attention", Rows::PaddedNodes)),
        _ => None,
    };
    if let Some((name, rows)) = fixed {
        return Some((name.to_string(), rows));
    }
    let layer = |prefix: &str, kind: &str| {
        let index = recorded.strip_prefix(prefix)?;
        Some(format!("layers.{index}.{kind}"))
    };
    if let Some(name) = layer("node_after_layer_", "node") {
        return Some((name, Rows::Same));
    }
    if let Some(name) = layer("edge_after_layer_", "edge") {
        return Some((name, Rows::Edges));
    }
    // An entry that nobody knows must not be passed over: it comes back as it is, and the caller
    // reports that the model does not record it.
    Some((recorded.to_string(), Rows::Same))
}
