//! Tests of the cache, by what they prove.

mod corruption;
mod hits;
mod processes;
mod properties;
mod writing;

use std::path::{Path, PathBuf};

use super::{CacheOptions, CacheReport, EncodingCache};
use crate::encodings::{
    EigvecNorm, Electrostatic, EncodingPlan, EncodingRecipe, GraphEncoding, Graphormer, HeatKernel,
    LapPe, Rotational, Rrwp, Rwse,
};
use crate::graph::Graph;
use crate::spectral::LaplacianNorm;

fn rrwp(steps: usize) -> EncodingRecipe {
    EncodingRecipe::Rrwp(Rrwp {
        steps,
        shortest_path: false,
    })
}

fn rwse(longest: usize) -> EncodingRecipe {
    EncodingRecipe::Rwse(Rwse {
        times: (1..=longest).collect(),
    })
}

fn lap_pe(
    frequencies: usize,
    laplacian_norm: LaplacianNorm,
    eigvec_norm: EigvecNorm,
) -> EncodingRecipe {
    EncodingRecipe::LapPe(LapPe {
        frequencies,
        laplacian_norm,
        eigvec_norm,
    })
}

fn sign_net(frequencies: usize, laplacian_norm: LaplacianNorm) -> EncodingRecipe {
    EncodingRecipe::SignNet(LapPe {
        frequencies,
        laplacian_norm,
        eigvec_norm: EigvecNorm::L2,
    })
}

fn heat_kernel(longest: u32) -> EncodingRecipe {
    EncodingRecipe::HeatKernel(HeatKernel {
        times: (1..=longest).collect(),
    })
}

const ELECTROSTATIC: EncodingRecipe = EncodingRecipe::Electrostatic(Electrostatic {});

fn graphormer(spatial_types: usize, edge_types: bool) -> EncodingRecipe {
    EncodingRecipe::Graphormer(Graphormer {
        spatial_types,
        in_degrees: 64,
        out_degrees: 64,
        degrees_only: false,
        edge_types,
    })
}

/// Two kinds of recipe: two arrays in one entry, one in the other.
fn plan() -> EncodingPlan {
    EncodingPlan::new(vec![rrwp(5), rwse(7)]).unwrap()
}

/// A ring of `nodes` nodes with a few chords; no two numbers give the same graph.
fn ring(number: usize, nodes: usize) -> Graph {
    let n = nodes as i64;
    let chords = (0..n).filter(|c| number >> c & 1 == 1);
    Graph::builder(nodes)
        .edges(
            (0..n)
                .map(|i| [i, (i + 1) % n])
                .chain(chords.map(|c| [c, (c + 2) % n])),
        )
        .undirected(true)
        .build()
        .unwrap()
}

fn rings(numbers: std::ops::Range<usize>) -> Vec<Graph> {
    numbers.map(|i| ring(i, 20)).collect()
}

fn open(dir: &Path) -> EncodingCache {
    EncodingCache::open(dir, CacheOptions::default()).unwrap()
}

/// A folder whose one shard holds the entries of `graphs`.
fn filled(graphs: &[Graph]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let cache = open(dir.path());
    cache.get_or_compute(&plan(), graphs, 0).unwrap();
    cache.flush().unwrap();
    dir
}

/// The only file of the folder with this ending.
fn only(dir: &Path, ending: &str) -> PathBuf {
    let mut files = files(dir, ending);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.to_string_lossy().ends_with(ending))
        .collect()
}

/// Names, shapes and bits of all arrays.
fn bits(encodings: &[GraphEncoding]) -> Vec<Vec<(String, usize, Vec<u32>)>> {
    let array = |a: &crate::encodings::EncodingArray| {
        let data = a.data.iter().map(|v| v.to_bits()).collect();
        (a.name.clone(), a.width, data)
    };
    encodings
        .iter()
        .map(|e| e.arrays.iter().map(array).collect())
        .collect()
}

/// Asks the cache and demands the computed values, bit for bit.
fn ask(cache: &EncodingCache, graphs: &[Graph]) -> CacheReport {
    let (encodings, report) = cache.get_or_compute(&plan(), graphs, 0).unwrap();
    assert_eq!(
        bits(&encodings),
        bits(&plan().compute_all(graphs, 0).unwrap())
    );
    assert_eq!(report.hits + report.computed, 2 * graphs.len());
    report
}
