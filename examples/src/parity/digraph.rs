//! Recorded cases of "Transformers Meet Directed Graphs". Inputs and outputs are padded there; only
//! the rows of nodes, edges and pairs that exist are read. Weights are taken from
//! `params.safetensors`, and once more from `checkpoint.dill` where it stands beside it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::DType;
use candle_graph::encodings::{
    EncodingArray, EncodingPlan, GraphEncoding, MAGNETIC_EIGENVALUES, MAGNETIC_EIGENVECTORS_IMAG,
    MAGNETIC_EIGENVECTORS_REAL, SVD,
};
use candle_graph::graph::{Features, Graph};
use candle_graph_models::ModelConfig;
use candle_graph_models::digraph::{
    DigraphConfig, DigraphEncoderConfig, DigraphHeadConfig, Readout,
};
use candle_graph_weights::convert::haiku::convert;
use candle_graph_weights::{Checkpoint, CheckpointConfig, Limits};

use super::activations::{Activations, Rows, predictor};
use super::case::Recorded;
use super::compare::{Difference, EncodingDifference, PREDICTION, Report, difference_and_rounding};

/// Largest difference of eigenvalues and probabilities that were recorded in single precision.
const ENCODING_TOLERANCE: f64 = 2e-6;

/// Whether the folder holds such a case.
pub(super) fn is_case(folder: &Path) -> bool {
    folder.join("params.safetensors").is_file()
}

/// Runs the case in `folder`.
pub(super) fn run(folder: &Path, name: String, tolerance: f64) -> Result<Report> {
    let mut runs = Vec::new();
    let mut encodings = Vec::new();
    let files = [
        ("params.safetensors", "flattened weights"),
        ("checkpoint.dill", "pickled weights"),
    ];
    for (file, run) in files {
        let weights = folder.join(file);
        if !weights.is_file() {
            continue;
        }
        let options = folder.join("config.json");
        let converted = convert(&weights, &options, &Limits::default())?;
        let checkpoint = as_recorded(&converted.checkpoint)?;
        let ModelConfig::Digraph(config) = &checkpoint.config().model else {
            bail!("the options are not those of a directed graph model");
        };
        let inputs = Recorded::read(&folder.join("inputs.safetensors"))?;
        let case = Case {
            padded: Padded::read(&inputs)?,
            graphs: graphs(&inputs, config)?,
            inputs,
            outputs: Recorded::read(&folder.join("outputs.safetensors"))?,
            config: config.clone(),
            tolerance,
        };
        let (found, differences) = case.run(&checkpoint)?;
        runs.push((run, differences));
        encodings = found;
    }
    Ok(Report {
        case: name,
        has_encodings: !encodings.is_empty(),
        encodings,
        runs,
        not_comparable: Vec::new(),
    })
}

/// The checkpoint with MagNet's Laplacians scaled as in the recording: by the largest eigenvalue of
/// the batch, which is not the default here.
fn as_recorded(checkpoint: &Checkpoint) -> Result<Checkpoint> {
    let CheckpointConfig {
        mut model,
        training,
        ..
    } = checkpoint.config().clone();
    if let ModelConfig::Digraph(config) = &mut model
        && let DigraphEncoderConfig::MagNet(magnet) = &mut config.encoder
    {
        magnet.eigenvalue_of_batch = true;
    }
    let config = CheckpointConfig::new(model, training)?;
    Ok(Checkpoint::new(config, checkpoint.weights().clone()))
}

/// Sizes of the recorded batch.
struct Padded {
    /// Nodes and edges of every graph.
    sizes: Vec<[usize; 2]>,
    /// Nodes that every graph is padded to.
    nodes: usize,
}

impl Padded {
    fn read(inputs: &Recorded) -> Result<Self> {
        // The second column is the padding.
        let counts = |name: &str| -> Result<Vec<usize>> {
            let values = inputs.values(name)?;
            let counts = values.chunks_exact(2).map(|pair| pair[0] as usize);
            Ok(counts.collect())
        };
        let (nodes, edges) = (counts("n_node")?, counts("n_edge")?);
        let padding = inputs.values("n_node")?;
        Ok(Self {
            nodes: padding.iter().take(2).sum::<f32>() as usize,
            sizes: nodes.into_iter().zip(edges).map(|(n, m)| [n, m]).collect(),
        })
    }
}

