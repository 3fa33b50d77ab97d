//! Spectra and Laplacian encodings against the official code's, and under renumbering of nodes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::{
    EigvecNorm, EncodingPlan, EncodingRecipe, LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, LAP_PE_MASK,
    LapPe,
};
use candle_graph::graph::Graph;
use candle_graph::spectral::{Laplacian, LaplacianNorm, MAX_DENSE_BYTES, Spectrum};

fn spectrum(graph: &Graph, norm: LaplacianNorm) -> Spectrum {
    Spectrum::dense(&Laplacian::new(graph, norm), usize::MAX, MAX_DENSE_BYTES).unwrap()
}

fn worst(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, |worst, d| {
        if d.is_nan() {
            f64::INFINITY
        } else {
            worst.max(d)
        }
    })
}

struct Case {
    graphs: Vec<Graph>,
    recipe: LapPe,
    /// `[nodes, frequencies]`, NaN where there is none.
    eigenvalues: Vec<Vec<f32>>,
    eigenvectors: Vec<Vec<f32>>,
}

/// The case in `folder`, if it has eigenvectors.
fn read(folder: &Path) -> Option<Case> {
    let file = folder.join("encodings.safetensors");
    let encodings = candle_core::safetensors::load(file, &Device::Cpu).ok()?;
    let (values, vectors, section) = match encodings.get("EigVals") {
        Some(values) => (values, &encodings["EigVecs"], "posenc_LapPE"),
        None => (
            encodings.get("eigvals_sn")?,
            &encodings["eigvecs_sn"],
            "posenc_SignNet",
        ),
    };
    let config = std::fs::read(folder.join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_slice(&config).unwrap();
    // EquivStableLapPE decomposes what posenc_LapPE says, whatever its own section says.
    let eigen = &config[section]["eigen"];
    let option = |name: &str| eigen[name].as_str().unwrap().to_string();
    let recipe = LapPe {
        frequencies: vectors.dim(1).unwrap(),
        laplacian_norm: option("laplacian_norm").parse().unwrap(),
        eigvec_norm: option("eigvec_norm").parse().unwrap(),
    };
    let inputs = folder.join("inputs.safetensors");
    let inputs = candle_core::safetensors::load(inputs, &Device::Cpu).unwrap();
    let whole = |tensor: &Tensor| tensor.to_dtype(DType::I64).unwrap();
    let edges = whole(&inputs["edge_index"]).to_vec2::<i64>().unwrap();
    let ptr = whole(&inputs["ptr"]).to_vec1::<i64>().unwrap();
    let graphs = ptr.windows(2).map(|nodes| {
        let edges = edges[0].iter().zip(&edges[1]);
        let inside = edges.filter(|(s, _)| (nodes[0]..nodes[1]).contains(s));
        Graph::builder((nodes[1] - nodes[0]) as usize)
            .edges(inside.map(|(s, t)| [s - nodes[0], t - nodes[0]]))
            .build()
            .unwrap()
    });
    Some(Case {
        graphs: graphs.collect(),
        recipe,
        eigenvalues: values.squeeze(2).unwrap().to_vec2().unwrap(),
        eigenvectors: vectors.to_vec2().unwrap(),
    })
}

/// The columns of `rows` that are not marked as missing.
fn columns(rows: &[Vec<f32>], count: usize) -> Vec<Vec<f64>> {
    let column = |c: usize| rows.iter().map(|row| f64::from(row[c])).collect();
    (0..count).map(column).collect()
}

/// Compares our encoding with the recorded one; gives the number of graphs.
fn check(folder: &Path) -> Option<usize> {
    let case = read(folder)?;
    let width = case.recipe.frequencies;
    let plan = EncodingPlan::new(vec![EncodingRecipe::LapPe(case.recipe.clone())]).unwrap();
    let mut first = 0;
    for (position, graph) in case.graphs.iter().enumerate() {
        let place = format!("{}, graph {position}", folder.display());
        let n = graph.num_nodes();
        let ours = plan.compute(graph, position).unwrap();
        let rows = |name: &str| -> Vec<Vec<f32>> {
            let data = &ours.get(name).unwrap().data;
            data.chunks_exact(width).map(<[f32]>::to_vec).collect()
        };
        let (values, vectors) = (rows(LAP_PE_EIGENVALUES), rows(LAP_PE_EIGENVECTORS));
        let mask = rows(LAP_PE_MASK);
        let recorded_values = &case.eigenvalues[first..first + n];
        let recorded_vectors = &case.eigenvectors[first..first + n];
        let all = spectrum(graph, case.recipe.laplacian_norm);
        // The official code decomposes in f32: what it can resolve grows with the matrix.
        let norm = all.eigenvalues().iter().copied().fold(1.0, f64::max);
        for row in 0..n {
            for column in 0..width {
                let (found, recorded) = (values[row][column], recorded_values[row][column]);
                assert_eq!(mask[row][column] == 0.0, recorded.is_nan(), "{place}");
                assert_eq!(recorded.is_nan(), recorded_vectors[row][column].is_nan());
                if recorded.is_nan() {
                    assert_eq!((found, vectors[row][column]), (0.0, 0.0), "{place}");
                } else {
                    let off = f64::from(found - recorded).abs();
                    assert!(off <= 1e-6 * norm, "{place}: {found}, not {recorded}");
                }
            }
        }
        let count = width.min(n);
        let error = all.subspace_error(&columns(recorded_vectors, count));
        assert!(error < 1e-4, "{place}: recorded spaces are {error} off");
        let error = all.subspace_error(&columns(&vectors, count));
        assert!(
            error < 1e-6,
            "{place}: spaces of our encoding are {error} off"
        );
        first += n;
    }
    Some(case.graphs.len())
}

#[test]
fn encodings_equal_those_of_the_official_code() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/laplacian");
    for name in ["extra-LapPE-Transformer", "malnettiny-GPS", "zinc-GPS+SNDS"] {
        assert_eq!(check(&fixtures.join(name)), Some(5), "{name}");
    }
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    if let Ok(folders) = std::fs::read_dir(shared.join("goldens/gps")) {
        let cases = folders.filter_map(|folder| check(&folder.unwrap().path()));
        assert_eq!(cases.filter(|&graphs| graphs == 5).count(), 14);
    }
}

