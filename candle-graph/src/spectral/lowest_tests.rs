//! Iterative against dense spectra, and against spectra that are known in closed form.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::f64::consts::PI;

use proptest::prelude::*;

use super::*;
use crate::graph::Graph;

fn graph(n: usize, edges: impl IntoIterator<Item = [usize; 2]>) -> Graph {
    let edges = edges.into_iter().map(|[s, t]| [s as i64, t as i64]);
    let builder = Graph::builder(n).edges(edges).undirected(true);
    builder.build().unwrap()
}

fn grid(height: usize, width: usize) -> Graph {
    let nodes = (0..height).flat_map(|i| (0..width).map(move |j| (i, j)));
    let edges = nodes.flat_map(|(i, j)| {
        let right = (j + 1 < width).then_some([i * width + j, i * width + j + 1]);
        let down = (i + 1 < height).then_some([i * width + j, (i + 1) * width + j]);
        right.into_iter().chain(down)
    });
    graph(height * width, edges)
}

fn cycles(copies: usize, n: usize) -> Graph {
    let copy = |c: usize| (0..n).map(move |i| [c * n + i, c * n + (i + 1) % n]);
    graph(copies * n, (0..copies).flat_map(copy))
}

/// Both ways to iterate.
fn ways() -> [SolverOptions; 2] {
    [true, false].map(|factorise| SolverOptions {
        factorise,
        ..SolverOptions::default()
    })
}

/// Eigenvalues and eigenspaces as a dense decomposition finds them, residuals as they should be,
/// orthogonal vectors.
fn assert_as_dense(graph: &Graph, norm: LaplacianNorm, count: usize) {
    let laplacian = Laplacian::new(graph, norm);
    let all = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap();
    for options in ways() {
        let name = format!("{norm}, {options:?}");
        let (found, pairs) = Spectrum::iterative(&laplacian, count, &options).unwrap();
        assert_eq!(found.eigenvalues().len(), count);
        let both = found.eigenvalues().iter().zip(all.eigenvalues());
        for (at, (a, b)) in both.enumerate() {
            assert!((a - b).abs() < 1e-10, "{name}: {at}: {a}, not {b}");
            assert_eq!(*a == 0.0, *b == 0.0, "{name}: exact zeros");
        }
        let bound = LaplacianOperator::new(&laplacian).upper_bound();
        assert!(
            pairs.residuals.iter().all(|r| *r <= 1e-12 * bound),
            "{name}"
        );
        let vectors: Vec<&[f64]> = found.eigenvectors().collect();
        if norm != LaplacianNorm::Rw {
            let error = all.subspace_error(&vectors);
            assert!(error < 1e-7, "{name}: subspaces off by {error}");
            for (i, a) in vectors.iter().enumerate() {
                for (j, b) in vectors[..=i].iter().enumerate() {
                    let product: f64 = a.iter().zip(*b).map(|(a, b)| a * b).sum();
                    let expected = f64::from(i == j);
                    assert!(
                        (product - expected).abs() < 1e-10,
                        "{name}: {i}·{j} {product}"
                    );
                }
            }
        }
        if let Some(next) = pairs.next {
            assert!(next > all.eigenvalues()[count] - 1e-10, "{name}");
        }
    }
}

#[test]
fn multiple_eigenvalues_are_found_in_full_and_may_be_cut() {
    use LaplacianNorm::{None, Sym};
    // Squares are symmetric: all eigenvalues (i, j) and (j, i) are equal.
    for count in [1, 8, 11] {
        assert_as_dense(&grid(12, 12), None, count);
    }
    assert_as_dense(&grid(9, 17), Sym, 16);
    for count in [2, 9, 10] {
        assert_as_dense(&cycles(1, 120), None, count);
    }
    // Multiplicities 6, 12, 12, ...: 6 trivial ones; then cuts through the first and second space.
    for count in [4, 6, 11, 18, 20] {
        assert_as_dense(&cycles(6, 25), None, count);
    }
    // Multiplicity n − 2, far more than the block has vectors.
    let star = graph(200, (1..200).map(|i| [0, i]));
    assert_as_dense(&star, None, 12);
    assert_as_dense(&star, Sym, 12);
    // All nontrivial eigenvalues are equal.
    let complete = graph(90, (0..90).flat_map(|i| (0..i).map(move |j| [i, j])));
    assert_as_dense(&complete, None, 5);
    assert_as_dense(&complete, Sym, 5);
}

