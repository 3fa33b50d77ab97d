//! Coordinates by recipe, by what the tests prove.

use super::eigenvectors::left_out;
use super::*;
use crate::encodings::{EigvecNorm, EncodingPlan, EncodingRecipe, HeatKernel, LapPe};
use crate::spectral::{Laplacian, MAX_DENSE_BYTES, Spectrum};

fn graph(n: usize, edges: &[[i64; 2]]) -> Graph {
    let edges = edges.iter().copied();
    let builder = Graph::builder(n).edges(edges).undirected(true);
    builder.build().unwrap()
}

/// A path 0 - 1 - 2, a pair 3 - 4, and the isolated node 5 with a self loop.
fn scattered() -> Graph {
    graph(6, &[[0, 1], [1, 2], [3, 4], [5, 5]])
}

fn eigenvectors(count: usize, trivial: bool, scale: EigenvectorScale) -> Rotational {
    Rotational::Eigenvectors {
        count,
        trivial,
        laplacian_norm: LaplacianNorm::None,
        scale,
    }
}

fn wave(scales: &[f64], laplacian_norm: LaplacianNorm) -> Rotational {
    Rotational::Wave(Wave {
        scales: scales.to_vec(),
        laplacian_norm,
    })
}

fn every_kind() -> [Rotational; 5] {
    [
        Rotational::Given { dim: 2 },
        eigenvectors(2, true, EigenvectorScale::Unit),
        eigenvectors(2, false, EigenvectorScale::EffectiveResistance),
        Rotational::RandomWalk(Rwse { times: vec![1, 2] }),
        wave(&[0.5], LaplacianNorm::Sym),
    ]
}

fn plan(recipe: &Rotational) -> EncodingPlan {
    EncodingPlan::new(vec![EncodingRecipe::Rotational(recipe.clone())]).unwrap()
}

/// Rows of the coordinates.
fn rows(recipe: &Rotational, graph: &Graph) -> Vec<Vec<f32>> {
    let encoding = plan(recipe).compute(graph, 0).unwrap();
    let array = encoding.get(ROTATIONAL).unwrap();
    assert_eq!(array.width, recipe.dim());
    assert_eq!(array.data.len(), array.width * graph.num_nodes());
    array
        .data
        .chunks(array.width)
        .map(<[f32]>::to_vec)
        .collect()
}

#[track_caller]
fn near(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (f64::from(*a) - b).abs() < 1e-6,
            "{found:?}, not {expected:?}"
        );
    }
}

#[test]
fn a_path_has_its_known_eigenvectors_with_and_without_the_trivial_one() {
    // Eigenvalues 0, 1, 3; vectors (1, 1, 1), (1, 0, −1), (−1, 2, −1).
    let path = graph(3, &[[0, 1], [1, 2]]);
    let [a, b, c] = [3.0f64, 2.0, 6.0].map(|square| square.sqrt().recip());
    let with = rows(&eigenvectors(2, true, EigenvectorScale::Unit), &path);
    near(&with.concat(), &[a, b, a, 0.0, a, -b]);
    let without = rows(&eigenvectors(2, false, EigenvectorScale::Unit), &path);
    near(&without.concat(), &[b, -c, 0.0, 2.0 * c, -b, -c]);
    let root = 3.0f64.sqrt();
    let scaled = eigenvectors(2, false, EigenvectorScale::EffectiveResistance);
    near(
        &rows(&scaled, &path).concat(),
        &[b, -c / root, 0.0, 2.0 * c / root, -b, -c / root],
    );
    let trivial = eigenvectors(2, true, EigenvectorScale::EffectiveResistance);
    near(
        &rows(&trivial, &path).concat(),
        &[0.0, b, 0.0, 0.0, 0.0, -b],
    );
}

#[test]
fn every_zero_eigenvalue_is_left_out_and_missing_columns_are_zeros() {
    let graph = scattered();
    // Of the six eigenvalues 0, 0, 0, 1, 2, 3 three are left.
    let found = rows(&eigenvectors(5, false, EigenvectorScale::Unit), &graph);
    let [b, c] = [2.0f64, 6.0].map(|square| square.sqrt().recip());
    let expected = [
        [b, 0.0, -c, 0.0, 0.0],
        [0.0, 0.0, 2.0 * c, 0.0, 0.0],
        [-b, 0.0, -c, 0.0, 0.0],
        [0.0, b, 0.0, 0.0, 0.0],
        [0.0, -b, 0.0, 0.0, 0.0],
        [0.0; 5],
    ];
    for (found, expected) in found.iter().zip(&expected) {
        near(found, expected);
    }
    // Nothing is left of a graph without edges.
    let alone = Graph::builder(2).build().unwrap();
    let found = rows(&eigenvectors(2, false, EigenvectorScale::Unit), &alone);
    assert_eq!(found, [[0.0; 2]; 2]);
}

