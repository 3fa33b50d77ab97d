//! Remark 1: coordinates follow the nodes, whatever their order, up to the signs and bases of
//! eigenvectors.

use candle_graph::encodings::{EigenvectorScale, Rotational, Rwse, Wave};
use candle_graph::graph::Graph;
use candle_graph::spectral::{Laplacian, LaplacianNorm, MAX_DENSE_BYTES, Spectrum};

use crate::support::{Rows, barbell, coordinates, dot, worst};

/// New numbers of the nodes of [`barbell`].
const ORDER: [u32; 10] = [7, 2, 9, 0, 5, 8, 1, 6, 3, 4];

fn wide(rows: &Rows) -> Vec<Vec<f64>> {
    let row = |row: &Vec<f32>| row.iter().map(|&v| f64::from(v)).collect();
    rows.iter().map(row).collect()
}

/// Products of all pairs of rows: what signs, and bases of whole eigenspaces, do not change.
fn gram(rows: &Rows) -> Vec<Vec<f64>> {
    let rows = wide(rows);
    let row = |a: &Vec<f64>| rows.iter().map(|b| dot(a, b)).collect();
    rows.iter().map(row).collect()
}

/// Rows of new nodes in the order of the old ones.
fn back<T: Clone>(rows: &[T]) -> Vec<T> {
    ORDER
        .iter()
        .map(|&new| rows[new as usize].clone())
        .collect()
}

fn graphs() -> [Graph; 2] {
    let graph = barbell();
    let renumbered = graph.renumbered(&ORDER).unwrap();
    [graph, renumbered]
}

#[test]
fn walks_and_waves_follow_the_nodes() {
    let wave = |laplacian_norm| {
        Rotational::Wave(Wave {
            scales: vec![0.1, 1.0, 5.0],
            laplacian_norm,
        })
    };
    for recipe in [
        Rotational::RandomWalk(Rwse {
            times: (1..=10).collect(),
        }),
        wave(LaplacianNorm::None),
        wave(LaplacianNorm::Sym),
    ] {
        let [before, after] = graphs().map(|graph| coordinates(&recipe, &graph));
        let off = worst(&wide(&back(&after)), &wide(&before));
        assert!(off < 1e-6, "{recipe:?}: {off}");
        let unmoved = worst(&wide(&after), &wide(&before));
        assert!(unmoved > 1e-2, "{recipe:?}: {unmoved}");
    }
}

#[test]
fn eigenvectors_follow_the_nodes_up_to_signs_and_bases() {
    let graphs = graphs();
    for laplacian_norm in [LaplacianNorm::None, LaplacianNorm::Sym] {
        let laplacian = Laplacian::new(&graphs[0], laplacian_norm);
        let spectrum = Spectrum::dense(&laplacian, usize::MAX, MAX_DENSE_BYTES).unwrap();
        let values = spectrum.eigenvalues();
        for (count, trivial, scale) in [
            (3, true, EigenvectorScale::Unit),
            (2, false, EigenvectorScale::Unit),
            (9, false, EigenvectorScale::EffectiveResistance),
        ] {
            // The last eigenvalue is not cut from equal ones.
            let taken = count + usize::from(!trivial);
            let gap = values
                .get(taken)
                .map_or(1.0, |next| next - values[taken - 1]);
            assert!(gap > 1e-3, "{laplacian_norm}: {values:?}");
            let recipe = Rotational::Eigenvectors {
                count,
                trivial,
                laplacian_norm,
                scale,
            };
            let grams = graphs.each_ref().map(|g| gram(&coordinates(&recipe, g)));
            let rows = back(&grams[1]);
            let moved: Vec<Vec<f64>> = rows.iter().map(|row| back(row)).collect();
            let off = worst(&moved, &grams[0]);
            assert!(off < 1e-5, "{recipe:?}: {off}");
            let unmoved = worst(&grams[1], &grams[0]);
            assert!(unmoved > 1e-2, "{recipe:?}: {unmoved}");
        }
    }
}
