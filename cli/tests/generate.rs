//! Graphs of synthetic tasks from the command line.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph::Result;
use candle_graph::datasets;
use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath, Unreachable};
use candle_graph::graph::Graph;
use support::{listing, run_with};
use tempfile::TempDir;

fn read(path: &std::path::Path) -> Vec<Graph> {
    let graphs = datasets::open(path, None, &Default::default()).unwrap();
    graphs.collect::<Result<_>>().unwrap()
}

fn first(graphs: impl Iterator<Item = Result<Graph>>, count: usize) -> Vec<Graph> {
    graphs.take(count).collect::<Result<_>>().unwrap()
}

#[test]
fn a_file_holds_the_graphs_of_the_options_and_standard_output_the_same() {
    let folder = TempDir::new().unwrap();
    let (grids, paths) = (
        folder.path().join("grids.jsonl"),
        folder.path().join("paths.ndjson"),
    );
    let options = "--rows 4 --columns 3 --deleted-edges 5 --colours 2 --count 30 --seed 9";
    let monochromatic = || {
        vec!["generate", "monochromatic"]
            .into_iter()
            .chain(options.split(' '))
    };
    let mut command: Vec<_> = monochromatic().collect();
    command.extend(["--out", grids.to_str().unwrap(), "--quiet"]);
    let run = run_with(command, b"");
    assert_eq!((run.stderr.as_str(), run.stdout.as_str()), ("", ""));
    let task = Monochromatic {
        rows: 4,
        columns: 3,
        deleted_edges: 5,
        colours: 2,
    };
    assert_eq!(read(&grids), first(task.graphs(9).unwrap(), 30));
    let printed = run_with(monochromatic(), b"").ok();
    assert_eq!(printed, std::fs::read_to_string(&grids).unwrap());

    let options =
        "--nodes 12 --neighbours 4 --rewiring 0.5 --allow-disconnected --count 30 --seed 9";
    let mut command = vec![
        "generate",
        "shortest-path",
        "--output",
        paths.to_str().unwrap(),
    ];
    command.extend(options.split(' '));
    let run = run_with(command, b"");
    assert!(run.stderr.starts_with("30 graphs made; "), "{}", run.stderr);
    let task = ShortestPath {
        nodes: 12,
        neighbours: 4,
        rewiring: 0.5,
        unreachable: Unreachable::RedrawPair,
    };
    assert_eq!(read(&paths), first(task.graphs(9).unwrap(), 30));
    assert_eq!(listing(folder.path()), ["grids.jsonl", "paths.ndjson"]);
}

#[test]
fn without_options_a_thousand_graphs_are_those_of_the_paper() {
    let parse = |text: &str| -> Vec<Graph> {
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    };
    let grids = parse(&run_with(["generate", "monochromatic"], b"").ok());
    assert_eq!(
        grids,
        first(Monochromatic::default().graphs(0).unwrap(), 1000)
    );
    let paths = parse(&run_with(["generate", "shortest-path"], b"").ok());
    assert_eq!(
        paths,
        first(ShortestPath::default().graphs(0).unwrap(), 1000)
    );
    assert_eq!(
        run_with(["generate", "shortest-path", "--count", "0"], b"").ok(),
        ""
    );
}

#[test]
fn wrong_options_are_wrong_usage_and_leave_the_file_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("graphs.jsonl");
    std::fs::write(&path, "mine").unwrap();
    let file = path.to_str().unwrap();
    let wrong: [(&[&str], &str); 4] = [
        (
            &["monochromatic", "--deleted-edges", "41"],
            "deleted_edges: 41 is out of range",
        ),
        (
            &["monochromatic", "--colours", "0"],
            "colours: 0 is out of range",
        ),
        (
            &["shortest-path", "--neighbours", "11"],
            "neighbours: 11 is out of range",
        ),
        (
            &["shortest-path", "--rewiring", "nan"],
            "rewiring: NaN is no probability",
        ),
    ];
    let output = ["--output", file];
    for (options, message) in wrong {
        let arguments = ["generate"].iter().chain(options).chain(&output);
        run_with(arguments, b"").fails(2, &[message]);
    }
    let ending = ["generate", "monochromatic", "--output", "graphs.csv"];
    run_with(ending, b"").fails(2, &["graphs are written as .jsonl"]);
    let place = folder.path().join("nowhere/graphs.jsonl");
    let nowhere = [
        "generate",
        "monochromatic",
        "--output",
        place.to_str().unwrap(),
    ];
    run_with(nowhere, b"").fails(1, &["nowhere"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(listing(folder.path()), ["graphs.jsonl"]);
}
