//! Equality with the official code.

use std::path::{Path, PathBuf};

use candle_graph::encodings::{DirectedWalk, MagNet, Magnetic, Svd};
use candle_graph::graph::Graph;
use candle_graph::spectral::{MagneticLaplacian, MagneticSpectrum, Potential};
use serde_json::Value;

use crate::support::{Recorded, worst};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/digraph")
}

/// The names and options of the recorded configurations.
fn configs() -> Vec<(String, Magnetic)> {
    let text = std::fs::read(fixtures().join("configs.json")).unwrap();
    let configs: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let read = |config: &Value| {
        let flag = |name: &str| config[name].as_bool().unwrap();
        let count = |name: &str| config[name].as_u64().unwrap() as usize;
        let q = config["q"].as_f64().unwrap();
        let recipe = Magnetic {
            k: count("k"),
            excluded: count("k_excl"),
            q: match flag("q_absolute") {
                true => Potential::Absolute(q),
                false => Potential::Relative(q),
            },
            symmetric_norm: flag("use_symmetric_norm"),
            sign_rotate: flag("sign_rotate"),
            root: None,
            l2_norm: flag("l2_norm"),
            separate_parts: flag("norm_comps_sep"),
        };
        (config["name"].as_str().unwrap().to_string(), recipe)
    };
    configs.iter().map(read).collect()
}

/// Every recorded graph that is at hand: those of the repository, and all if the shared folder is
/// there.
fn each_graph(check: impl Fn(&Recorded, &str)) {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    let folders = [fixtures(), shared.join("goldens/digraph/encodings")];
    let mut seen = 0;
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|e| e == "safetensors")) {
            check(&Recorded::read(&file), &file.display().to_string());
            seen += 1;
        }
    }
    assert!(seen >= 6);
}

/// A vector as pairs of parts, row-major `[n, 2]`.
fn interleaved(real: &[f64], imaginary: &[f64]) -> Vec<f64> {
    real.iter()
        .zip(imaginary)
        .flat_map(|(a, b)| [*a, *b])
        .collect()
}

#[test]
fn magnetic_laplacians_are_those_that_were_decomposed() {
    each_graph(|recorded, place| {
        let mut compared = 0;
        for (name, recipe) in configs() {
            let [real, imaginary] = ["real", "imag"].map(|part| format!("{name}.laplacian_{part}"));
            if !recorded.has(&real) {
                continue;
            }
            let laplacian = MagneticLaplacian::builder(&recorded.graph, recipe.q)
                .symmetric_norm(recipe.symmetric_norm)
                .build()
                .unwrap();
            let ours = laplacian.to_dense().unwrap();
            let off = worst(&ours[0], &recorded.values(&real));
            assert!(off < 1e-14, "{place}, {name}: {off}");
            let zeros = || vec![0.0; ours[1].len()];
            let theirs = match recorded.has(&imaginary) {
                true => recorded.values(&imaginary),
                false => zeros(),
            };
            let off = worst(&ours[1], &theirs);
            assert!(off < 1e-14, "{place}, {name}: {off}");
            compared += 1;
        }
        assert!(compared >= 5, "{place}");
    });
}

