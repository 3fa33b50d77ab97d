//! Theorem 1: on paths and grids, rotation by the first eigenvectors is RoPE.

use std::f64::consts::PI;

use candle_graph::encodings::{EigenvectorScale, Rotational};
use candle_graph::graph::Graph;

use crate::support::{Random, Rows, coordinates, eigenvectors, graph, scores, table, worst};

/// Columns of queries and keys.
const WIDTH: usize = 8;

fn path(n: usize) -> Graph {
    graph(n, (1..n).map(|i| [i - 1, i]))
}

fn cycle(n: usize) -> Graph {
    graph(n, (0..n).map(|i| [i, (i + 1) % n]))
}

/// The grid of `nx` by `ny` nodes, whose node (x, y) is number x + nx·y, without one edge.
fn grid(nx: usize, ny: usize, without: Option<[usize; 2]>) -> Graph {
    let nodes = (0..nx * ny).map(|i| (i, i % nx, i / nx));
    let edges = nodes.flat_map(|(i, x, y)| {
        let right = (x + 1 < nx).then_some([i, i + 1]);
        let down = (y + 1 < ny).then_some([i, i + nx]);
        right.into_iter().chain(down)
    });
    graph(nx * ny, edges.filter(move |edge| Some(*edge) != without))
}

/// The eigenvectors of `graph` from the trivial one on.
fn first(count: usize, graph: &Graph) -> Rows {
    coordinates(&eigenvectors(count, true, EigenvectorScale::Unit), graph)
}

fn column(rows: &Rows, at: usize) -> Vec<f64> {
    rows.iter().map(|row| f64::from(row[at])).collect()
}

/// The largest difference between `found` and ±`expected`, whichever is nearer.
fn off_but_for_sign(found: &[f64], expected: &[f64]) -> f64 {
    let negative: Vec<f64> = expected.iter().map(|v| -v).collect();
    let off = |expected: &[f64]| worst(&[found.to_vec()], &[expected.to_vec()]);
    off(expected).min(off(&negative))
}

/// cos(π(i + ½)/n)·√(2/n) for i from 0 to n − 1.
fn cosine(n: usize) -> Vec<f64> {
    let angle = |i: usize| PI * (i as f64 + 0.5) / n as f64;
    (0..n)
        .map(|i| angle(i).cos() * (2.0 / n as f64).sqrt())
        .collect()
}

#[test]
fn the_first_eigenvector_of_a_path_is_a_cosine() {
    for n in [2, 9, 32] {
        let off = off_but_for_sign(&column(&first(2, &path(n)), 1), &cosine(n));
        assert!(off < 1e-6, "{n} nodes: {off}");
    }
    // Neither the trivial eigenvector nor that of a cycle is.
    let off = off_but_for_sign(&column(&first(2, &path(9)), 0), &cosine(9));
    assert!(off > 0.1, "{off}");
    let off = off_but_for_sign(&column(&first(2, &cycle(9)), 1), &cosine(9));
    assert!(off > 0.1, "{off}");
}

/// `rows` with `columns` replaced by the angles whose cosines they are, up to the factor `scale`:
/// the change of coordinates under which the theorem holds.
fn arccosines(mut rows: Rows, columns: &[usize], scale: f64) -> Rows {
    for row in &mut rows {
        for &column in columns {
            let cosine = (f64::from(row[column]) * scale).clamp(-1.0, 1.0);
            row[column] = cosine.acos() as f32;
        }
    }
    rows
}

/// The frequencies of RoPE for pair `pair` of `pairs`.
fn rope_frequency(pair: usize, pairs: usize) -> f64 {
    10_000f64.powf(-(pair as f64) / pairs as f64)
}

/// q_iᵀ·RoPE(p_j − p_i)·k_j for all nodes, where `angle` gives the angle of a pair for node i.
fn rope(n: usize, q: &Rows, k: &Rows, angle: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    let score = |i: usize, j: usize| -> f64 {
        let pairs = q[i].chunks_exact(2).zip(k[j].chunks_exact(2));
        let turned = pairs.enumerate().map(|(pair, (q, k))| {
            let (sin, cos) = (angle(pair, j) - angle(pair, i)).sin_cos();
            let [a, b, c, d] = [q[0], q[1], k[0], k[1]].map(f64::from);
            cos * (a * c + b * d) + sin * (b * c - a * d)
        });
        turned.sum()
    };
    let row = |i| (0..n).map(|j| score(i, j)).collect();
    (0..n).map(row).collect()
}