/// The rows of `name`, `[graphs, rows, …]`, that belong to graph `at`, which has `count` of them.
fn rows_of(recorded: &Recorded, name: &str, at: usize, count: usize) -> Result<Vec<Vec<f32>>> {
    let (values, shape) = (recorded.values(name)?, recorded.shape(name)?);
    let &[_, rows, ref rest @ ..] = shape.as_slice() else {
        bail!("`{name}` is not [graphs, rows, …]");
    };
    let width = rest.iter().product::<usize>();
    let graph = values.chunks_exact((rows * width).max(1)).nth(at);
    let graph = graph.with_context(|| format!("`{name}` has too few graphs"))?;
    let found = graph.chunks_exact(width.max(1)).take(count);
    Ok(found.map(<[f32]>::to_vec).collect())
}

/// The graphs of the batch.
fn graphs(inputs: &Recorded, config: &DigraphConfig) -> Result<Vec<Graph>> {
    let has = |wanted: &str| inputs.names().any(|name| name == wanted);
    let padded = Padded::read(inputs)?;
    let graphs = padded.sizes.iter().enumerate();
    let graph = |(at, &[nodes, edges]): (usize, &[usize; 2])| -> Result<Graph> {
        let columns = |names: &[&str], count: usize| -> Result<Option<Features>> {
            let mut table = vec![Vec::new(); count];
            for name in names.iter().filter(|name| has(name)) {
                for (row, found) in table.iter_mut().zip(rows_of(inputs, name, at, count)?) {
                    row.extend(found);
                }
            }
            let width = table.first().map_or(0, Vec::len);
            Ok((width > 0).then(|| Features::float(width, table.concat())))
        };
        let ends = |name: &str| -> Result<Vec<i64>> {
            let rows = rows_of(inputs, name, at, edges)?;
            Ok(rows.concat().into_iter().map(|node| node as i64).collect())
        };
        let all = (0..nodes as i64).flat_map(|s| (0..nodes as i64).map(move |t| [s, t]));
        let builder = Graph::builder(nodes)
            .edge_index(&ends("senders")?, &ends("receivers")?)
            .node_features(columns(&["nodes.node_feat", "nodes.node_depth"], nodes)?)
            .edge_features(
                columns(&["edges.edge_type", "edges.edge_name"], edges)?.map_or_else(
                    || match inputs.shape("edges") {
                        Ok(shape) if shape.len() == 3 => columns(&["edges"], edges),
                        _ => Ok(None),
                    },
                    |features| Ok(Some(features)),
                )?,
            );
        Ok(match config.head {
            DigraphHeadConfig::Pairs { .. } => builder.edge_label_index(all),
            _ => builder,
        }
        .build()?)
    };
    graphs.map(graph).collect()
}

/// One set of weights with the recorded batch.
struct Case {
    padded: Padded,
    graphs: Vec<Graph>,
    inputs: Recorded,
    outputs: Recorded,
    config: DigraphConfig,
    tolerance: f64,
}

impl Case {
    fn run(&self, checkpoint: &Checkpoint) -> Result<(Vec<EncodingDifference>, Vec<Difference>)> {
        let exact = predictor(checkpoint, DType::F64)?;
        let predictor = predictor(checkpoint, DType::F32)?;
        let plan = predictor.model().encoding_plan().clone();
        let computed = plan.compute_all(&self.graphs, 0)?;
        let (recorded, differences) = self.encodings(&plan, &computed)?;
        let ours = Activations::of(&predictor, &self.graphs, &recorded)?;
        let exact = Activations::of(&exact, &self.graphs, &recorded)?;
        Ok((differences, self.compare(&ours, &exact)?))
    }

