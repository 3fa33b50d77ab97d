//! Graphs of points against a comparison of all pairs, and under motions of space.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::PointCloud;
use crate::spectral::{Laplacian, LaplacianNorm, MAX_DENSE_BYTES, Spectrum};

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Both directions of every pair that `near` gives in one.
fn both_ways(n: usize, near: impl Fn(usize) -> Vec<usize>) -> Vec<[u32; 2]> {
    let mut edges = Vec::new();
    for i in 0..n {
        for j in near(i) {
            edges.push([i as u32, j as u32]);
            edges.push([j as u32, i as u32]);
        }
    }
    edges.sort_unstable();
    edges.dedup();
    edges
}

fn all_nearest(dim: usize, points: &[f64], k: usize) -> Vec<[u32; 2]> {
    let points: Vec<&[f64]> = points.chunks(dim).collect();
    both_ways(points.len(), |i| {
        let mut others: Vec<usize> = (0..points.len()).filter(|&j| j != i).collect();
        others.sort_by(|&a, &b| {
            let distance = |j: usize| squared_distance(points[i], points[j]);
            distance(a).total_cmp(&distance(b)).then(a.cmp(&b))
        });
        others.truncate(k);
        others
    })
}

fn all_within(dim: usize, points: &[f64], radius: f64) -> Vec<[u32; 2]> {
    let points: Vec<&[f64]> = points.chunks(dim).collect();
    both_ways(points.len(), |i| {
        let near = |&j: &usize| squared_distance(points[i], points[j]) <= radius * radius;
        (0..points.len()).filter(|&j| j != i).filter(near).collect()
    })
}

fn sorted(graph: &crate::graph::Graph) -> Vec<[u32; 2]> {
    let mut edges = graph.edges().to_vec();
    edges.sort_unstable();
    edges
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn edges_are_those_of_a_comparison_of_all_pairs(
        dim in 1usize..=5,
        // Few values make many equal points and equal distances, many make none.
        values in proptest::sample::select(vec![2u32, 4, 1_000_000]),
        numbers in proptest::collection::vec(any::<u32>(), 10..300),
        k in 1usize..12,
        radius in 0.0f64..2.0,
    ) {
        let whole = numbers.len() / dim * dim;
        let points: Vec<f64> = numbers[..whole]
            .iter()
            .map(|x| 3.0 * f64::from(x % values) / f64::from(values) - 1.0)
            .collect();
        prop_assume!(k < whole / dim);
        let cloud = PointCloud::new(dim, points.clone()).unwrap();
        let graph = cloud.nearest_neighbours(k).unwrap();
        prop_assert_eq!(sorted(&graph), all_nearest(dim, &points, k));
        let graph = cloud.within(radius).unwrap();
        prop_assert_eq!(sorted(&graph), all_within(dim, &points, radius));
        prop_assert_eq!(graph.node_features().unwrap().width(), dim);
    }
}

#[test]
fn equal_points_are_no_trouble_however_many() {
    // The third coordinate is always 0, and more points than any bucket holds are one.
    let mut points = vec![0.5f32; 3 * 3000];
    points.iter_mut().skip(2).step_by(3).for_each(|z| *z = 0.0);
    points[3 * 2999] = 0.75;
    let cloud = PointCloud::new(3, points).unwrap();
    let graph = cloud.nearest_neighbours(2).unwrap();
    // The first points are nearest to all: 0 to 1 and 2, 1 to 0 and 2, everyone else to 0 and 1.
    let mut expected = both_ways(3000, |i| (0..3).filter(|&j| j != i).take(2).collect());
    expected.sort_unstable();
    assert_eq!(sorted(&graph), expected);
    assert_eq!(
        PointCloud::new(1, [0.0, -0.0])
            .unwrap()
            .within(0.0)
            .unwrap()
            .num_edges(),
        2
    );
}