#[test]
fn as_many_are_left_out_as_the_spectrum_has_zeros() {
    let graphs = [
        scattered(),
        Graph::builder(4).edges([[0, 1], [2, 1]]).build().unwrap(),
        Graph::builder(1).build().unwrap(),
        graph(5, &[[0, 1], [1, 2], [2, 0], [3, 4], [2, 3]]),
    ];
    for norm in [LaplacianNorm::None, LaplacianNorm::Sym, LaplacianNorm::Rw] {
        for graph in &graphs {
            let laplacian = Laplacian::new(graph, norm);
            let all = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap();
            let zeros = all.eigenvalues().iter().filter(|&&v| v == 0.0).count();
            assert_eq!(left_out(graph, norm, false), zeros, "{norm}");
            assert_eq!(left_out(graph, norm, true), 0);
        }
    }
}

/// exp(−s·L) by its power series of L/2^k, squared k times.
fn heat_kernel(laplacian: &[Vec<f64>], scale: f64) -> Vec<Vec<f64>> {
    let n = laplacian.len();
    let product = |a: &[Vec<f64>], b: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let entry = |i: usize, j: usize| (0..n).map(|k| a[i][k] * b[k][j]).sum::<f64>();
        let row = |i| (0..n).map(|j| entry(i, j)).collect();
        (0..n).map(row).collect()
    };
    let identity = |i: usize, j: usize| f64::from(i == j);
    let start: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..n).map(|j| identity(i, j)).collect())
        .collect();
    let (mut sum, mut term) = (start.clone(), start);
    for k in 1..30 {
        term = product(&term, laplacian);
        for (row, of_term) in sum.iter_mut().zip(&mut term) {
            for (entry, value) in row.iter_mut().zip(of_term) {
                *value *= -scale / 256.0 / f64::from(k);
                *entry += *value;
            }
        }
    }
    for _ in 0..8 {
        sum = product(&sum, &sum);
    }
    sum
}

#[test]
fn waves_are_diagonals_and_row_sums_of_matrix_exponentials() {
    let graph = scattered();
    let n = graph.num_nodes();
    let mut adjacency = vec![vec![0.0f64; n]; n];
    for &[s, t] in graph.edges().iter().filter(|[s, t]| s != t) {
        adjacency[s as usize][t as usize] = 1.0;
    }
    let degrees: Vec<f64> = adjacency.iter().map(|row| row.iter().sum()).collect();
    let scales = [0.0, 0.3, 2.0];
    for norm in [LaplacianNorm::None, LaplacianNorm::Sym] {
        let entry = |i: usize, j: usize| {
            let (identity, edge) = (f64::from(i == j), adjacency[i][j]);
            match norm {
                LaplacianNorm::None => identity * degrees[i] - edge,
                _ if edge == 0.0 => identity,
                _ => identity - edge / (degrees[i] * degrees[j]).sqrt(),
            }
        };
        let laplacian: Vec<Vec<f64>> = (0..n)
            .map(|i| (0..n).map(|j| entry(i, j)).collect())
            .collect();
        let kernels = scales.map(|scale| heat_kernel(&laplacian, scale));
        for (i, found) in rows(&wave(&scales, norm), &graph).iter().enumerate() {
            let diagonal = kernels.iter().map(|k| k[i][i]);
            let sums = kernels.iter().map(|k| k[i].iter().sum());
            near(found, &diagonal.chain(sums).collect::<Vec<f64>>());
            if norm == LaplacianNorm::None {
                assert_eq!(found[3..], [1.0; 3]);
            }
        }
    }
}

#[test]
fn random_walks_are_those_of_rwse() {
    let rwse = Rwse {
        times: vec![1, 2, 5],
    };
    let graph = scattered();
    let found = rows(&Rotational::RandomWalk(rwse.clone()), &graph);
    assert_eq!(found.concat(), rwse.compute(&graph).remove(0).data);
}

#[test]
fn a_graph_keeps_its_own_coordinates_under_any_recipe() {
    let own = Features::float(2, vec![0.5, -1.0, 2.0, 3.5]);
    let graph = Graph::builder(2)
        .edges([[0, 1]])
        .rotational_features(own.clone());
    let graph = graph.id("own").build().unwrap();
    for recipe in every_kind() {
        let rows = rows(&recipe, &graph).concat();
        assert_eq!(Features::float(2, rows), own);
    }
}

#[test]
fn coordinates_of_another_width_are_refused_with_both() {
    let graph = Graph::builder(1).rotational_features(Features::float(3, vec![0.0; 3]));
    let graph = graph.id("wide").build().unwrap();
    for recipe in every_kind() {
        let plan = plan(&recipe);
        let error = plan.compute(&graph, 0).unwrap_err().to_string();
        assert!(error.starts_with("graph \"wide\": t: 3 "), "{error}");
        assert!(error.contains("the model expects 2"), "{error}");
        let computed = !matches!(recipe, Rotational::Given { .. });
        assert_eq!(error.contains("they are computed"), computed, "{error}");
        assert_eq!(plan.check_bytes(&graph, 0).unwrap_err().to_string(), error);
    }
}

