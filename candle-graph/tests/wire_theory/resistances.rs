//! Theorem 2: with eigenvectors over the roots of their eigenvalues as coordinates and random
//! frequencies, products of queries and keys shrink with the effective resistance.

use std::f64::consts::TAU;

use candle_graph::encodings::{EigenvectorScale, Rotational};
use candle_graph::graph::Graph;
use candle_graph::spectral::{Laplacian, LaplacianNorm, MAX_DENSE_BYTES, Spectrum};

use crate::support::{
    Random, Rows, barbell, coordinates, dot, eigenvectors, rotated, squared_distances, worst,
};

/// R(i, j) of equation 6, from (L + J/n)⁻¹ by elimination; J/n drops out.
fn resistances(graph: &Graph) -> Vec<Vec<f64>> {
    let n = graph.num_nodes();
    let mut rows = vec![vec![0.0f64; 2 * n]; n];
    for (i, row) in rows.iter_mut().enumerate() {
        row[..n].fill(1.0 / n as f64);
        row[n + i] = 1.0;
    }
    for &[s, t] in graph.edges() {
        rows[s as usize][t as usize] -= 1.0;
        rows[s as usize][s as usize] += 1.0;
    }
    for at in 0..n {
        let size = |row: &usize| rows[*row][at].abs();
        let pivot = (at..n).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap();
        rows.swap(at, pivot);
        let divisor = rows[at][at];
        rows[at].iter_mut().for_each(|v| *v /= divisor);
        let pivot = rows[at].clone();
        let others = rows.iter_mut().enumerate().filter(|(i, _)| *i != at);
        for (_, row) in others {
            let factor = row[at];
            row.iter_mut()
                .zip(&pivot)
                .for_each(|(v, p)| *v -= factor * p);
        }
    }
    let inverse = |i: usize, j: usize| rows[i][n + j];
    let resistance = |i, j| inverse(i, i) + inverse(j, j) - 2.0 * inverse(i, j);
    let row = |i| (0..n).map(|j| resistance(i, j)).collect();
    (0..n).map(row).collect()
}

/// All nontrivial eigenvectors of a connected graph.
fn all(graph: &Graph, scale: EigenvectorScale) -> Rotational {
    eigenvectors(graph.num_nodes() - 1, false, scale)
}

#[test]
fn squared_distances_of_coordinates_are_effective_resistances() {
    let graph = barbell();
    let expected = resistances(&graph);
    // Inside a complete graph of 4, along the path, and from end to end.
    for ([i, j], known) in [([0, 1], 0.5), ([3, 4], 1.0), ([3, 6], 3.0), ([0, 9], 4.0)] {
        assert!((expected[i][j] - known).abs() < 1e-12);
    }
    let off = |recipe: &Rotational| {
        let rows = coordinates(recipe, &graph);
        worst(&squared_distances(&rows), &expected)
    };
    let found = off(&all(&graph, EigenvectorScale::EffectiveResistance));
    assert!(found < 1e-6, "{found}");
    // Eigenvectors as they are, one too few, and those of another Laplacian do not give them.
    let unit = off(&all(&graph, EigenvectorScale::Unit));
    assert!(unit > 0.5, "{unit}");
    let fewer = eigenvectors(8, false, EigenvectorScale::EffectiveResistance);
    assert!(off(&fewer) > 0.05, "{}", off(&fewer));
    let normalised = Rotational::Eigenvectors {
        count: 9,
        trivial: false,
        laplacian_norm: LaplacianNorm::Sym,
        scale: EigenvectorScale::EffectiveResistance,
    };
    assert!(off(&normalised) > 0.5, "{}", off(&normalised));
}

const WIDTH: usize = 16;
const DRAWS: usize = 20_000;
/// Standard deviation of the frequencies.
const OMEGA: f64 = 0.3;
/// Pairs of nodes with the effective resistances ½, 1, 3 and 4.
const PAIRS: [[usize; 2]; 4] = [[0, 1], [3, 4], [3, 6], [0, 9]];

/// One query and one key, both of length about 1, and their product.
fn query_and_key() -> (Vec<f32>, Vec<f32>, f64) {
    let rows = Random::new(3).unit_rows(2, WIDTH);
    let (query, other) = (rows[0].clone(), &rows[1]);
    let key: Vec<f32> = query.iter().zip(other).map(|(q, o)| q + 0.5 * o).collect();
    let wide = |row: &[f32]| row.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    let product = dot(&wide(&query), &wide(&key));
    (query, key, product)
}

/// The products of the rotated query and key of every pair of [`PAIRS`], one a draw of Ω.
fn products(t: &Rows, seed: u32) -> Vec<Vec<f64>> {
    let mut random = Random::new(seed);
    let (query, key, _) = query_and_key();
    let row = |random: &mut Random| {
        let entry = |_| (OMEGA * random.normal()) as f32;
        (0..t[0].len()).map(entry).collect()
    };
    let draws = DRAWS * WIDTH / 2;
    let frequencies: Rows = (0..draws).map(|_| row(&mut random)).collect();
    // All draws side by side.
    let of_nodes = |row: &[f32]| -> Vec<Vec<f64>> {
        rotated(&vec![row.repeat(DRAWS); t.len()], t, &frequencies)
    };
    let (queries, keys) = (of_nodes(&query), of_nodes(&key));
    let of_pair = |&[i, j]: &[usize; 2]| {
        let draws = queries[i].chunks_exact(WIDTH);
        let draws = draws.zip(keys[j].chunks_exact(WIDTH));
        draws.map(|(q, k)| dot(q, k)).collect()
    };
    PAIRS.iter().map(of_pair).collect()
}

