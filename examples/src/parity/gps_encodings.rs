//! Encodings of GraphGPS as recorded, and how far ours are from them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_graph::encodings::{
    ELECTROSTATIC, EigvecNorm, EncodingArray, EncodingPlan, EncodingRecipe, GRAPHORMER_DISTANCES,
    GRAPHORMER_IN_DEGREES, GRAPHORMER_OUT_DEGREES, GRAPHORMER_PREDECESSORS, GraphEncoding,
    HEAT_KERNEL, LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, LAP_PE_MASK, LapPe, ROTATIONAL, RWSE,
    SIGN_NET_EIGENVECTORS,
};
use candle_graph::graph::Graph;
use candle_graph::spectral::{Laplacian, MAX_DENSE_BYTES, Spectrum};

use super::case::Recorded;
use super::compare::EncodingDifference;

/// Largest absolute difference of an encoding, and relative one of an eigenvalue.
const TOLERANCE: f64 = 1e-6;
/// How far the recorded eigenspaces may be from exact ones: the official code decomposes in single
/// precision, and a vector is turned by the rounding error over the distance of its eigenvalue from
/// the next.
const RECORDED_SPACES: f64 = 1e-4;

/// How an array was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recording {
    /// As it is; NaN marks frequencies that the graph does not have, where ours are 0.
    Values(&'static str),
    /// The mask: 0 where the tensor is NaN.
    Present(&'static str),
    /// Not at all; it shows in the attention bias.
    Nowhere,
}

/// How our array `name` was recorded.
fn recording(name: &str) -> Result<Recording> {
    Ok(match name {
        LAP_PE_EIGENVECTORS => Recording::Values("EigVecs"),
        LAP_PE_EIGENVALUES => Recording::Values("EigVals"),
        LAP_PE_MASK => Recording::Present("EigVecs"),
        SIGN_NET_EIGENVECTORS => Recording::Values("eigvecs_sn"),
        RWSE => Recording::Values("pestat_RWSE"),
        ROTATIONAL => Recording::Values("t"),
        HEAT_KERNEL => Recording::Values("pestat_HKdiagSE"),
        ELECTROSTATIC => Recording::Values("pestat_ElstaticSE"),
        GRAPHORMER_IN_DEGREES => Recording::Values("in_degrees"),
        GRAPHORMER_OUT_DEGREES => Recording::Values("out_degrees"),
        // Both list the pairs of a graph by query and then by key.
        GRAPHORMER_DISTANCES => Recording::Values("spatial_types"),
        GRAPHORMER_PREDECESSORS => Recording::Nowhere,
        _ => bail!("nobody knows how `{name}` is recorded"),
    })
}

/// The recorded encodings of the case in `folder`, in our layout.
pub(super) fn recorded_encodings(
    folder: &Path,
    graphs: &[Graph],
    plan: &EncodingPlan,
) -> Result<Vec<GraphEncoding>> {
    let mut encodings = plan.compute_all(graphs, 0)?;
    if plan.is_empty() {
        return Ok(encodings);
    }
    let file = Recorded::read(&folder.join("encodings.safetensors"))?;
    for (name, ..) in plan.arrays() {
        let (values, present) = match recording(name)? {
            Recording::Values(recorded) => (file.values(recorded)?, false),
            Recording::Present(recorded) => (file.values(recorded)?, true),
            Recording::Nowhere => continue,
        };
        let of = |value: f32| match (present, value.is_nan()) {
            (true, missing) => f32::from(!missing),
            (false, true) => 0.0,
            (false, false) => value,
        };
        let mut rest = values.as_slice();
        for array in arrays(&mut encodings, name) {
            let (front, back) = rest
                .split_at_checked(array.data.len())
                .with_context(|| format!("too few recorded values for {name}"))?;
            rest = back;
            array.data = front.iter().map(|&value| of(value)).collect();
        }
        if !rest.is_empty() {
            bail!("{} recorded values too many for {name}", rest.len());
        }
    }
    Ok(encodings)
}

/// The array called `name` of every graph.
fn arrays<'a>(
    encodings: &'a mut [GraphEncoding],
    name: &'a str,
) -> impl Iterator<Item = &'a mut EncodingArray> + 'a {
    let all = encodings.iter_mut().flat_map(|e| e.arrays.iter_mut());
    all.filter(move |array| array.name == name)
}