    /// The encodings with recorded values where there are any, and how far the computed ones are
    /// from those of them that do not depend on signs and phases.
    fn encodings(
        &self,
        plan: &EncodingPlan,
        computed: &[GraphEncoding],
    ) -> Result<(Vec<GraphEncoding>, Vec<EncodingDifference>)> {
        let has = |wanted: &str| self.inputs.names().any(|name| name == wanted);
        let mut found = computed.to_vec();
        let mut differences = Vec::new();
        for (name, _, width) in plan.arrays() {
            let mut worst = 0.0f64;
            let source = match name {
                MAGNETIC_EIGENVALUES => "nodes.eigenvalues",
                MAGNETIC_EIGENVECTORS_REAL if has("nodes.eigenvectors") => "nodes.eigenvectors",
                MAGNETIC_EIGENVECTORS_REAL => "nodes.eigenvectors_real",
                MAGNETIC_EIGENVECTORS_IMAG => "nodes.eigenvectors_imag",
                SVD => "svd_encoding",
                _ => continue,
            };
            for (at, encoding) in found.iter_mut().enumerate() {
                let [nodes, _] = self.padded.sizes[at];
                let values = match name {
                    MAGNETIC_EIGENVALUES => {
                        let all = self.inputs.values(source)?;
                        let of_graph = all.chunks_exact(width).nth(at);
                        of_graph.context("eigenvalues of every graph")?.to_vec()
                    }
                    _ => self.signed(rows_of(&self.inputs, source, at, nodes)?, at)?,
                };
                let array = encoding.arrays.iter_mut().find(|array| array.name == name);
                let EncodingArray { data, .. } = array.context("a computed array")?;
                if name == MAGNETIC_EIGENVALUES {
                    let distance = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
                    worst = data.iter().zip(&values).map(distance).fold(worst, f64::max);
                }
                *data = values;
            }
            if name == MAGNETIC_EIGENVALUES {
                differences.push(EncodingDifference {
                    name: name.to_string(),
                    difference: worst,
                    tolerance: ENCODING_TOLERANCE,
                });
            }
        }
        Ok((found, differences))
    }

    /// Rows of eigenvectors with the signs that the official code drew for graph `at`, if it did.
    fn signed(&self, mut rows: Vec<Vec<f32>>, at: usize) -> Result<Vec<f32>> {
        if self.inputs.names().any(|name| name == "rand_sign") {
            let signs = self.inputs.values("rand_sign")?;
            let width = rows.first().map_or(0, Vec::len);
            let signs = signs.chunks_exact(width.max(1)).nth(at);
            let signs = signs.context("signs of every graph")?;
            for row in &mut rows {
                row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
            }
        }
        Ok(rows.concat())
    }

    fn compare(&self, ours: &Activations, exact: &Activations) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for recorded in self.outputs.names() {
            let Some((name, part)) = our_name(recorded) else {
                continue;
            };
            let values = |activations: &Activations| -> Result<Vec<f32>> {
                let rows = activations.rows(&name, Rows::Same)?;
                Ok(self.ordered(rows, part).concat())
            };
            let theirs = self.recorded(recorded, part)?;
            let difference_name = match name.as_str() {
                "prediction" => PREDICTION,
                _ => recorded,
            };
            let ours = values(ours)?;
            let exact = || values(exact);
            let found =
                difference_and_rounding(difference_name, &ours, &theirs, self.tolerance, exact)
                    .with_context(|| format!("{recorded} {:?}", self.outputs.shape(recorded)))?;
            differences.push(found);
        }
        Ok(differences)
    }

    /// Rows of one graph after the other, tokens behind their nodes as in the recording, without
    /// tokens where only nodes were recorded.
    fn ordered(&self, rows: Vec<Vec<f32>>, part: Part) -> Vec<Vec<f32>> {
        let nodes: usize = self.padded.sizes.iter().map(|[nodes, _]| nodes).sum();
        let with_tokens = rows.len() == nodes + self.graphs.len();
        if !matches!(part, Part::Nodes | Part::NodesAndTokens) || !with_tokens {
            return rows;
        }
        let mut rows = rows.into_iter();
        let mut ordered = Vec::new();
        for [nodes, _] in &self.padded.sizes {
            let token = rows.next();
            ordered.extend(rows.by_ref().take(*nodes));
            if part == Part::NodesAndTokens {
                ordered.extend(token);
            }
        }
        ordered
    }

    /// The recorded rows that exist.
    fn recorded(&self, name: &str, part: Part) -> Result<Vec<f32>> {
        let token = usize::from(self.config.readout == Readout::Token);
        let mut found = Vec::new();
        for (at, &[nodes, _]) in self.padded.sizes.iter().enumerate() {
            let rows = match part {
                Part::Graphs => {
                    let all = self.outputs.values(name)?;
                    let width = all.len() / self.graphs.len().max(1);
                    vec![all.chunks_exact(width).nth(at).context("a row")?.to_vec()]
                }
                Part::Nodes => rows_of(&self.outputs, name, at, nodes)?,
                Part::NodesAndTokens => rows_of(&self.outputs, name, at, nodes + token)?,
                Part::Prediction => match self.config.head {
                    DigraphHeadConfig::Graph { .. } => {
                        return self.recorded(name, Part::Graphs);
                    }
                    _ => {
                        let rows = rows_of(&self.outputs, name, at, nodes)?;
                        let of_targets = |row: Vec<f32>| -> Vec<f32> {
                            let width = row.len() / self.padded.nodes;
                            row[..nodes * width].to_vec()
                        };
                        rows.into_iter().map(of_targets).collect()
                    }
                },
            };
            found.extend(rows.concat());
        }
        Ok(found)
    }
}