/// Whether the mean of `products` is q·k·`factor` within four standard errors and `rest`·q·k.
fn is_mean(products: &[f64], factor: f64, rest: f64) -> bool {
    let (_, _, product) = query_and_key();
    let count = products.len() as f64;
    let mean = products.iter().sum::<f64>() / count;
    let squares: f64 = products.iter().map(|p| (p - mean) * (p - mean)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    (mean - product * factor).abs() <= 4.0 * error + rest * product.abs()
}

/// The factor 1 − ω²R/2, and the most by which the exact exp(−ω²R/2) differs from it: half the
/// square of its argument.
fn theorem(resistance: f64) -> (f64, f64) {
    let exponent = OMEGA * OMEGA * resistance / 2.0;
    (1.0 - exponent, exponent * exponent / 2.0)
}

/// For every pair of [`PAIRS`], whether Theorem 2 holds for the coordinates `t`.
fn holds(t: &Rows, resistances: &[Vec<f64>], seed: u32) -> Vec<bool> {
    let of_pairs = PAIRS.iter().zip(products(t, seed));
    let held = of_pairs.map(|(&[i, j], products)| {
        let (factor, rest) = theorem(resistances[i][j]);
        is_mean(&products, factor, rest)
    });
    held.collect()
}

#[test]
fn the_mean_over_random_frequencies_shrinks_with_the_resistance() {
    let graph = barbell();
    let expected = resistances(&graph);
    let t = coordinates(&all(&graph, EigenvectorScale::EffectiveResistance), &graph);
    assert_eq!(holds(&t, &expected, 4), [true; 4]);
    // No other law fits: not the wrong sign, not ω instead of its square, not without the half.
    for (&[i, j], products) in PAIRS.iter().zip(products(&t, 4)) {
        let (resistance, (_, rest)) = (expected[i][j], theorem(expected[i][j]));
        let exponent = OMEGA * OMEGA * resistance / 2.0;
        for (law, factor) in [
            ("wrong sign", 1.0 + exponent),
            ("ω without square", 1.0 - OMEGA * resistance / 2.0),
            ("no half", 1.0 - 2.0 * exponent),
            ("no resistance", 1.0),
        ] {
            assert!(!is_mean(&products, factor, rest), "{law}, {i} and {j}");
        }
    }
    // Eigenvectors as they are have the distance √2 between any two nodes.
    let unit = coordinates(&all(&graph, EigenvectorScale::Unit), &graph);
    assert_eq!(holds(&unit, &expected, 4), [false; 4]);
}

/// Turns columns `a` and `b` of `rows` by `angle`.
fn turn(rows: &mut Rows, [a, b]: [usize; 2], angle: f64) {
    let (sin, cos) = angle.sin_cos();
    for row in rows {
        let (x, y) = (f64::from(row[a]), f64::from(row[b]));
        row[a] = (cos * x - sin * y) as f32;
        row[b] = (sin * x + cos * y) as f32;
    }
}

#[test]
fn signs_and_bases_of_eigenvectors_do_not_change_the_mean() {
    let graph = barbell();
    let expected = resistances(&graph);
    let laplacian = Laplacian::new(&graph, LaplacianNorm::None);
    let spectrum = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap();
    let values = &spectrum.eigenvalues()[1..];
    let pairs = (0..9).flat_map(|b| (0..b).map(move |a| [a, b]));
    let (same, different): (Vec<_>, Vec<_>) =
        pairs.partition(|&[a, b]| (values[a] - values[b]).abs() < 1e-9);
    // The complete graphs bring a multiple eigenvalue.
    assert!(same.len() >= 3, "{values:?}");

    let t = coordinates(&all(&graph, EigenvectorScale::EffectiveResistance), &graph);
    let mut random = Random::new(5);
    let mut gauged = t.clone();
    for column in (0..9).filter(|_| random.uniform() < 0.5) {
        gauged.iter_mut().for_each(|row| row[column] = -row[column]);
    }
    for &pair in &same {
        turn(&mut gauged, pair, TAU * random.uniform());
    }
    let off = worst(&squared_distances(&gauged), &squared_distances(&t));
    assert!(off < 1e-5, "{off}");
    assert_eq!(holds(&gauged, &expected, 6), [true; 4]);
    // Single draws do change.
    let (before, after) = (products(&t, 6), products(&gauged, 6));
    assert!(worst(&before, &after) > 0.1);

    // Turning among different eigenvalues is no such freedom.
    let mut mixed = coordinates(&all(&graph, EigenvectorScale::Unit), &graph);
    turn(&mut mixed, different[0], TAU / 8.0);
    for row in &mut mixed {
        for (entry, value) in row.iter_mut().zip(values) {
            *entry = (f64::from(*entry) / value.sqrt()) as f32;
        }
    }
    let off = worst(&squared_distances(&mixed), &squared_distances(&t));
    assert!(off > 0.1, "{off}");
    assert!(holds(&mixed, &expected, 6).contains(&false));
}
