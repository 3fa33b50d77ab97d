//! Recorded cases of GRIT.

use std::path::Path;

use anyhow::{Context, Result};
use candle_core::DType;
use candle_graph::encodings::{
    EncodingArray, EncodingPlan, GraphEncoding, Level, RRWP_NODE, RRWP_PAIR,
};
use candle_graph::graph::Graph;

use super::activations::{Activations, predictor};
use super::case::{Recorded, pair_rows};
use super::compare::{Difference, EncodingDifference, Report, difference, difference_and_rounding};

/// Largest absolute difference of a random walk encoding.
const ENCODING_TOLERANCE: f64 = 1e-6;

/// Runs one case.
pub(super) fn run(case: &super::Case<'_>, name: String) -> Result<Report> {
    let checkpoint = &case.converted.checkpoint;
    let exact = predictor(checkpoint, DType::F64)?;
    let predictor = predictor(checkpoint, DType::F32)?;
    let plan = predictor.model().encoding_plan().clone();

    let graphs = &case.graphs;
    let recorded = recorded_encodings(case.folder, graphs, &plan)?;
    let computed = plan.compute_all(graphs, 0)?;
    let pairs = Pairs {
        outputs: &case.outputs,
        rows: pair_rows(&case.outputs.index_rows("enc.edge_index")?, graphs)?,
        tolerance: case.tolerance,
    };
    let exact = Activations::of(&exact, graphs, &recorded)?;
    let mut runs = Vec::new();
    for (name, encodings) in [
        ("recorded encodings", &recorded),
        ("computed encodings", &computed),
    ] {
        let ours = Activations::of(&predictor, graphs, encodings)?;
        runs.push((name, pairs.compare(&ours, &exact)?));
    }
    let mut encodings = compare_encodings(&computed, &recorded)?;
    encodings.push(compare_log_degrees(case.folder, graphs)?);
    let encodings = encodings.into_iter().map(|found| EncodingDifference {
        name: found.name,
        difference: found.absolute,
        tolerance: ENCODING_TOLERANCE,
    });
    Ok(Report {
        case: name,
        encodings: encodings.collect(),
        has_encodings: true,
        runs,
        not_comparable: Vec::new(),
    })
}

/// The recorded random walks in our layout; pairs that were not recorded are zero.
fn recorded_encodings(
    folder: &Path,
    graphs: &[Graph],
    plan: &EncodingPlan,
) -> Result<Vec<GraphEncoding>> {
    let file = Recorded::read(&folder.join("encodings.safetensors"))?;
    let width = plan
        .arrays()
        .first()
        .map(|&(_, _, width)| width)
        .context("the model needs no encodings")?;
    let node = file.values("rrwp")?;
    let values = file.values("rrwp_val")?;
    let rows = pair_rows(&file.index_rows("rrwp_index")?, graphs)?;
    let pairs: usize = graphs.iter().map(|g| g.num_nodes().pow(2)).sum();
    let mut pair = vec![0.0; pairs * width];
    for (&row, values) in rows.iter().zip(values.chunks_exact(width)) {
        pair[row * width..(row + 1) * width].copy_from_slice(values);
    }
    let (mut node, mut pair) = (node.as_slice(), pair.as_slice());
    let mut next = |level, name: &str, rows: usize| {
        let rest = match level {
            Level::Pair => &mut pair,
            _ => &mut node,
        };
        let (front, back) = rest
            .split_at_checked(rows * width)
            .with_context(|| format!("too few recorded values for {name}"))?;
        *rest = back;
        anyhow::Ok(EncodingArray {
            name: name.to_string(),
            level,
            width,
            data: front.to_vec(),
        })
    };
    graphs
        .iter()
        .map(|graph| {
            let n = graph.num_nodes();
            Ok(GraphEncoding {
                arrays: vec![
                    next(Level::Node, RRWP_NODE, n)?,
                    next(Level::Pair, RRWP_PAIR, n * n)?,
                ],
            })
        })
        .collect()
}

fn compare_encodings(
    computed: &[GraphEncoding],
    recorded: &[GraphEncoding],
) -> Result<Vec<Difference>> {
    let mut differences = Vec::new();
    for (ours, theirs) in computed.iter().zip(recorded) {
        for (a, b) in ours.arrays.iter().zip(&theirs.arrays) {
            differences.push(difference(&b.name, &a.data, &b.data, f64::INFINITY)?);
        }
    }
    Ok(differences)
}

fn compare_log_degrees(folder: &Path, graphs: &[Graph]) -> Result<Difference> {
    let file = Recorded::read(&folder.join("encodings.safetensors"))?;
    let degrees: Vec<u32> = graphs.iter().flat_map(Graph::out_degrees).collect();
    let logs: Vec<f32> = degrees.iter().map(|&d| (d as f32 + 1.0).ln()).collect();
    difference("log_deg", &logs, &file.values("log_deg")?, f64::INFINITY)
}

/// What a run is compared with.
struct Pairs<'a> {
    outputs: &'a Recorded,
    /// Our pair row of every recorded pair.
    rows: Vec<usize>,
    tolerance: f64,
}

impl Pairs<'_> {
    /// The values of one activation in recorded order.
    fn values(&self, activations: &Activations, ours: &str, per_pair: bool) -> Result<Vec<f32>> {
        let tensor = activations.tensor(ours)?;
        let width: usize = tensor.dims().iter().skip(1).product();
        let values = tensor.flatten_all()?.to_vec1::<f32>()?;
        Ok(match per_pair {
            false => values,
            true => self
                .rows
                .iter()
                .flat_map(|&row| values[row * width..(row + 1) * width].iter().copied())
                .collect(),
        })
    }

    fn compare(&self, ours: &Activations, exact: &Activations) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for name in self.outputs.names() {
            let Some((our_name, per_pair)) = our_name(name) else {
                continue;
            };
            let recorded = self.outputs.values(name)?;
            let values = self.values(ours, &our_name, per_pair)?;
            let exact = || self.values(exact, &our_name, per_pair);
            let found = difference_and_rounding(name, &values, &recorded, self.tolerance, exact)
                .with_context(|| format!("recorded shape {:?}", self.outputs.shape(name)))?;
            differences.push(found);
        }
        Ok(differences)
    }
}

/// Our name of a recorded activation, and whether its rows are pairs; `None` for entries that are
/// no activation of the f32 run.
fn our_name(recorded: &str) -> Option<(String, bool)> {
    let fixed = match recorded {
        "enc.edge_index" | "pred_f64" => return None,
        "enc.x" => Some(("encoder.node", false)),
        "enc.edge_attr" => Some(("encoder.pair", true)),
        "pred" => Some(("prediction", false)),
        "pooled" => Some(("pooled", false)),
        _ => None,
    };
    if let Some((name, per_pair)) = fixed {
        return Some((name.to_string(), per_pair));
    }
    let renamed = |from: &str, to: &str| {
        recorded
            .strip_suffix(from)
            .map(|layer| format!("{layer}{to}"))
    };
    let pairs = renamed(".edge_attr", ".pair").or(renamed(".attention.attn", ".attention.weights"));
    match pairs {
        Some(name) => Some((name, true)),
        None => {
            let nodes = renamed(".attention.wV", ".attention.value").or(renamed(".x", ".node"));
            // An entry that nobody knows must not be passed over: it comes back as it is, and the
            // caller reports that the model does not record it.
            Some((nodes.unwrap_or(recorded.to_string()), false))
        }
    }
}