#[test]
fn given_coordinates_that_are_missing_are_named() {
    let graph = Graph::builder(1).build().unwrap();
    let plan = plan(&Rotational::Given { dim: 2 });
    let error = plan.compute(&graph, 4).unwrap_err().to_string();
    let expected = "graph #4: t: missing; the model needs 2 rotational feature(s) a node";
    assert_eq!(error, expected);
}

#[test]
fn only_what_takes_the_whole_spectrum_refuses_a_large_graph() {
    let large = |t: Option<Features>| {
        let path = (1..6000i64).map(|i| [i - 1, i]);
        let builder = Graph::builder(6000).edges(path).rotational_features(t);
        builder.build().unwrap()
    };
    let (bare, own) = (
        large(None),
        large(Some(Features::float(2, vec![0.0; 12_000]))),
    );
    for recipe in every_kind() {
        let plan = plan(&recipe);
        plan.check_bytes(&own, 0).unwrap();
        // The lowest eigenvectors are found without the others.
        let decomposes = matches!(recipe, Rotational::Wave(_));
        let given = matches!(recipe, Rotational::Given { .. });
        let checked = plan.check_bytes(&bare, 0);
        assert_eq!(checked.is_err(), decomposes || given, "{recipe:?}");
        if decomposes {
            let error = checked.unwrap_err().to_string();
            assert!(error.contains("6000 nodes takes"), "{error}");
        }
    }
}

#[test]
fn impossible_recipes_are_refused() {
    let lower = Rotational::Eigenvectors {
        count: 2,
        trivial: true,
        laplacian_norm: LaplacianNorm::RwLowerTriangle,
        scale: EigenvectorScale::Unit,
    };
    for (recipe, words) in [
        (Rotational::Given { dim: 0 }, "0 rotational features"),
        (
            eigenvectors(4097, true, EigenvectorScale::Unit),
            "4097 rotational features",
        ),
        (lower, "`rw_lower_triangle`"),
        (wave(&[], LaplacianNorm::None), "0 rotational features"),
        (wave(&[1.0, -0.5], LaplacianNorm::None), "the scale -0.5"),
        (wave(&[f64::NAN], LaplacianNorm::None), "the scale NaN"),
        (wave(&[f64::INFINITY], LaplacianNorm::None), "the scale inf"),
        (wave(&[1.0], LaplacianNorm::Rw), "not symmetric"),
        (
            Rotational::RandomWalk(Rwse { times: vec![0] }),
            "a walk of 0 steps",
        ),
    ] {
        let recipe = EncodingRecipe::Rotational(recipe);
        let error = EncodingPlan::new(vec![recipe]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn recipes_are_read_as_they_are_written() {
    for recipe in every_kind() {
        let plan = plan(&recipe);
        let text = serde_json::to_string(&plan).unwrap();
        let read: EncodingPlan = serde_json::from_str(&text).unwrap();
        assert_eq!(read, plan, "{text}");
    }
    let read = |text: &str| serde_json::from_str::<EncodingPlan>(text);
    let default = r#"[{"kind":"rotational","from":"wave","scales":[0.1]}]"#;
    assert_eq!(
        read(default).unwrap(),
        plan(&wave(&[0.1], LaplacianNorm::None))
    );
    assert_ne!(
        wave(&[0.1], LaplacianNorm::None),
        wave(&[0.1], LaplacianNorm::Sym)
    );
    assert_ne!(
        wave(&[0.1], LaplacianNorm::None),
        wave(&[0.2], LaplacianNorm::None)
    );
    let unknown = r#"[{"kind":"rotational","from":"wave","scales":[0.1],"norm":"sym"}]"#;
    assert!(read(unknown).is_err());
}

#[test]
fn recipes_of_one_laplacian_share_one_decomposition() {
    let graph = graph(7, &[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [1, 4], [0, 6]]);
    let lap_pe = |frequencies, laplacian_norm| LapPe {
        frequencies,
        laplacian_norm,
        eigvec_norm: EigvecNorm::L2,
    };
    let recipes = vec![
        EncodingRecipe::LapPe(lap_pe(2, LaplacianNorm::None)),
        EncodingRecipe::SignNet(lap_pe(3, LaplacianNorm::Sym)),
        EncodingRecipe::Rotational(eigenvectors(4, false, EigenvectorScale::Unit)),
        EncodingRecipe::HeatKernel(HeatKernel { times: vec![1, 2] }),
    ];
    let shared = Spectra::new(&graph, &recipes);
    let mut together = Vec::new();
    for recipe in &recipes {
        together.extend(recipe.compute(&graph, &shared, 0).unwrap());
    }
    assert_eq!(shared.decompositions(), 2);
    let whole = EncodingPlan::new(recipes.clone()).unwrap();
    assert_eq!(whole.compute(&graph, 0).unwrap().arrays, together);
    let alone: Vec<EncodingArray> = recipes
        .into_iter()
        .flat_map(|recipe| {
            let plan = EncodingPlan::new(vec![recipe]).unwrap();
            plan.compute(&graph, 0).unwrap().arrays
        })
        .collect();
    assert_eq!(together, alone);
}
