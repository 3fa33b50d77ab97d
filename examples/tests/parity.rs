//! Cases recorded from the official implementations: the small ones of the repository, and all that
//! the shared development folder has.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use candle_graph::ops::force_reference;
use candle_graph_examples::parity::{is_case, run};

const TOLERANCE: f64 = 1e-5;

/// The case folders within `folder`, sorted.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut cases: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_case(path))
        .collect();
    cases.sort();
    cases
}

/// Names of the cases that do not agree with their recording.
fn failures(cases: &[PathBuf]) -> Vec<String> {
    let passes = |case: &PathBuf| match run(case, TOLERANCE) {
        Ok(report) => {
            let passes = report.passes(TOLERANCE);
            if !passes {
                report.print(TOLERANCE, true);
            }
            passes
        }
        Err(error) => {
            println!("{}: {error:#}", case.display());
            false
        }
    };
    let failed = cases.iter().filter(|case| !passes(case));
    failed.map(|case| case.display().to_string()).collect()
}

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["gps", "wire", "digraph"]
        .map(|family| root.join("../weights/tests/fixtures").join(family));
    folders.iter().flat_map(|folder| cases(folder)).collect()
}

#[test]
fn recorded_cases_of_the_repository_agree() {
    let cases = fixtures();
    assert_eq!(cases.len(), 27 + 4 + 4);
    assert_eq!(failures(&cases), [""; 0]);
}

#[test]
fn recorded_cases_agree_on_the_reference_path() {
    assert_eq!(force_reference(|| failures(&fixtures())), [""; 0]);
}

#[test]
fn recorded_cases_of_the_shared_folder_agree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let default = root.join("../../shared");
    let shared = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    if shared.is_dir() {
        for (family, count) in [("gps", 32), ("wire", 12), ("digraph", 17)] {
            let cases = cases(&shared.join("goldens").join(family));
            assert_eq!(cases.len(), count);
            assert_eq!(failures(&cases), [""; 0]);
        }
    }
}
