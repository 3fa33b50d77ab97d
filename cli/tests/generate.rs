//! Graphs of synthetic tasks from the command line.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_graph::Result;
use candle_graph::datasets;
use candle_graph::datasets::synthetic::{
    Distances, Monochromatic, NetworkKind, PairTarget, ShortestPath, SortingNetworks, Unreachable,
};
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

/// The graphs of a file, with every missing answer −1 so that they can be compared.
fn comparable(graphs: &[Graph]) -> Vec<String> {
    let text = graphs.iter().map(serde_json::to_string);
    text.map(|text| text.unwrap().replace("null", "-1"))
        .collect()
}

#[test]
fn sorting_networks_and_pairs_of_nodes_are_those_of_the_options() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("graphs.jsonl");
    let generate = |options: &str| {
        let options = options.split(' ');
        let command = ["generate"].into_iter().chain(options);
        run_with(command.chain(["--output", path.to_str().unwrap()]), b"").ok();
        read(&path)
    };
    let networks =
        generate("sorting-networks --wires 4-6 --kinds reversed,correct --count 21 --seed 9");
    let task = SortingNetworks {
        wires: 4..=6,
        kinds: vec![NetworkKind::Reversed, NetworkKind::Correct],
    };
    assert_eq!(networks, first(task.graphs(9).unwrap(), 21));
    let of_one = generate("sorting-networks --wires 7 --kinds last-removed --count 2 --seed 42");
    let task = SortingNetworks {
        wires: 7..=7,
        kinds: vec![NetworkKind::LastRemoved],
    };
    assert_eq!(of_one, first(task.graphs(42).unwrap(), 2));

    let mut task = Distances {
        nodes: 5..=9,
        average_degrees: vec![0.5, 2.0],
        acyclic: true,
        connected: false,
        target: PairTarget::Reachability,
    };
    let options = "--nodes 5-9 --average-degrees 0.5,2 --acyclic --allow-disconnected";
    for (name, target) in [
        ("adjacency", PairTarget::Adjacency),
        ("reachability", PairTarget::Reachability),
        ("distance", PairTarget::Distance),
        ("undirected-distance", PairTarget::UndirectedDistance),
    ] {
        let found = generate(&format!(
            "distances --target {name} {options} --count 8 --seed 3"
        ));
        task.target = target;
        let expected = first(task.graphs(3).unwrap(), 8);
        assert_eq!(comparable(&found), comparable(&expected), "{name}");
    }
    let acyclic = generate("distances --acyclic --count 12 --seed 1");
    let task = Distances {
        average_degrees: Distances::ACYCLIC_DEGREES.to_vec(),
        acyclic: true,
        ..Distances::default()
    };
    assert_eq!(
        comparable(&acyclic),
        comparable(&first(task.graphs(1).unwrap(), 12))
    );
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
    let networks = parse(&run_with(["generate", "sorting-networks", "--count", "50"], b"").ok());
    assert_eq!(
        networks,
        first(SortingNetworks::default().graphs(0).unwrap(), 50)
    );
    let pairs = parse(&run_with(["generate", "distances", "--count", "50"], b"").ok());
    let expected = first(Distances::default().graphs(0).unwrap(), 50);
    assert_eq!(comparable(&pairs), comparable(&expected));
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
    let wrong: [(&[&str], &str); 10] = [
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
        (
            &["sorting-networks", "--wires", "2-7"],
            "wires: 2 is out of range, which is 3 to 7",
        ),
        (
            &["sorting-networks", "--wires", "9-7"],
            "the smallest and the largest one as in 7-11",
        ),
        (
            &["sorting-networks", "--kinds", "correct,wrong"],
            "last-removed",
        ),
        (
            &["distances", "--nodes", "many"],
            "the smallest and the largest one as in 7-11",
        ),
        (
            &["distances", "--nodes", "5", "--average-degrees", "1,4.5"],
            "average_degrees: 4.5 is out of range, which is 0 to 4",
        ),
        (&["distances", "--target", "paths"], "reachability"),
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
