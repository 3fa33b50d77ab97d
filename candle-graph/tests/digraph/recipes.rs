//! Encodings as a model asks for them.

use candle_graph::encodings::{
    DIRECTED_WALK, DirectedWalk, EncodingPlan, EncodingRecipe, MAGNET_LAPLACIAN,
    MAGNET_LARGEST_EIGENVALUE, MAGNETIC_EIGENVALUES, MAGNETIC_EIGENVECTORS_IMAG,
    MAGNETIC_EIGENVECTORS_REAL, MagNet, Magnetic, SVD, Svd,
};
use candle_graph::graph::Graph;
use candle_graph::spectral::{MagneticSpectrum, Potential};

use crate::support::{Numbers, graph, worst};

fn magnetic(k: usize, q: Potential) -> Magnetic {
    Magnetic {
        k,
        excluded: 0,
        q,
        symmetric_norm: true,
        sign_rotate: true,
        root: None,
        l2_norm: true,
        separate_parts: false,
    }
}

fn walk(steps: usize, restart: Option<f64>, also_reverse: bool) -> DirectedWalk {
    DirectedWalk {
        steps,
        restart,
        also_reverse,
    }
}

fn plan(recipe: EncodingRecipe) -> EncodingPlan {
    EncodingPlan::new(vec![recipe]).unwrap()
}

#[test]
fn arrays_hold_the_spectrum_and_zeros_beyond_it() {
    let mut numbers = Numbers(7);
    let graph = numbers.graph(6, 12);
    let recipe = Magnetic {
        excluded: 1,
        ..magnetic(8, Potential::Relative(0.25))
    };
    let spectrum = recipe.spectrum(&graph).unwrap();
    assert_eq!(spectrum.eigenvalues().len(), 5);
    let encoding = plan(EncodingRecipe::Magnetic(recipe))
        .compute(&graph, 0)
        .unwrap();
    let values = &encoding.get(MAGNETIC_EIGENVALUES).unwrap().data;
    let names = [MAGNETIC_EIGENVECTORS_REAL, MAGNETIC_EIGENVECTORS_IMAG];
    let parts = names.map(|name| &encoding.get(name).unwrap().data);
    assert_eq!((values.len(), parts[0].len(), parts[1].len()), (8, 48, 48));
    for column in 0..8 {
        let value = spectrum.eigenvalues().get(column).copied().unwrap_or(0.0);
        assert_eq!(values[column], value as f32);
        let vector = spectrum.eigenvectors().nth(column);
        for node in 0..6 {
            for (which, part) in parts.iter().enumerate() {
                let expected = vector.map_or(0.0, |vector| vector[which][node]);
                assert_eq!(part[node * 8 + column], expected as f32);
            }
        }
    }
    // Without a potential the vectors are real, of unit length, and of no other scale.
    let real = Magnetic {
        l2_norm: false,
        separate_parts: true,
        ..magnetic(3, Potential::Relative(0.0))
    };
    let encoding = plan(EncodingRecipe::Magnetic(real))
        .compute(&graph, 0)
        .unwrap();
    assert!(encoding.get(MAGNETIC_EIGENVECTORS_IMAG).is_none());
    let vectors = &encoding.get(MAGNETIC_EIGENVECTORS_REAL).unwrap().data;
    let square: f32 = vectors.iter().step_by(3).map(|v| v * v).sum();
    assert!((square - 1.0).abs() < 1e-6);
}