#[test]
fn eigenvalues_and_determined_eigenvectors_are_the_official_ones() {
    let determined = std::sync::atomic::AtomicUsize::new(0);
    each_graph(|recorded, place| {
        for (name, recipe) in configs() {
            let place = format!("{place}, {name}");
            let ours = recipe.spectrum(&recorded.graph).unwrap();
            let theirs = recorded.values(&format!("{name}.eigenvalues"));
            let off = worst(ours.eigenvalues(), &theirs);
            assert!(off < 1e-9, "{place}: eigenvalues are {off} off");

            let real = recorded.columns(&format!("{name}.eigenvectors_real"));
            let imaginary = match recipe.is_complex() {
                true => recorded.columns(&format!("{name}.eigenvectors_imag")),
                false => vec![vec![0.0; recorded.graph.num_nodes()]; real.len()],
            };
            for (flag, up_to_sign) in [("well_determined", false), ("determined_up_to_sign", true)]
            {
                let flag = format!("{name}.{flag}");
                if !recorded.has(&flag) {
                    continue;
                }
                let flags = recorded.values(&flag);
                let parts = real.iter().zip(&imaginary);
                for (at, (ours, (real, imaginary))) in ours.eigenvectors().zip(parts).enumerate() {
                    if flags[at] != 1.0 {
                        continue;
                    }
                    let ours = interleaved(ours[0], ours[1]);
                    let theirs = interleaved(real, imaginary);
                    let negated: Vec<f64> = theirs.iter().map(|v| -v).collect();
                    let mut off = worst(&ours, &theirs);
                    if up_to_sign {
                        off = off.min(worst(&ours, &negated));
                    }
                    assert!(off < 1e-6, "{place}: vector {at} is {off} off");
                    determined.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
            }

            // All vectors, whatever is undetermined: they span the same spaces.
            if recipe.separate_parts {
                continue;
            }
            let all = MagneticSpectrum::lowest(
                &MagneticLaplacian::builder(&recorded.graph, recipe.q)
                    .symmetric_norm(recipe.symmetric_norm)
                    .build()
                    .unwrap(),
                usize::MAX,
            );
            let mut all = all.unwrap();
            // Whole spaces only: the one that the excluded vectors cut is left out.
            let values = all.eigenvalues();
            let same = |at: &usize| values[*at] - values[*at - 1] < 1e-6;
            let whole = match recipe.excluded {
                0 => 0,
                excluded => (excluded..values.len()).find(|at| !same(at)).unwrap(),
            };
            all.skip(whole);
            let left_out = whole - recipe.excluded;
            let unit = |[real, imaginary]: [&[f64]; 2]| {
                let length = real
                    .iter()
                    .chain(imaginary)
                    .map(|v| v * v)
                    .sum::<f64>()
                    .sqrt();
                [real, imaginary].map(|part| part.iter().map(|v| v / length).collect::<Vec<_>>())
            };
            let parts = real.iter().zip(&imaginary);
            let theirs: Vec<_> = parts.map(|(a, b)| unit([a, b])).collect();
            let off = all.subspace_error(&theirs[left_out..]);
            assert!(off < 1e-7, "{place}: recorded spaces are {off} off");
            let ours: Vec<_> = ours.eigenvectors().map(unit).collect();
            let off = all.subspace_error(&ours[left_out..]);
            assert!(off < 1e-9, "{place}: our spaces are {off} off");
        }
    });
    assert!(determined.into_inner() >= 250);
}

#[test]
fn walks_are_the_official_ones_as_far_as_f32_tells() {
    each_graph(|recorded, place| {
        let n = recorded.graph.num_nodes();
        let walk = |steps, restart| DirectedWalk {
            steps,
            restart: Some(restart),
            also_reverse: true,
        };
        for (recipe, name) in [(walk(3, 0.05), "rw_k3_ppr0.05"), (walk(0, 0.1), "ppr0.1")] {
            let ours = recipe.probabilities(&recorded.graph).unwrap();
            let channels = recipe.channels();
            for (way, direction) in ["forward", "reverse"].into_iter().enumerate() {
                let theirs = recorded.values(&format!("{name}_{direction}"));
                let theirs: Vec<&[f64]> = theirs.chunks_exact(channels / 2).collect();
                for s in 0..n {
                    for t in 0..n {
                        let row = &ours[(t * n + s) * channels..][..channels];
                        let ours = &row[way * channels / 2..][..channels / 2];
                        let off = worst(ours, theirs[s * n + t]);
                        assert!(
                            off < 2e-6,
                            "{place}, {name}, {direction}, {s} to {t}: {off}"
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn singular_vectors_span_the_official_spaces_and_are_equal_up_to_sign() {
    let single = std::sync::atomic::AtomicUsize::new(0);
    each_graph(|recorded, place| {
        let n = recorded.graph.num_nodes();
        // The recorded singular values are those of the graph with each edge once; the vectors are
        // the model's, which counts edges.
        let mut edges = recorded.graph.edges().to_vec();
        edges.sort_unstable();
        edges.dedup();
        let simple = Graph::builder(n).edges(edges).build().unwrap();
        let simple = Svd { rank: n }.decompose(&simple).unwrap();
        let theirs = recorded.values("svd_singular_values");
        assert!(worst(&simple.values, &theirs) < 1e-5, "{place}");
        let all = Svd { rank: n }.decompose(&recorded.graph).unwrap();
        let name = (0..64)
            .map(|rank| format!("svd_rank{rank}"))
            .find(|name| recorded.has(name));
        let columns = recorded.columns(&name.unwrap());
        let rank = columns.len() / 2;
        let ours = Svd { rank }.decompose(&recorded.graph).unwrap();
        assert_eq!(ours.values, all.values[..rank.min(n)], "{place}");

        // U·√S above V·√S as one vector of 2n entries: its pairs have one sign.
        let joint = |at: usize| -> Vec<f64> {
            let root = all.values[at].sqrt();
            let sides = [&all.left, &all.right].map(|side| &side[at * n..(at + 1) * n]);
            sides.concat().iter().map(|v| root * v).collect()
        };
        let mut start = 0;
        for space in all.values.chunk_by(|a, b| (a - b).abs() < 1e-5) {
            let range = start..start + space.len();
            start = range.end;
            // A space that the rank cuts is arbitrary; one of 0 is scaled to 0, but f32 leaves dust.
            if range.end > rank || space[0] < 1e-5 {
                continue;
            }
            let theirs: Vec<Vec<f64>> = range
                .clone()
                .map(|at| [columns[at].clone(), columns[rank + at].clone()].concat())
                .collect();
            let ours: Vec<Vec<f64>> = range.map(joint).collect();
            if let ([ours], [theirs]) = (ours.as_slice(), theirs.as_slice()) {
                let negated: Vec<f64> = theirs.iter().map(|v| -v).collect();
                let off = worst(ours, theirs).min(worst(ours, &negated));
                assert!(
                    off < 1e-4,
                    "{place}: singular vector {} is {off} off",
                    start - 1
                );
                single.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            let product = |vectors: &[Vec<f64>]| -> Vec<f64> {
                let entry = |at: usize| {
                    let (i, j) = (at / (2 * n), at % (2 * n));
                    vectors.iter().map(|v| v[i] * v[j]).sum()
                };
                (0..4 * n * n).map(entry).collect()
            };
            let off = worst(&product(&ours), &product(&theirs));
            assert!(off < 1e-4, "{place}: space before {start} is {off} off");
        }
    });
    assert!(single.into_inner() >= 10);
}

#[test]
fn magnets_matrix_is_the_official_one_without_padding() {
    each_graph(|recorded, place| {
        let recipe = MagNet {
            q: Potential::Absolute(0.1),
        };
        let laplacian = recipe.laplacian(&recorded.graph).unwrap();
        let ours = laplacian.to_dense().unwrap();
        for (part, name) in ours.iter().zip(["real", "imag"]) {
            let theirs = recorded.values(&format!("magnet.unpadded.laplacian_{name}"));
            let off = worst(part, &theirs);
            assert!(off < 1e-6, "{place}, {name}: {off}");
        }
    });
}