#[test]
fn renumbering_nodes_only_permutes() {
    let edges: Vec<[i64; 2]> = (0..40i64)
        .map(|i| [(i * 7 + i / 5) % 18, (i * i + 3 * i) % 18])
        // Two equal triangles, for multiple eigenvalues.
        .chain([[20, 21], [21, 22], [22, 20], [23, 24], [24, 25], [25, 23]])
        .collect();
    let n = 27;
    let graph = Graph::builder(n).edges(edges).build().unwrap();
    let order: Vec<u32> = (0..n as u32).map(|i| (i * 5 + 3) % n as u32).collect();
    let renumbered = graph.renumbered(&order).unwrap();
    for norm in [LaplacianNorm::None, LaplacianNorm::Sym] {
        let (before, after) = (spectrum(&graph, norm), spectrum(&renumbered, norm));
        assert!(worst(before.eigenvalues(), after.eigenvalues()) < 1e-12);
        let carried: Vec<Vec<f64>> = before
            .eigenvectors()
            .map(|v| {
                let mut out = vec![0.0; n];
                v.iter()
                    .zip(&order)
                    .for_each(|(x, &to)| out[to as usize] = *x);
                out
            })
            .collect();
        let error = after.subspace_error(&carried);
        assert!(error < 1e-10, "{norm}: {error}");
    }
}

#[test]
fn the_official_random_walk_form_depends_on_the_numbering() {
    let path = |edges: [[i64; 2]; 3]| {
        let builder = Graph::builder(4).edges(edges).undirected(true);
        builder.build().unwrap()
    };
    let (straight, turned) = (
        path([[0, 1], [1, 2], [2, 3]]),
        path([[1, 0], [0, 2], [2, 3]]),
    );
    let off = |norm| {
        let (a, b) = (spectrum(&straight, norm), spectrum(&turned, norm));
        worst(a.eigenvalues(), b.eigenvalues())
    };
    assert!(off(LaplacianNorm::Rw) < 1e-12);
    assert!(off(LaplacianNorm::RwLowerTriangle) > 1e-2);
}

#[test]
fn every_value_is_finite_for_the_graphs_that_are_hard_to_encode() {
    let build = |n: usize, edges: &[[i64; 2]]| {
        let edges = edges.iter().copied();
        Graph::builder(n).edges(edges).build().unwrap()
    };
    let graphs = [
        build(1, &[]),
        build(1, &[[0, 0]]),
        build(3, &[]),
        build(5, &[[0, 1], [1, 0], [2, 2], [3, 4]]),
    ];
    for laplacian_norm in LaplacianNorm::ALL {
        for eigvec_norm in EigvecNorm::ALL {
            let recipe = LapPe {
                frequencies: 4,
                laplacian_norm,
                eigvec_norm,
            };
            let plan = EncodingPlan::new(vec![EncodingRecipe::LapPe(recipe)]).unwrap();
            for graph in &graphs {
                for array in plan.compute(graph, 0).unwrap().arrays {
                    assert_eq!(array.data.len(), 4 * graph.num_nodes());
                    assert!(array.data.iter().all(|v| v.is_finite()), "{}", array.name);
                }
            }
        }
    }
}