/// How far `computed` encodings are from `recorded` ones.
pub(super) fn compare_encodings(
    graphs: &[Graph],
    plan: &EncodingPlan,
    computed: &[GraphEncoding],
    recorded: &[GraphEncoding],
) -> Result<Vec<EncodingDifference>> {
    let mut differences = Vec::new();
    for (name, ..) in plan.arrays() {
        let vectors = [LAP_PE_EIGENVECTORS, SIGN_NET_EIGENVECTORS].contains(&name);
        if vectors || recording(name)? == Recording::Nowhere {
            continue;
        }
        let mut worst = 0.0f64;
        for (ours, theirs) in computed.iter().zip(recorded) {
            let (ours, theirs) = (data(ours, name)?, data(theirs, name)?);
            // What single precision resolves of an eigenvalue grows with the largest one.
            let scale = theirs.iter().copied().fold(1.0, f32::max);
            for (a, b) in ours.iter().zip(theirs) {
                let distance = f64::from(a - b).abs() / f64::from(scale);
                worst = worst.max(if distance.is_nan() {
                    f64::INFINITY
                } else {
                    distance
                });
            }
        }
        differences.push(EncodingDifference {
            name: name.to_string(),
            difference: worst,
            tolerance: TOLERANCE,
        });
    }
    for recipe in plan.recipes() {
        let (recipe, name) = match recipe {
            EncodingRecipe::LapPe(recipe) => (recipe, LAP_PE_EIGENVECTORS),
            EncodingRecipe::SignNet(recipe) => (recipe, SIGN_NET_EIGENVECTORS),
            _ => continue,
        };
        for (what, encodings, tolerance) in [
            ("computed spaces of", computed, TOLERANCE),
            ("recorded spaces of", recorded, RECORDED_SPACES),
        ] {
            let mut worst = 0.0f64;
            for (graph, encoding) in graphs.iter().zip(encodings) {
                worst = worst.max(subspace_error(graph, recipe, data(encoding, name)?)?);
            }
            differences.push(EncodingDifference {
                name: format!("{what} {name}"),
                difference: worst,
                tolerance,
            });
        }
    }
    Ok(differences)
}

fn data<'a>(encoding: &'a GraphEncoding, name: &str) -> Result<&'a [f32]> {
    let array = encoding.get(name);
    Ok(&array.with_context(|| format!("no `{name}`"))?.data)
}

/// How far eigenvectors `[nodes, frequencies]` are from spanning the exact eigenspaces of `graph`.
/// Scalings are undone first: all but one multiply a vector, and that one takes its arcsine.
fn subspace_error(graph: &Graph, recipe: &LapPe, vectors: &[f32]) -> Result<f64> {
    let laplacian = Laplacian::new(graph, recipe.laplacian_norm);
    let exact = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES)?;
    let count = recipe.frequencies.min(graph.num_nodes());
    let columns: Vec<Vec<f64>> = (0..count)
        .map(|column| {
            let rows = vectors.chunks_exact(recipe.frequencies);
            let raw = rows.map(|row| f64::from(row[column]));
            let value = exact.eigenvalues().get(column).copied().unwrap_or(0.0);
            let root = if value < 1e-12 { 1.0 } else { value.sqrt() };
            let raw: Vec<f64> = match recipe.eigvec_norm {
                EigvecNorm::WavelengthAsin => raw.map(|x| (x * root).sin()).collect(),
                _ => raw.collect(),
            };
            let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
            raw.iter().map(|x| x / length).collect()
        })
        .collect();
    Ok(exact.subspace_error(&columns))
}
