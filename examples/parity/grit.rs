//! Recorded cases of GRIT.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::{
    EncodingArray, EncodingPlan, GraphEncoding, Level, RRWP_NODE, RRWP_PAIR,
};
use candle_graph::graph::Graph;
use candle_graph_models::{Predictor, Trace};
use candle_graph_weights::Limits;
use candle_graph_weights::convert::graphgym::{GraphGymOptions, convert};

use crate::case::{Recorded, graphs, pair_rows};
use crate::compare::{Difference, Report, difference};

/// Runs one case.
pub(crate) fn run(folder: &Path, tolerance: f64) -> Result<Report> {
    let limits = Limits::default();
    let converted = convert(
        &folder.join("model.ckpt"),
        &folder.join("config.json"),
        &GraphGymOptions::default(),
        &limits,
    )?;
    let predictor = |dtype| -> Result<Predictor> {
        let model = converted.checkpoint.build(&Device::Cpu, dtype, &limits)?;
        Ok(Predictor::new(model, Device::Cpu))
    };
    let (predictor, exact) = (predictor(DType::F32)?, predictor(DType::F64)?);
    let plan = predictor.model().encoding_plan().clone();

    let graphs = graphs(folder)?;
    let recorded = recorded_encodings(folder, &graphs, &plan)?;
    let computed = plan.compute_all(&graphs, 0)?;
    let outputs = Recorded::read(&folder.join("outputs.safetensors"))?;

    let case = Case {
        graphs: &graphs,
        outputs: &outputs,
        pair_rows: pair_rows(&outputs.index_rows("enc.edge_index")?, &graphs)?,
        tolerance,
    };
    let exact = case.activations(&exact, &recorded)?;
    let mut runs = Vec::new();
    for (name, encodings) in [
        ("recorded encodings", &recorded),
        ("computed encodings", &computed),
    ] {
        let ours = case.activations(&predictor, encodings)?;
        runs.push((name, case.compare(&ours, &exact)?));
    }
    let mut encodings = compare_encodings(&computed, &recorded)?;
    encodings.push(compare_log_degrees(folder, &graphs)?);
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    Ok(Report {
        case: name.to_string_lossy().into_owned(),
        encodings,
        runs,
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
struct Case<'a> {
    graphs: &'a [Graph],
    outputs: &'a Recorded,
    /// Our pair row of every recorded pair.
    pair_rows: Vec<usize>,
    tolerance: f64,
}

impl Case<'_> {
    /// All activations that the model records, in f32.
    fn activations(
        &self,
        predictor: &Predictor,
        encodings: &[GraphEncoding],
    ) -> Result<BTreeMap<String, Tensor>> {
        let batch = predictor.batch(self.graphs, encodings, 0)?;
        let mut trace = Trace::on();
        predictor.model().forward_traced(&batch, &mut trace)?;
        trace
            .into_activations()
            .into_iter()
            .map(|(name, tensor)| Ok((name, tensor.to_dtype(DType::F32)?)))
            .collect()
    }

    /// The values of one activation in recorded order.
    fn values(
        &self,
        activations: &BTreeMap<String, Tensor>,
        ours: &str,
        per_pair: bool,
    ) -> Result<Vec<f32>> {
        let tensor = activations
            .get(ours)
            .with_context(|| format!("the model records no `{ours}`"))?;
        let width: usize = tensor.dims().iter().skip(1).product();
        let values = tensor.flatten_all()?.to_vec1::<f32>()?;
        Ok(match per_pair {
            false => values,
            true => self
                .pair_rows
                .iter()
                .flat_map(|&row| values[row * width..(row + 1) * width].iter().copied())
                .collect(),
        })
    }

    fn compare(
        &self,
        ours: &BTreeMap<String, Tensor>,
        exact: &BTreeMap<String, Tensor>,
    ) -> Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for name in self.outputs.names() {
            let Some((our_name, per_pair)) = our_name(name) else {
                continue;
            };
            let recorded = self.outputs.values(name)?;
            let values = self.values(ours, &our_name, per_pair)?;
            let mut found = difference(name, &values, &recorded, self.tolerance)
                .with_context(|| format!("recorded shape {:?}", self.outputs.shape(name)))?;
            if found.over > 0 {
                let exact = self.values(exact, &our_name, per_pair)?;
                let rounding = difference(name, &recorded, &exact, self.tolerance)?;
                found.recorded_rounding = Some(rounding.relative);
            }
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