#[test]
fn equally_near_points_count_by_number() {
    // Point 0 in the middle of four equally near ones.
    let cross = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0];
    let graph = PointCloud::new(2, cross)
        .unwrap()
        .nearest_neighbours(1)
        .unwrap();
    assert_eq!(
        sorted(&graph),
        both_ways(5, |i| vec![if i == 0 { 1 } else { 0 }])
    );
}

#[test]
fn what_is_no_cloud_is_refused() {
    let error = |dim: usize, points: &[f64]| {
        PointCloud::new(dim, points.to_vec())
            .unwrap_err()
            .to_string()
    };
    assert!(error(3, &[]).contains("no nodes"));
    assert!(error(0, &[1.0]).contains("0 coordinates a point"));
    assert!(error(17, &[1.0; 17]).contains("17 coordinates a point"));
    assert!(error(3, &[1.0; 4]).contains("4 numbers"));
    assert!(error(2, &[0.0, 1.0, 2.0, f64::NAN]).contains("row 1, column 1"));
    assert!(error(1, &[1e300]).contains("not finite as a 32-bit"));
    let cloud = PointCloud::new(1, [0.0f32, 1.0, 2.0]).unwrap();
    for k in [0, 3, usize::MAX] {
        let error = cloud.nearest_neighbours(k).unwrap_err().to_string();
        assert!(
            error.contains("nearest neighbours among 3 points"),
            "{error}"
        );
    }
    assert!(cloud.nearest_neighbours(2).is_ok());
    for radius in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(cloud.within(radius).is_err());
    }
    // One point has no neighbours, but may stand alone.
    let one = PointCloud::new(3, [0.0; 3]).unwrap();
    assert!(one.nearest_neighbours(1).is_err());
    assert_eq!(one.within(1.0).unwrap().num_edges(), 0);
}

/// `points` turned about two axes and moved.
fn moved(points: &[f64]) -> Vec<f64> {
    let ((s, c), (t, d)) = (0.7f64.sin_cos(), 1.9f64.sin_cos());
    let turned = points.chunks(3).flat_map(|p| {
        let (x, y) = (c * p[0] - s * p[1], s * p[0] + c * p[1]);
        [x + 3.0, d * y - t * p[2] - 1.0, t * y + d * p[2] + 0.5]
    });
    turned.collect()
}

/// The products of every two rows of `[n, columns.len()]`.
fn gram(columns: &[&[f64]]) -> Vec<f64> {
    let n = columns[0].len();
    let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    pairs
        .map(|(i, j)| columns.iter().map(|c| c[i] * c[j]).sum())
        .collect()
}

fn worst(a: &[f64], b: &[f64]) -> f64 {
    let off = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    off.fold(0.0, f64::max)
}

#[test]
fn motions_of_space_change_coordinates_but_neither_edges_nor_eigenvectors() {
    // Roots of numbers without squares are far from any symmetry.
    let points: Vec<f64> = (0..360)
        .map(|i| (f64::from(i) * 2f64.sqrt() * 1.7).sin())
        .collect();
    let there = moved(&points);
    let spectra = [&points, &there].map(|points| {
        let graph = PointCloud::new(3, points.clone())
            .unwrap()
            .nearest_neighbours(8)
            .unwrap();
        let laplacian = Laplacian::new(&graph, LaplacianNorm::Sym);
        (
            sorted(&graph),
            Spectrum::dense(&laplacian, 10, MAX_DENSE_BYTES).unwrap(),
        )
    });
    let [(edges, here), (edges_there, gone)] = &spectra;
    assert_eq!(edges, edges_there);
    let products = [here, gone].map(|s| gram(&s.eigenvectors().collect::<Vec<_>>()));
    assert!(worst(&products[0], &products[1]) < 1e-9);
    let cartesian = [&points, &there].map(|points| {
        let axis = |at: usize| {
            points
                .iter()
                .skip(at)
                .step_by(3)
                .copied()
                .collect::<Vec<f64>>()
        };
        let axes = [axis(0), axis(1), axis(2)];
        gram(&axes.iter().map(Vec::as_slice).collect::<Vec<_>>())
    });
    assert!(worst(&cartesian[0], &cartesian[1]) > 1.0);
}