/// How far the rotations by the coordinates `t`, which the graph carries, are from those of RoPE
/// with the positions 0 to n − 1, if Ω picks column 1.
fn off_from_sequence(graph: &Graph, t: &Rows) -> f64 {
    let n = graph.num_nodes();
    let edges = graph.edges().iter().copied();
    let carrying = Graph::builder(n).edges(edges).rotational_features(table(t));
    let t = coordinates(&Rotational::Given { dim: 3 }, &carrying.build().unwrap());
    let mut random = Random::new(1);
    let (q, k) = (random.unit_rows(n, WIDTH), random.unit_rows(n, WIDTH));
    // Positions are the angles in units of π/n.
    let frequency = |pair| rope_frequency(pair, WIDTH / 2);
    let picked = |pair| vec![0.0, (frequency(pair) * n as f64 / PI) as f32, 0.0];
    let frequencies = (0..WIDTH / 2).map(picked).collect();
    let expected = rope(n, &q, &k, |pair, i| frequency(pair) * i as f64);
    worst(&scores(&t, &frequencies, &q, &k), &expected)
}

#[test]
fn on_a_path_it_is_rope_of_a_sequence() {
    let n = 16;
    let scale = (n as f64 / 2.0).sqrt();
    let of_path = first(3, &path(n));
    let off = off_from_sequence(&path(n), &arccosines(of_path.clone(), &[1], scale));
    assert!(off < 1e-5, "{off}");
    // Without the change of coordinates, with the trivial eigenvector for the first, and on a cycle
    // it is not.
    let off = off_from_sequence(&path(n), &of_path);
    assert!(off > 0.1, "untransformed: {off}");
    let trivial = of_path.iter().map(|row| vec![row[1], row[0], row[2]]);
    let trivial = arccosines(trivial.collect(), &[1], scale);
    let off = off_from_sequence(&path(n), &trivial);
    assert!(off > 0.1, "trivial: {off}");
    let of_cycle = arccosines(first(3, &cycle(n)), &[1], scale);
    let off = off_from_sequence(&cycle(n), &of_cycle);
    assert!(off > 0.1, "cycle: {off}");
}

/// How far the first two eigenvectors of a graph with the nodes of a grid are from cosines of x
/// and of y, and rotations by them from axial RoPE: half of the pairs by x, half by y.
fn off_from_axes(graph: &Graph, nx: usize, ny: usize) -> [f64; 2] {
    let n = nx * ny;
    let t = first(3, graph);
    let (of_x, of_y) = (cosine(nx), cosine(ny));
    let along_x: Vec<f64> = (0..n).map(|i| of_x[i % nx] / (ny as f64).sqrt()).collect();
    let along_y: Vec<f64> = (0..n).map(|i| of_y[i / nx] / (nx as f64).sqrt()).collect();
    let vectors = off_but_for_sign(&column(&t, 1), &along_x);
    let vectors = vectors.max(off_but_for_sign(&column(&t, 2), &along_y));

    let t = arccosines(t, &[1, 2], (n as f64 / 2.0).sqrt());
    let mut random = Random::new(2);
    let (q, k) = (random.unit_rows(n, WIDTH), random.unit_rows(n, WIDTH));
    let frequency = |pair| rope_frequency(pair % 2, 2);
    let picked = |pair: usize| match pair < 2 {
        true => vec![0.0, (frequency(pair) * nx as f64 / PI) as f32, 0.0],
        false => vec![0.0, 0.0, (frequency(pair) * ny as f64 / PI) as f32],
    };
    let frequencies = (0..WIDTH / 2).map(picked).collect();
    let expected = rope(n, &q, &k, |pair, i| {
        let position = if pair < 2 { i % nx } else { i / nx };
        frequency(pair) * position as f64
    });
    [vectors, worst(&scores(&t, &frequencies, &q, &k), &expected)]
}

#[test]
fn on_a_grid_it_is_rope_along_both_axes() {
    let [vectors, rotations] = off_from_axes(&grid(7, 5, None), 7, 5);
    assert!(vectors < 1e-6, "{vectors}");
    assert!(rotations < 1e-5, "{rotations}");
    // One edge less in the middle, between (3, 2) and (4, 2).
    let [vectors, rotations] = off_from_axes(&grid(7, 5, Some([17, 18])), 7, 5);
    assert!(vectors > 1e-2, "{vectors}");
    assert!(rotations > 1e-2, "{rotations}");
}