/// What the rows of a recorded tensor stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Graphs,
    Nodes,
    NodesAndTokens,
    /// Graphs, or pairs.
    Prediction,
}

/// Our name of a recorded activation and what its rows are; `None` for what follows from others
/// (the loss, distances before softplus) and for parts of layers that record their results only.
fn our_name(recorded: &str) -> Option<(String, Part)> {
    const MODEL: &str = "structure_aware_transformer";
    let fixed = match recorded {
        "loss" | "output_raw" => return None,
        "output" => ("prediction", Part::Prediction),
        "distance_encoder#0"
        | "sorting_network_encoder#0"
        | "data_flow_ast_encoder#0"
        | "ast_node_encoder#0" => ("encoder.node", Part::Nodes),
        _ => ("", Part::Graphs),
    };
    if !fixed.0.is_empty() {
        return Some((fixed.0.to_string(), fixed.1));
    }
    let rest = recorded.strip_prefix(MODEL).unwrap_or(recorded);
    let fixed = match rest {
        ".positional_encodings#0" => ("positional", Part::Nodes),
        "/~/mag_lap_net#0" | "/~/mag_lap_net#0.re" => ("positional.network", Part::Nodes),
        ".positional_encodings.relative#0.re" => ("positional.network", Part::NodesAndTokens),
        "/~/mag_lap_net#0.im" => ("positional.network_imaginary", Part::Nodes),
        ".positional_encodings.relative#0.im" => {
            ("positional.network_imaginary", Part::NodesAndTokens)
        }
        "/~/graph_transformer_encoder#0" | "/~/gnn#0" | "/~/mag_net#0" => {
            ("encoder", Part::NodesAndTokens)
        }
        ".readout#0" => ("pooled", Part::Graphs),
        "/adj_mlp#0" | ".positional_encodings.relative#0" => return None,
        _ if rest.starts_with("/~/mag_lap_net/") => return None,
        _ => ("", Part::Graphs),
    };
    if !fixed.0.is_empty() {
        return Some((fixed.0.to_string(), fixed.1));
    }
    let layer = rest.strip_prefix("/~/transformer_encoder_layer")?;
    // Layer 0 has no number.
    let (index, kind) = match layer.strip_prefix('_') {
        Some(numbered) => {
            let end = numbered.find(|c: char| !c.is_ascii_digit())?;
            numbered.split_at(end)
        }
        None => ("0", layer),
    };
    let kind = match kind {
        "#0" | "/layer_norm_1#0" => "node",
        "/layer_norm#0" => "norm_attention",
        "/~/multi_head_attention#0" => "attention",
        "/~/gnn#0" => "structure",
        "/~/gnn/layer_norm#0" => return None,
        // An entry that nobody knows must not be passed over: the model will not record it.
        other => other,
    };
    Some((format!("layers.{index}.{kind}"), Part::NodesAndTokens))
}
