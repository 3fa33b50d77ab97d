//! What must hold of the matrices and their eigenvectors.

use std::f64::consts::PI;

use candle_graph::graph::Graph;
use candle_graph::spectral::{
    Laplacian, LaplacianNorm, MAX_DENSE_BYTES, MagneticLaplacian, MagneticSpectrum, Potential,
    SolverOptions, Spectrum, VectorScale,
};

use crate::support::{Numbers, graph, worst};

fn laplacian(graph: &Graph, q: Potential, symmetric_norm: bool) -> MagneticLaplacian {
    let builder = MagneticLaplacian::builder(graph, q).symmetric_norm(symmetric_norm);
    builder.build().unwrap()
}

/// The matrix after its definition, entry by entry, of weights that are added up.
fn definition(n: usize, a: &[f64], q: f64, symmetric_norm: bool) -> [Vec<f64>; 2] {
    let at = |u: usize, v: usize| a[u * n + v];
    let symmetric = |u: usize, v: usize| match (at(u, v), at(v, u)) {
        (x, y) if x != 0.0 && y != 0.0 => (x + y) / 2.0,
        (x, y) => x + y,
    };
    let degree: Vec<f64> = (0..n)
        .map(|u| (0..n).map(|v| symmetric(u, v)).sum())
        .collect();
    let mut out = [(); 2].map(|()| vec![0.0; n * n]);
    for u in 0..n {
        for v in 0..n {
            let mut weight = symmetric(u, v);
            let mut diagonal = degree[u];
            if symmetric_norm {
                let root = |d: f64| if d == 0.0 { 1.0 } else { d.sqrt() };
                weight /= root(degree[u]) * root(degree[v]);
                diagonal = 1.0;
            }
            let angle = 2.0 * PI * q * (at(u, v) - at(v, u));
            out[0][u * n + v] = f64::from(u == v) * diagonal - weight * angle.cos();
            out[1][u * n + v] = -weight * angle.sin();
        }
    }
    out
}

#[test]
fn the_matrix_is_its_definition_with_loops_repeats_and_weights() {
    let mut numbers = Numbers(1);
    for n in [1usize, 2, 7, 20] {
        let graph = numbers.graph(n, 3 * n);
        let mut once = vec![0.0; n * n];
        for &[s, t] in graph.edges() {
            once[s as usize * n + t as usize] = 1.0;
        }
        let weights: Vec<f64> = graph
            .edges()
            .iter()
            .map(|_| numbers.below(5) as f64 / 4.0)
            .collect();
        let mut sums = vec![0.0; n * n];
        for (&[s, t], weight) in graph.edges().iter().zip(&weights) {
            sums[s as usize * n + t as usize] += weight;
        }
        let m = (0..n * n)
            .filter(|at| once[*at] != once[at % n * n + at / n])
            .count()
            / 2;
        for symmetric_norm in [true, false] {
            for (q, potential) in [
                (0.1, Potential::Absolute(0.1)),
                (0.25, Potential::Absolute(0.25)),
                (0.25 / m.min(n).max(1) as f64, Potential::Relative(0.25)),
            ] {
                let ours = laplacian(&graph, potential, symmetric_norm);
                assert_eq!((ours.q(), ours.directed_pairs()), (q, m));
                let ours = ours.to_dense().unwrap();
                let expected = definition(n, &once, q, symmetric_norm);
                assert!(worst(&ours[0], &expected[0]) < 1e-14);
                assert!(worst(&ours[1], &expected[1]) < 1e-14);
            }
            let weighted = MagneticLaplacian::builder(&graph, Potential::Absolute(0.1))
                .symmetric_norm(symmetric_norm)
                .weights(&weights)
                .build()
                .unwrap()
                .to_dense()
                .unwrap();
            let expected = definition(n, &sums, 0.1, symmetric_norm);
            assert!(worst(&weighted[0], &expected[0]) < 1e-14);
            assert!(worst(&weighted[1], &expected[1]) < 1e-14);
        }
    }
}