#[test]
fn walks_are_powers_and_page_rank_solves_its_equation() {
    let mut numbers = Numbers(8);
    // 19 nodes: more than two blocks of targets, the last one not full; some are sinks.
    let n = 19;
    let forward = numbers.graph(n, 30);
    let backward = forward.edges().iter().map(|&[s, t]| [t, s]);
    let backward = Graph::builder(n).edges(backward).build().unwrap();
    let (steps, p) = (4, 0.05);
    let recipe = walk(steps, Some(p), true);
    let found = recipe.probabilities(&forward).unwrap();
    let channels = recipe.channels();
    assert_eq!((channels, found.len()), (10, n * n * 10));
    let channel = |k: usize| -> Vec<f64> {
        let entry = |at: usize| found[(at % n * n + at / n) * channels + k];
        (0..n * n).map(entry).collect()
    };
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> {
        let entry = |at: usize| (0..n).map(|u| a[at / n * n + u] * b[u * n + at % n]).sum();
        (0..n * n).map(entry).collect()
    };
    let mut sinks = 0;
    for (way, graph) in [&forward, &backward].into_iter().enumerate() {
        let mut step = vec![0.0; n * n];
        let degrees = graph.out_degrees();
        for &[s, t] in graph.edges() {
            step[s as usize * n + t as usize] += 1.0 / f64::from(degrees[s as usize]);
        }
        for (node, _) in degrees.iter().enumerate().filter(|(_, d)| **d == 0) {
            step[node * n + node] = 1.0;
            sinks += 1;
        }
        let mut power = step.clone();
        for k in 0..steps {
            assert!(worst(&channel(way * 5 + k), &power) < 1e-14);
            power = product(&power, &step);
        }
        // Π = p·I + (1 − p)·T·Π.
        let rank = channel(way * 5 + steps);
        let mut expected: Vec<f64> = product(&step, &rank)
            .iter()
            .map(|v| (1.0 - p) * v)
            .collect();
        (0..n).for_each(|i| expected[i * n + i] += p);
        assert!(worst(&rank, &expected) < 1e-13);
        for row in rank.chunks_exact(n) {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
    assert!(sinks > 2);
    // The same alone, in f32, under the agreed name.
    let encoding = plan(EncodingRecipe::DirectedWalk(recipe))
        .compute(&forward, 0)
        .unwrap();
    let stored = &encoding.get(DIRECTED_WALK).unwrap().data;
    assert!(stored.iter().zip(&found).all(|(a, b)| *a == *b as f32));
    let alone = walk(0, Some(p), false).probabilities(&forward).unwrap();
    let rank: Vec<f64> = found.chunks_exact(channels).map(|row| row[steps]).collect();
    assert!(worst(&alone, &rank) < 1e-15);
}

#[test]
fn pairs_of_one_edge_stand_where_attention_reads_them() {
    // 0 -> 1 only. Pair (source 0, target 1) is row 1·2 + 0.
    let one = graph(2, &[[0, 1]]);
    let steps = walk(1, None, true).probabilities(&one).unwrap();
    // Rows (0,0), (1,0), (0,1), (1,1) as (source, target); forward, then reversed.
    assert_eq!(steps, [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    let recipe = MagNet {
        q: Potential::Absolute(0.25),
    };
    let encoding = plan(EncodingRecipe::MagNet(recipe))
        .compute(&one, 0)
        .unwrap();
    let laplacian = &encoding.get(MAGNET_LAPLACIAN).unwrap().data;
    // L[0, 1] = −exp(i·π/2) = −i.
    assert_eq!(*laplacian, [1.0, 0.0, 0.0, 1.0, 0.0, -1.0, 1.0, 0.0]);
    let largest = &encoding.get(MAGNET_LARGEST_EIGENVALUE).unwrap().data;
    assert!((largest[0] - 2.0).abs() < 1e-6);
}

#[test]
fn the_largest_eigenvalue_is_the_last_one() {
    let mut numbers = Numbers(9);
    for n in [1, 2, 9, 40] {
        let graph = numbers.graph(n, 2 * n);
        let laplacian = MagNet {
            q: Potential::Relative(0.25),
        };
        let laplacian = laplacian.laplacian(&graph).unwrap();
        let all = MagneticSpectrum::lowest(&laplacian, n).unwrap();
        let largest = MagneticSpectrum::largest_eigenvalue(&laplacian).unwrap();
        assert!((largest - all.eigenvalues()[n - 1]).abs() < 1e-13);
    }
}

#[test]
fn singular_vectors_make_up_the_matrix_of_counted_edges() {
    let mut numbers = Numbers(10);
    let n = 12;
    // So many edges that some are repeated.
    let graph = numbers.graph(n, 80);
    let mut adjacency = vec![0.0; n * n];
    for &[s, t] in graph.edges() {
        adjacency[s as usize * n + t as usize] += 1.0;
    }
    assert!(adjacency.iter().any(|&count| count > 1.0));
    let recipe = Svd { rank: 15 };
    let found = recipe.decompose(&graph).unwrap();
    assert_eq!(found.values.len(), n);
    assert!(found.values.is_sorted_by(|a, b| a >= b));
    for column in found.left.chunks_exact(n) {
        let most = column.iter().map(|v| v.abs()).fold(0.0, f64::max);
        assert!(column.contains(&most));
    }
    let encoding = plan(EncodingRecipe::Svd(recipe))
        .compute(&graph, 0)
        .unwrap();
    let rows: Vec<&[f32]> = encoding.get(SVD).unwrap().data.chunks_exact(30).collect();
    let entry = |at: usize| {
        let (left, right) = (&rows[at / n][..15], &rows[at % n][15..]);
        left.iter().zip(right).map(|(a, b)| f64::from(a * b)).sum()
    };
    let product: Vec<f64> = (0..n * n).map(entry).collect();
    assert!(worst(&product, &adjacency) < 1e-5);
    assert!(
        rows.iter()
            .all(|row| row[12..15] == [0.0; 3] && row[27..] == [0.0; 3])
    );
    // Nothing to decompose.
    let empty = Graph::builder(3).build().unwrap();
    assert_eq!(Svd { rank: 2 }.decompose(&empty).unwrap().values, [0.0; 2]);
}

#[test]
fn recipes_are_read_as_they_are_written_and_nonsense_is_refused() {
    let read = |text: &str| serde_json::from_str::<EncodingPlan>(text);
    let good = r#"[{"kind":"magnetic","k":25,"q":{"relative":0.25},"symmetric_norm":true,
        "sign_rotate":true,"l2_norm":true},
        {"kind":"directed_walk","steps":3,"restart":0.05,"also_reverse":true},
        {"kind":"svd","rank":8},{"kind":"magnet","q":{"absolute":0.1}}]"#;
    let plan = read(good).unwrap();
    let expected = [
        EncodingRecipe::Magnetic(magnetic(25, Potential::Relative(0.25))),
        EncodingRecipe::DirectedWalk(walk(3, Some(0.05), true)),
        EncodingRecipe::Svd(Svd { rank: 8 }),
        EncodingRecipe::MagNet(MagNet {
            q: Potential::Absolute(0.1),
        }),
    ];
    assert_eq!(plan.recipes(), expected);
    assert_eq!(read(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    assert_ne!(
        magnetic(3, Potential::Relative(0.1)),
        magnetic(3, Potential::Absolute(0.1))
    );
    assert_ne!(walk(3, Some(0.1), false), walk(3, Some(0.2), false));
    let maglap = |fields: &str| {
        format!(r#"[{{"kind":"magnetic","symmetric_norm":true,"l2_norm":true,{fields}}}]"#)
    };
    for (bad, message) in [
        (
            maglap(r#""k":0,"q":{"absolute":0.1},"sign_rotate":true"#),
            "with 0 eigenvectors",
        ),
        (
            maglap(r#""k":3,"q":{"absolute":-0.1},"sign_rotate":true"#),
            "the potential -0.1",
        ),
        (
            maglap(r#""k":3,"excluded":5000,"q":{"absolute":0.1},"sign_rotate":true"#),
            "with 5000 excluded eigenvectors",
        ),
        (
            maglap(r#""k":3,"q":{"absolute":0.1},"sign_rotate":false,"root":2"#),
            "the root node 2",
        ),
        (
            r#"[{"kind":"directed_walk","steps":0}]"#.to_string(),
            "directed walks of 0 steps",
        ),
        (
            r#"[{"kind":"directed_walk","steps":1,"restart":0}]"#.to_string(),
            "restart probability 0;",
        ),
        (
            r#"[{"kind":"directed_walk","steps":1,"restart":1.5}]"#.to_string(),
            "restart probability 1.5;",
        ),
        (r#"[{"kind":"svd","rank":0}]"#.to_string(), "SVD of rank 0"),
        (
            r#"[{"kind":"magnet","q":{"relative":-1}}]"#.to_string(),
            "the potential -1",
        ),
    ] {
        let error = read(&bad).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn graphs_that_do_not_fit_a_recipe_are_refused_before_any_work() {
    let large = Graph::builder(5000).id("five").build().unwrap();
    let rooted = Magnetic {
        root: Some(7),
        ..magnetic(3, Potential::Relative(0.25))
    };
    let small = graph(4, &[[0, 1]]);
    for (recipe, graph, message) in [
        (
            EncodingRecipe::Magnetic(rooted),
            &small,
            "after node 7, but the graph has 4 nodes",
        ),
        (
            EncodingRecipe::Magnetic(magnetic(4000, Potential::Relative(0.25))),
            &large,
            "graph \"five\": spectrum: the dense Magnetic Laplacian for 5000 nodes",
        ),
        (
            EncodingRecipe::MagNet(MagNet {
                q: Potential::Absolute(0.1),
            }),
            &large,
            "5000 nodes takes 1600000000 bytes",
        ),
        (
            EncodingRecipe::Svd(Svd { rank: 2 }),
            &large,
            "5000 nodes takes 1200000000 bytes",
        ),
        (
            EncodingRecipe::DirectedWalk(walk(1, Some(1e-9), false)),
            &large,
            "restart probability 0.000000001 for 5000 nodes",
        ),
    ] {
        let plan = plan(recipe);
        for error in [
            plan.check_bytes(graph, 0).unwrap_err(),
            plan.compute(graph, 0).unwrap_err(),
        ] {
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}