#[test]
fn isolated_nodes_have_the_eigenvalue_that_their_normalisation_gives_them() {
    let scattered = graph(120, (1..80).map(|i| [i - 1, i]));
    // 41 components: none of the first 41 eigenvectors takes iteration, the next do.
    for count in [3, 41, 45] {
        assert_as_dense(&scattered, LaplacianNorm::None, count);
    }
    for norm in [LaplacianNorm::Sym, LaplacianNorm::Rw] {
        assert_as_dense(&scattered, norm, 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn random_graphs_have_their_dense_spectra(
        (n, edges) in (60usize..160).prop_flat_map(|n| {
            (Just(n), proptest::collection::vec([0..n, 0..n], 20..500))
        }),
        norm in proptest::sample::select(vec![
            LaplacianNorm::None,
            LaplacianNorm::Sym,
            LaplacianNorm::Rw,
        ]),
    ) {
        // Half of the edges form a tree, so that components are large.
        let tree = edges.iter().filter(|[s, _]| *s > 0).map(|&[s, t]| [s, t % s.max(1)]);
        let edges: Vec<_> = tree.chain(edges.iter().copied()).collect();
        let graph = graph(n, edges);
        let kernel = kernel::Kernel::new(&Laplacian::new(&graph, norm)).count();
        prop_assume!(kernel + 16 < n);
        assert_as_dense(&graph, norm, 7);
    }
}

#[test]
fn large_graphs_have_the_spectra_of_the_textbook() {
    let path = |n: usize, k: usize| 4.0 * (PI * k as f64 / (2 * n) as f64).sin().powi(2);
    let check = |graph: &Graph, mut expected: Vec<f64>, count: usize| {
        expected.sort_by(f64::total_cmp);
        let laplacian = Laplacian::new(graph, LaplacianNorm::None);
        let spectrum = Spectrum::lowest(&laplacian, count).unwrap();
        let pairs = spectrum.eigenvalues().iter().zip(&expected);
        for (at, (a, b)) in pairs.enumerate() {
            // Far below the distance of neighbours, which is 2e-8 on the path.
            assert!((a - b).abs() < 1e-12, "eigenvalue {at}: {a}, not {b}");
        }
        spectrum
    };
    let n = 20_000;
    let found = check(
        &graph(n, (1..n).map(|i| [i - 1, i])),
        (0..20).map(|k| path(n, k)).collect(),
        10,
    );
    let third = found.eigenvectors().nth(3).unwrap();
    // Its largest entries are equally large: rounding decides which is positive.
    let scale = (2.0 / n as f64).sqrt().copysign(third[0]);
    for (i, &x) in third.iter().enumerate() {
        let wave = scale * (PI * 3.0 * (i as f64 + 0.5) / n as f64).cos();
        assert!(
            (x - wave).abs() < 1e-6 * scale.abs(),
            "entry {i}: {x}, not {wave}"
        );
    }
    let of_grid = (0..20).flat_map(|i| (0..20).map(move |j| path(125, i) + path(160, j)));
    check(&grid(125, 160), of_grid.collect(), 10);
}

#[test]
fn the_bits_do_not_depend_on_the_number_of_threads() {
    // More rows than one task takes.
    let graph = grid(70, 71);
    let laplacian = Laplacian::new(&graph, LaplacianNorm::Sym);
    for factorise in [true, false] {
        let options = SolverOptions {
            factorise,
            max_steps: 100,
            tolerance: 1e-4,
            ..SolverOptions::default()
        };
        let on = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let run = || Spectrum::iterative(&laplacian, 4, &options);
            pool.build()
                .unwrap()
                .install(run)
                .map_err(|e| e.to_string())
        };
        assert_eq!(on(1), on(2));
    }
}

#[test]
fn what_does_not_converge_is_said() {
    let laplacian = Laplacian::new(&grid(40, 40), LaplacianNorm::None);
    let options = SolverOptions {
        max_steps: 40,
        factorise: false,
        ..SolverOptions::default()
    };
    let error = Spectrum::iterative(&laplacian, 5, &options).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("of the 4 lowest eigenvalues on 1600 nodes"),
        "{error}"
    );
    let too_many = Spectrum::iterative(&laplacian, 1590, &options).unwrap_err();
    assert!(too_many.to_string().contains("ask for fewer"), "{too_many}");
    let triangle = Laplacian::new(&grid(4, 4), LaplacianNorm::RwLowerTriangle);
    assert!(Spectrum::iterative(&triangle, 2, &options).is_err());
}

#[test]
fn the_door_gives_every_count_for_every_size() {
    for (n, counts) in [
        (1, vec![0, 1, 5]),
        (7, vec![3, 7, 100]),
        (400, vec![0, 10, 300, 400]),
    ] {
        let cycle = cycles(1, n.max(1));
        for norm in LaplacianNorm::ALL {
            let laplacian = Laplacian::new(&cycle, norm);
            let all = Spectrum::dense(&laplacian, n, MAX_DENSE_BYTES).unwrap();
            for &count in &counts {
                let found = Spectrum::lowest(&laplacian, count).unwrap();
                assert_eq!(found.eigenvalues().len(), count.min(n));
                assert_eq!(found.eigenvectors().len(), count.min(n));
                let both = found.eigenvalues().iter().zip(all.eigenvalues());
                both.for_each(|(a, b)| assert!((a - b).abs() < 1e-10, "{norm}: {a}, not {b}"));
            }
        }
    }
    assert!(check_lowest(LaplacianNorm::Sym, 5_000_000, 16).is_ok());
    assert!(check_lowest(LaplacianNorm::Sym, 5_000_000, 1000).is_err());
    assert!(check_lowest(LaplacianNorm::RwLowerTriangle, 10_000, 2).is_err());
}