#[test]
fn weights_of_one_change_nothing_and_unusable_ones_are_named() {
    let graph = graph(3, &[[0, 1], [1, 2], [2, 1], [2, 2]]);
    let builder = || MagneticLaplacian::builder(&graph, Potential::Relative(0.25));
    let plain = builder().build().unwrap();
    assert_eq!(builder().weights(&[1.0; 4]).build().unwrap(), plain);
    assert_eq!(plain.directed_pairs(), 1);
    for (weights, message) in [
        (vec![1.0; 3], "3 weights for a graph of 4 edges"),
        (
            vec![1.0, -2.0, 1.0, 1.0],
            "edge 1 from node 1 to node 2 has the weight -2",
        ),
        (vec![1.0, f64::NAN, 1.0, 1.0], "the weight NaN"),
        (
            vec![f64::MAX, f64::MAX, f64::MAX, 1.0],
            "at node 1 add up to inf",
        ),
    ] {
        let error = builder().weights(&weights).build().unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn without_a_potential_it_is_the_laplacian_of_the_undirected_graph() {
    let mut numbers = Numbers(2);
    let directed = numbers.graph(25, 60);
    let without_loops = directed.edges().iter().copied().filter(|[s, t]| s != t);
    let simple = Graph::builder(25).edges(without_loops).build().unwrap();
    for (symmetric_norm, norm, graph) in [
        (false, LaplacianNorm::None, &directed),
        // Loops count in the degree here, and not there.
        (true, LaplacianNorm::Sym, &simple),
    ] {
        let magnetic = laplacian(graph, Potential::Absolute(0.0), symmetric_norm);
        assert!(magnetic.is_real());
        let found = MagneticSpectrum::lowest(&magnetic, 25).unwrap();
        let plain = Laplacian::new(graph, norm);
        let plain = Spectrum::dense(&plain, 25, MAX_DENSE_BYTES).unwrap();
        assert!(worst(found.eigenvalues(), plain.eigenvalues()) < 1e-13);
        let parts: Vec<[&[f64]; 2]> = found.eigenvectors().collect();
        assert!(parts.iter().all(|part| part[1].iter().all(|v| *v == 0.0)));
        let real: Vec<&[f64]> = parts.iter().map(|part| part[0]).collect();
        assert!(plain.subspace_error(&real) < 1e-10);
    }
}

#[test]
fn reversing_the_edges_conjugates() {
    let mut numbers = Numbers(3);
    let forward = numbers.graph(18, 40);
    let edges = forward.edges().iter().map(|&[s, t]| [t, s]);
    let backward = Graph::builder(18).edges(edges).build().unwrap();
    let [forward, backward] =
        [forward, backward].map(|graph| laplacian(&graph, Potential::Relative(0.25), true));
    let (a, b) = (forward.to_dense().unwrap(), backward.to_dense().unwrap());
    assert_eq!(a[0], b[0]);
    assert!(a[1].iter().zip(&b[1]).all(|(a, b)| *a == -b));
    assert!(a[1].iter().any(|v| *v != 0.0));
    let [a, b] = [forward, backward].map(|l| MagneticSpectrum::lowest(&l, 18).unwrap());
    assert!(worst(a.eigenvalues(), b.eigenvalues()) < 1e-13);
    let conjugated: Vec<[Vec<f64>; 2]> = b
        .eigenvectors()
        .map(|[re, im]| [re.to_vec(), im.iter().map(|v| -v).collect()])
        .collect();
    assert!(a.subspace_error(&conjugated) < 1e-9);
}

#[test]
fn renumbering_the_nodes_moves_the_entries() {
    let mut numbers = Numbers(4);
    let n = 22;
    let graph = numbers.graph(n, 55);
    let new_of_old = numbers.permutation(n);
    let renumbered = graph.renumbered(&new_of_old).unwrap();
    let [mut a, mut b] = [&graph, &renumbered].map(|graph| {
        let laplacian = laplacian(graph, Potential::Relative(0.25), true);
        MagneticSpectrum::lowest(&laplacian, n).unwrap()
    });
    assert!(worst(a.eigenvalues(), b.eigenvalues()) < 1e-13);
    let back = |spectrum: &MagneticSpectrum| -> Vec<[Vec<f64>; 2]> {
        let old = |part: &[f64]| new_of_old.iter().map(|&new| part[new as usize]).collect();
        spectrum
            .eigenvectors()
            .map(|parts| parts.map(old))
            .collect()
    };
    assert!(a.subspace_error(&back(&b)) < 1e-9);
    // After a given root nothing is left to choose, where eigenvalues are simple.
    a.rotate(Some(5)).unwrap();
    b.rotate(Some(new_of_old[5] as usize)).unwrap();
    let values = a.eigenvalues();
    let mut simple = 0;
    for (at, (ours, theirs)) in a.eigenvectors().zip(back(&b)).enumerate() {
        let near = |other: usize| other != at && (values[at] - values[other]).abs() < 1e-4;
        if !(0..n).any(near) && ours[0][5] > 1e-3 {
            assert_eq!(ours[1][5], 0.0);
            assert!(worst(ours[0], &theirs[0]) < 1e-9 && worst(ours[1], &theirs[1]) < 1e-9);
            simple += 1;
        }
    }
    assert!(simple > n / 2);
}

#[test]
fn phase_sign_and_scale_are_as_documented() {
    let mut numbers = Numbers(5);
    let graph = numbers.graph(30, 70);
    let laplacian = laplacian(&graph, Potential::Absolute(0.1), false);
    let spectrum = MagneticSpectrum::lowest(&laplacian, 12).unwrap();
    let size = |part: &[f64]| part.iter().map(|v| v * v).sum::<f64>();
    let most = |part: &[f64]| part.iter().map(|v| v.abs()).fold(0.0, f64::max);
    for [re, im] in spectrum.eigenvectors() {
        assert!((size(re) + size(im) - 1.0).abs() < 1e-13);
        let anchor = (0..30).find(|&at| re[at].hypot(im[at]) > 1e-7).unwrap();
        assert_eq!(im[anchor], 0.0);
        assert!(re.contains(&most(re)));
    }
    let mut turned = spectrum.clone();
    turned.rotate(None).unwrap();
    let [re, im] = spectrum.eigenvectors().next().unwrap();
    let highest = im.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let root = im.iter().position(|v| *v > highest - 1e-9).unwrap();
    assert!(re.len() > root && highest > 1e-3);
    for ([a, b], [re, im]) in turned.eigenvectors().zip(spectrum.eigenvectors()) {
        let modulus = re[root].hypot(im[root]);
        if modulus > 1e-7 {
            assert!(b[root] == 0.0 && (a[root] - modulus).abs() < 1e-15);
        }
    }
    for (scale, check) in [
        (VectorScale::UnitLength, [1.0, 0.0, 0.0]),
        (VectorScale::LargestModulus, [0.0, 1.0, 0.0]),
        (VectorScale::UnitLengthOfParts, [2.0, 0.0, 0.0]),
        (VectorScale::LargestOfParts, [0.0, 0.0, 1.0]),
    ] {
        let mut scaled = turned.clone();
        scaled.scale(scale);
        for [re, im] in scaled.eigenvectors() {
            let modulus = re
                .iter()
                .zip(im)
                .map(|(a, b)| a.hypot(*b))
                .fold(0.0, f64::max);
            let found = [size(re) + size(im), modulus, most(re).min(most(im))];
            for (found, expected) in found.into_iter().zip(check) {
                assert!(
                    expected == 0.0 || (found - expected).abs() < 1e-12,
                    "{scale:?}"
                );
            }
        }
    }
    let error = turned.rotate(Some(30)).unwrap_err().to_string();
    assert!(error.contains("node 30 of a graph of 30 nodes"), "{error}");
}

#[test]
fn a_first_entry_that_is_next_to_nothing_says_nothing_about_the_phase() {
    // Node 0 hangs on the others by a thread.
    let graph = graph(5, &[[0, 1], [0, 2], [1, 2], [2, 3], [3, 1], [3, 4]]);
    let thread = 1e-12;
    let laplacian = MagneticLaplacian::builder(&graph, Potential::Absolute(0.1))
        .symmetric_norm(false)
        .weights(&[thread, thread, 1.0, 1.0, 1.0, 1.0])
        .build()
        .unwrap();
    let mut spectrum = MagneticSpectrum::lowest(&laplacian, 5).unwrap();
    spectrum.skip(1);
    for [re, im] in spectrum.eigenvectors() {
        assert!(re[0].hypot(im[0]) < 1e-9);
        assert_eq!(im[1], 0.0);
    }
    // Nor does turning after it.
    let before = spectrum.clone();
    spectrum.rotate(Some(0)).unwrap();
    assert_eq!(spectrum, before);
}

#[test]
fn the_iteration_finds_what_the_dense_decomposition_does() {
    let mut numbers = Numbers(6);
    let options = SolverOptions::default();
    // Two copies of one graph beside each other: every eigenvalue is double, complex vectors apart.
    let once = numbers.graph(150, 450);
    let copies = once
        .edges()
        .iter()
        .flat_map(|&[s, t]| [[s, t], [s + 150, t + 150]]);
    let copies = Graph::builder(300).edges(copies).build().unwrap();
    let path = Graph::builder(400)
        .edges((1..400).map(|i| [i - 1, i]))
        .build()
        .unwrap();
    for graph in [numbers.graph(300, 900), copies, path] {
        for symmetric_norm in [true, false] {
            for q in [Potential::Absolute(0.25), Potential::Absolute(0.0)] {
                let laplacian = laplacian(&graph, q, symmetric_norm);
                let dense = MagneticSpectrum::dense(&laplacian, usize::MAX).unwrap();
                // An odd number, which cuts pairs.
                let found = MagneticSpectrum::iterative(&laplacian, 7, &options).unwrap();
                assert!(worst(found.eigenvalues(), &dense.eigenvalues()[..7]) < 1e-11);
                let vectors: Vec<[&[f64]; 2]> = found.eigenvectors().collect();
                assert!(dense.subspace_error(&vectors) < 1e-8);
                // The part of the spectrum that is found alone is that of all.
                let part = MagneticSpectrum::dense(&laplacian, 9).unwrap();
                assert!(worst(part.eigenvalues(), &dense.eigenvalues()[..9]) < 1e-13);
                let vectors: Vec<[&[f64]; 2]> = part.eigenvectors().collect();
                assert!(dense.subspace_error(&vectors) < 1e-9);
            }
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let path = Graph::builder(5000)
        .edges((1..5000).map(|i| [i - 1, i]))
        .build()
        .unwrap();
    let laplacian = laplacian(&path, Potential::Relative(0.25), true);
    let [one, four] = [1, 4].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| MagneticSpectrum::lowest(&laplacian, 3).unwrap())
    });
    assert_eq!(one, four);
    // A path has no conflict: its eigenvalues are those of the undirected one, 1 − cos(π·k/(n − 1)).
    for (k, value) in one.eigenvalues().iter().enumerate() {
        let expected = 1.0 - (PI * k as f64 / 4999.0).cos();
        assert!((value - expected).abs() < 1e-11, "{value}, not {expected}");
    }
}

#[test]
fn degenerate_graphs_and_huge_potentials_do_no_harm() {
    let lone = graph(1, &[]);
    for (symmetric_norm, value) in [(true, 1.0), (false, 0.0)] {
        let lone = laplacian(&lone, Potential::Relative(0.25), symmetric_norm);
        let spectrum = MagneticSpectrum::lowest(&lone, 10).unwrap();
        assert_eq!(spectrum.eigenvalues(), [value]);
        let vectors: Vec<[&[f64]; 2]> = spectrum.eigenvectors().collect();
        assert_eq!(vectors, [[&[1.0][..], &[0.0][..]]]);
        // No edges.
        let scattered = laplacian(&graph(9, &[]), Potential::Absolute(0.25), symmetric_norm);
        let mut spectrum = MagneticSpectrum::lowest(&scattered, 4).unwrap();
        assert!(worst(spectrum.eigenvalues(), &[value; 4]) < 1e-14);
        spectrum.rotate(None).unwrap();
        spectrum.scale(VectorScale::LargestOfParts);
        let finite = |parts: [&[f64]; 2]| parts.concat().iter().all(|v| v.is_finite());
        assert!(spectrum.eigenvectors().all(finite));
        spectrum.skip(100);
        assert!(spectrum.eigenvalues().is_empty());
        spectrum.rotate(None).unwrap();
    }
    // Two components, one conflict-free: 0 once for each of those that are.
    let two = graph(7, &[[0, 1], [1, 2], [3, 4], [4, 5], [5, 6]]);
    let two = laplacian(&two, Potential::Absolute(0.25), true);
    let spectrum = MagneticSpectrum::lowest(&two, 7).unwrap();
    assert_eq!(
        spectrum.eigenvalues().iter().filter(|&&v| v == 0.0).count(),
        2
    );

    let ring = graph(5, &[[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]);
    let of = |q: f64| {
        laplacian(&ring, Potential::Absolute(q), true)
            .to_dense()
            .unwrap()
    };
    // 2^50 + 1/4 has its last digit to spare.
    assert_eq!(of((1u64 << 50) as f64 + 0.25), of(0.25));
    assert!(of(f64::MAX).concat().iter().all(|v| v.is_finite()));
    for q in [-0.25, f64::NAN, f64::INFINITY] {
        let error = MagneticLaplacian::builder(&ring, Potential::Absolute(q)).build();
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains(&format!("with the potential {q}")),
            "{error}"
        );
    }
    // A ring of directed edges: eigenvalues 1 − cos(2π·(k/5 + q)).
    let found = laplacian(&ring, Potential::Absolute(0.25), true);
    let found = MagneticSpectrum::lowest(&found, 5).unwrap();
    let mut expected: Vec<f64> = (0..5)
        .map(|k| 1.0 - (2.0 * PI * (f64::from(k) / 5.0 + 0.25)).cos())
        .collect();
    expected.sort_by(f64::total_cmp);
    assert!(worst(found.eigenvalues(), &expected) < 1e-14);
    // The eigenvector that belongs to k turns by one angle a node.
    let largest =
        MagneticSpectrum::largest_eigenvalue(&laplacian(&ring, Potential::Absolute(0.25), true));
    assert!((largest.unwrap() - expected[4]).abs() < 1e-14);
}

#[test]
fn graphs_that_are_too_large_are_refused_with_the_numbers() {
    assert!(MagneticSpectrum::check(4096, 4096).is_ok());
    assert!(MagneticSpectrum::check(1_000_000, 25).is_ok());
    for (n, count, message) in [
        (4097, 4097, "4097 nodes takes 1074266176 bytes"),
        (5000, 4096, "5000 nodes takes 1600000000 bytes"),
        (
            20_000_000,
            25,
            "25 eigenvectors of the Magnetic Laplacian for 20000000 nodes take",
        ),
    ] {
        let error = MagneticSpectrum::check(n, count).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}
