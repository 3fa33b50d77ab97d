//! The synthetic tasks against networkx, brute force and what is known of their distributions. All
//! seeds are fixed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use candle_graph::datasets::synthetic::{Monochromatic, ShortestPath, SyntheticError, Unreachable};
use candle_graph::graph::{Features, Graph, GraphId};
use candle_graph::{Error, Result};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

/// So many cases, the same in every run.
fn cases(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..Config::default()
    }
}

fn grids(task: &Monochromatic, seed: u64, count: usize) -> Vec<Graph> {
    let graphs = task.graphs(seed).unwrap().take(count);
    graphs.collect::<Result<_>>().unwrap()
}

fn paths(task: &ShortestPath, seed: u64, count: usize) -> Vec<Graph> {
    let graphs = task.graphs(seed).unwrap().take(count);
    graphs.collect::<Result<_>>().unwrap()
}

fn target(graph: &Graph) -> usize {
    let targets = graph.targets().unwrap();
    assert_eq!((targets.width, targets.data.len()), (1, 1));
    targets.data[0] as usize
}

/// Every undirected edge once, smaller node first, sorted; both directions must be there.
fn undirected(graph: &Graph) -> Vec<[u32; 2]> {
    let mut both = graph.edges().to_vec();
    both.sort_unstable();
    let mut once: Vec<[u32; 2]> = both.iter().copied().filter(|[u, v]| u < v).collect();
    assert_eq!(both.len(), 2 * once.len(), "a loop or one direction alone");
    once.dedup();
    assert_eq!(both.len(), 2 * once.len(), "an edge is there twice");
    assert!(
        once.iter()
            .all(|&[u, v]| both.binary_search(&[v, u]).is_ok())
    );
    once
}

/// The rows of the features, as real numbers.
fn rows(graph: &Graph) -> Vec<Vec<f32>> {
    let features = graph.node_features().unwrap();
    assert!(matches!(features, Features::Float { .. }));
    (0..graph.num_nodes())
        .map(|node| features.row(node))
        .collect()
}

/// Hops between all pairs after Floyd and Warshall; `usize::MAX` without a path.
fn distances(nodes: usize, edges: impl IntoIterator<Item = [u32; 2]>) -> Vec<Vec<usize>> {
    let mut hops = vec![vec![usize::MAX; nodes]; nodes];
    (0..nodes).for_each(|node| hops[node][node] = 0);
    for [u, v] in edges {
        hops[u as usize][v as usize] = 1;
        hops[v as usize][u as usize] = 1;
    }
    for through in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                let detour = hops[from][through].saturating_add(hops[through][to]);
                hops[from][to] = hops[from][to].min(detour);
            }
        }
    }
    hops
}

/// The edges of a grid.
fn grid(rows: usize, columns: usize) -> Vec<[u32; 2]> {
    let nodes = rows * columns;
    let pairs = (0..nodes).flat_map(|u| (u + 1..nodes).map(move |v| [u, v]));
    let near = pairs.filter(|&[u, v]| {
        let steps = |at: fn(usize, usize) -> usize| at(u, columns).abs_diff(at(v, columns));
        steps(|node, columns| node / columns) + steps(|node, columns| node % columns) == 1
    });
    near.map(|edge| edge.map(|node| node as u32)).collect()
}

/// Checks everything that is fixed about a graph of `task`.
fn check_grid(task: &Monochromatic, graph: &Graph) {
    let nodes = task.rows * task.columns;
    assert_eq!(graph.num_nodes(), nodes);
    let (edges, whole) = (undirected(graph), grid(task.rows, task.columns));
    assert_eq!(edges.len() + task.deleted_edges, whole.len());
    assert!(edges.iter().all(|edge| whole.contains(edge)));
    let rows = rows(graph);
    for row in &rows {
        assert_eq!(row.len(), task.colours);
        assert_eq!(row.iter().filter(|&&v| v == 1.0).count(), 1);
        assert_eq!(row.iter().filter(|&&v| v == 0.0).count(), task.colours - 1);
    }
    let alike = |[u, v]: &[u32; 2]| rows[*u as usize] == rows[*v as usize];
    let hops = distances(nodes, edges.into_iter().filter(alike));
    let part = |from: &Vec<usize>| from.iter().filter(|&&hops| hops < usize::MAX).count();
    assert_eq!(target(graph), hops.iter().map(part).max().unwrap());
}

/// Checks everything that is fixed about a graph of `task`.
fn check_path(task: &ShortestPath, graph: &Graph) {
    assert_eq!(graph.num_nodes(), task.nodes);
    let edges = undirected(graph);
    let complete = task.nodes * (task.nodes - 1) / 2;
    let expected = match task.neighbours == task.nodes {
        true => complete,
        false => task.nodes * (task.neighbours / 2),
    };
    assert_eq!(edges.len(), expected);
    let hops = distances(task.nodes, edges);
    if task.unreachable == Unreachable::RedrawGraph {
        assert!(hops[0].iter().all(|&hops| hops < usize::MAX));
    }
    let rows = rows(graph);
    let marked = |column: usize| {
        let marked = (0..task.nodes).filter(|&node| rows[node][column] == 1.0);
        let marked: Vec<usize> = marked.collect();
        assert_eq!(marked.len(), 1);
        marked[0]
    };
    let (from, to) = (marked(0), marked(1));
    assert_ne!(from, to);
    assert_eq!(rows.iter().flatten().sum::<f32>(), 2.0);
    assert_eq!(target(graph), hops[from][to]);
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_largest_part_is_what_brute_force_finds(
        shape in (1usize..7, 1usize..7),
        colours in 1usize..5,
        share in 0.0f64..=1.0,
        seed: u64,
    ) {
        let whole = grid(shape.0, shape.1).len();
        let task = Monochromatic {
            rows: shape.0,
            columns: shape.1,
            deleted_edges: (share * whole as f64).round() as usize,
            colours,
        };
        for (at, graph) in grids(&task, seed, 3).iter().enumerate() {
            prop_assert_eq!(graph.id(), Some(&GraphId::Number(at as i64)));
            check_grid(&task, graph);
        }
    }

    #[test]
    fn the_distance_is_what_brute_force_finds(
        sizes in (2usize..14).prop_flat_map(|nodes| (Just(nodes), 2..=nodes)),
        rewiring in prop_oneof![Just(0.0), Just(1.0), 0.0f64..=1.0],
        redraw_pair: bool,
        seed: u64,
    ) {
        let task = ShortestPath {
            nodes: sizes.0,
            neighbours: sizes.1,
            rewiring,
            unreachable: match redraw_pair {
                true => Unreachable::RedrawPair,
                false => Unreachable::RedrawGraph,
            },
        };
        for (at, graph) in paths(&task, seed, 3).iter().enumerate() {
            prop_assert_eq!(graph.id(), Some(&GraphId::Number(at as i64)));
            check_path(&task, graph);
        }
    }
}

/// `tests/fixtures/watts_strogatz.jsonl`: the edges of `networkx.watts_strogatz_graph(nodes,
/// neighbours, rewiring, seed=seed)`, networkx 3.6.1.
#[test]
fn small_world_graphs_are_those_of_networkx() {
    let text = include_str!("fixtures/watts_strogatz.jsonl");
    for line in text.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let size = |name: &str| case[name].as_u64().unwrap() as usize;
        let task = ShortestPath {
            nodes: size("nodes"),
            neighbours: size("neighbours"),
            rewiring: case["rewiring"].as_f64().unwrap(),
            unreachable: Unreachable::RedrawPair,
        };
        let graph = paths(&task, case["seed"].as_u64().unwrap(), 1).remove(0);
        let expected: Vec<[u32; 2]> = serde_json::from_value(case["edges"].clone()).unwrap();
        assert_eq!(undirected(&graph), expected, "{line}");
    }
    assert_eq!(text.lines().count(), 46);
}

#[test]
fn a_seed_fixes_the_graphs_and_another_one_changes_them() {
    let task = Monochromatic {
        rows: 2,
        columns: 3,
        deleted_edges: 2,
        colours: 2,
    };
    let text = |graphs: &[Graph]| serde_json::to_string(graphs).unwrap();
    // The bytes of a record, which no machine and no release may change.
    let record = text(&grids(&task, 1, 1));
    assert_eq!(record, GRID_OF_SEED_1.replace('\n', ""));
    let record = text(&paths(&ShortestPath::default(), 1, 1));
    assert_eq!(record, PATH_OF_SEED_1.replace('\n', ""));

    let (task, paths_task) = (Monochromatic::default(), ShortestPath::default());
    let ten = |seed| {
        [
            text(&grids(&task, seed, 10)),
            text(&paths(&paths_task, seed, 10)),
        ]
    };
    assert_eq!(ten(3), ten(3));
    for seed in [0, 2, 4, 3 + (1 << 32), u64::MAX] {
        assert_ne!(ten(3)[0], ten(seed)[0], "{seed}");
        assert_ne!(ten(3)[1], ten(seed)[1], "{seed}");
    }
    // More graphs of a seed do not change the first ones, and no two are alike.
    let (few, many) = (grids(&task, 3, 10), grids(&task, 3, 200));
    assert_eq!(few, many[..10]);
    let unlike = |graphs: &[Graph]| {
        let parts = graphs
            .iter()
            .map(|g| serde_json::to_string(&(undirected(g), rows(g))));
        let parts: std::collections::BTreeSet<_> = parts.map(|text| text.unwrap()).collect();
        parts.len()
    };
    assert_eq!(unlike(&many), 200);
    assert_eq!(unlike(&paths(&paths_task, 3, 200)), 200);
}

const GRID_OF_SEED_1: &str = r#"[{"id":0,"x":[[1.0,0.0],[0.0,1.0],[1.0,0.0],[0.0,1.0],[0.0,1.0],[0.0,1.0]],
"edge_index":[[0,1,1,2,1,4,2,5,4,5],[1,0,2,1,4,1,5,2,5,4]],"y":3.0}]"#;

const PATH_OF_SEED_1: &str = r#"[{"id":0,"x":[[1.0,0.0],[0.0,1.0],[0.0,0.0],[0.0,0.0],[0.0,0.0],[0.0,0.0],[0.0,0.0],[0.0,0.0],[0.0,0.0],[0.0,0.0]],
"edge_index":[[0,4,0,5,0,9,1,7,1,8,2,6,3,4,3,7,4,6,6,7],[4,0,5,0,9,0,7,1,8,1,6,2,4,3,7,3,6,4,7,6]],"y":4.0}]"#;

/// How often every value is there.
fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    values
        .into_iter()
        .for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

/// `found` of so many trials is within five standard deviations of `probability`.
#[track_caller]
fn assert_share(found: usize, trials: usize, probability: f64) {
    let expected = trials as f64 * probability;
    let deviation = (expected * (1.0 - probability)).sqrt();
    let off = (found as f64 - expected).abs();
    assert!(
        off < 5.0 * deviation,
        "{found} of {trials}, expected {expected} ± {deviation}"
    );
}

/// Pearson's χ² of `found` against 20,000 graphs that networkx made, the tail from `tail` on in one.
fn chi_squared(found: &BTreeMap<usize, usize>, recorded: &[(usize, usize)], tail: usize) -> f64 {
    let pooled = |counts: &mut dyn Iterator<Item = (usize, usize)>| {
        let mut pooled = BTreeMap::<usize, f64>::new();
        for (value, count) in counts {
            *pooled.entry(value.min(tail)).or_default() += count as f64;
        }
        pooled
    };
    let a = pooled(&mut found.iter().map(|(&value, &count)| (value, count)));
    let b = pooled(&mut recorded.iter().copied());
    let (all_a, all_b): (f64, f64) = (a.values().sum(), b.values().sum());
    let values = a
        .keys()
        .chain(b.keys())
        .collect::<std::collections::BTreeSet<_>>();
    let of_value = |value: &usize| {
        let share = |counts: &BTreeMap<usize, f64>| counts.get(value).copied().unwrap_or(0.0);
        let (a, b) = (share(&a), share(&b));
        let difference = a * (all_b / all_a).sqrt() - b * (all_a / all_b).sqrt();
        difference * difference / (a + b)
    };
    values.into_iter().map(of_value).sum()
}

#[test]
fn edges_and_colours_of_grids_are_uniform() {
    let task = Monochromatic {
        deleted_edges: 10,
        ..Monochromatic::default()
    };
    let graphs = grids(&task, 11, 4000);
    let edges = counts(graphs.iter().flat_map(undirected));
    assert_eq!(edges.len(), 40);
    for &count in edges.values() {
        assert_share(count, 4000, 0.75);
    }
    // Degrees: of 80 ends, 60 are left in every graph.
    let degrees = graphs.iter().map(|g| g.out_degrees().iter().sum::<u32>());
    assert_eq!(counts(degrees), BTreeMap::from([(60, 4000)]));
    for node in [0, 7, 24] {
        for colour in 0..3 {
            let here = graphs.iter().filter(|g| rows(g)[node][colour] == 1.0);
            assert_share(here.count(), 4000, 1.0 / 3.0);
        }
    }
    let recorded = [
        (2, 372),
        (3, 3567),
        (4, 5469),
        (5, 4395),
        (6, 2785),
        (7, 1572),
        (8, 864),
        (9, 494),
        (10, 245),
        (11, 121),
        (12, 67),
        (13, 49),
    ];
    // 11 degrees of freedom: above 35 once in 4000 seeds.
    let found = counts(graphs.iter().map(target));
    let chi = chi_squared(&found, &recorded, 13);
    assert!(chi < 35.0, "{chi}: {found:?}");
    // The same without deletions is another distribution.
    let others = counts(
        grids(&Monochromatic::default(), 11, 4000)
            .iter()
            .map(target),
    );
    assert!(chi_squared(&others, &recorded, 13) > 500.0);
}

#[test]
fn paths_have_the_lengths_of_networkx() {
    let graphs = paths(&ShortestPath::default(), 11, 4000);
    let found = counts(graphs.iter().map(target));
    let recorded = [
        (1, 4451),
        (2, 5351),
        (3, 4828),
        (4, 3118),
        (5, 1559),
        (6, 566),
        (7, 127),
    ];
    // 6 degrees of freedom: above 26 once in 4000 seeds.
    let chi = chi_squared(&found, &recorded, 7);
    assert!(chi < 26.0, "{chi}: {found:?}");
    for node in 0..10 {
        for column in 0..2 {
            let here = graphs.iter().filter(|g| rows(g)[node][column] == 1.0);
            assert_share(here.count(), 4000, 0.1);
        }
    }
    // Without rewiring it is a ring: 2 of 9 other nodes at every distance but the largest.
    let ring = ShortestPath {
        rewiring: 0.0,
        ..ShortestPath::default()
    };
    let found = counts(paths(&ring, 11, 4000).iter().map(target));
    for (hops, count) in found {
        assert_share(count, 4000, if hops == 5 { 1.0 / 9.0 } else { 2.0 / 9.0 });
    }
}

#[test]
fn pairs_are_uniform_among_those_with_a_path() {
    // With all edges rewired, many graphs of 12 nodes are not connected.
    let task = ShortestPath {
        nodes: 12,
        neighbours: 2,
        rewiring: 1.0,
        unreachable: Unreachable::RedrawPair,
    };
    let graphs = paths(&task, 5, 3000);
    let split = |g: &&Graph| distances(12, undirected(g))[0].contains(&usize::MAX);
    assert!(graphs.iter().filter(split).count() > 200);
    // The source is in a part of s nodes with a probability of s·(s−1) over the sum of all parts.
    let (mut expected, mut variance, mut found) = (0.0, 0.0, 0);
    for graph in graphs.iter().filter(split) {
        let hops = distances(12, undirected(graph));
        let part = |node: usize| hops[node].iter().filter(|&&h| h < usize::MAX).count();
        let pairs: usize = (0..12).map(|node| part(node) - 1).sum();
        let probability = (part(0) - 1) as f64 / pairs as f64;
        expected += probability;
        variance += probability * (1.0 - probability);
        found += usize::from(rows(graph)[0][0] == 1.0);
    }
    assert!(
        (found as f64 - expected).abs() < 5.0 * variance.sqrt(),
        "{found} {expected}"
    );
}

fn refused(error: Error) -> SyntheticError {
    match error {
        Error::Synthetic(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn impossible_options_are_refused_by_name() {
    let grid = Monochromatic::default;
    let refuse = |task: Monochromatic| {
        let error = task.graphs(0).err().unwrap();
        (error.to_string(), refused(error))
    };
    let (text, error) = refuse(Monochromatic {
        deleted_edges: 41,
        ..grid()
    });
    assert_eq!(
        error,
        SyntheticError::OutOfRange {
            option: "deleted_edges",
            value: 41,
            smallest: 0,
            largest: 40,
        }
    );
    let expected = "synthetic task: deleted_edges: 41 is out of range, which is 0 to 40";
    assert_eq!(text, expected);
    let none = [
        ("rows", Monochromatic { rows: 0, ..grid() }),
        (
            "columns",
            Monochromatic {
                columns: 0,
                ..grid()
            },
        ),
        (
            "colours",
            Monochromatic {
                colours: 0,
                ..grid()
            },
        ),
        (
            "colours",
            Monochromatic {
                colours: 65,
                ..grid()
            },
        ),
    ];
    for (option, task) in none {
        let (text, _) = refuse(task);
        assert!(text.contains(&format!("{option}: ")), "{text}");
    }
    for (rows, columns) in [(1025, 1024), (usize::MAX, 2), (2, usize::MAX), (725, 725)] {
        let task = Monochromatic {
            rows,
            columns,
            ..grid()
        };
        let fits = rows
            .checked_mul(columns)
            .is_some_and(|nodes| 2 * nodes < 1 << 20);
        assert!(!fits && task.graphs(0).is_err(), "{rows} {columns}");
    }
    assert!(
        Monochromatic {
            deleted_edges: 40,
            ..grid()
        }
        .graphs(0)
        .is_ok()
    );

    let path = ShortestPath::default;
    let refuse = |task: ShortestPath| task.graphs(0).err().unwrap();
    for (nodes, neighbours, option) in [
        (0, 2, "nodes: 0 is out of range"),
        (1, 1, "nodes: 1 is out of range"),
        (5, 1, "neighbours: 1 is out of range, which is 2 to 5"),
        (5, 6, "neighbours: 6 is out of range, which is 2 to 5"),
        (
            1 << 20,
            4,
            "a graph of 1048576 nodes and 2097152 edges is larger",
        ),
        (
            2000,
            2000,
            "a graph of 2000 nodes and 1999000 edges is larger",
        ),
    ] {
        let error = refuse(ShortestPath {
            nodes,
            neighbours,
            ..path()
        })
        .to_string();
        assert!(error.contains(option), "{error}");
    }
    for rewiring in [-0.1, 1.5, f64::NAN, f64::INFINITY] {
        let error = refused(refuse(ShortestPath { rewiring, ..path() }));
        assert!(
            matches!(error, SyntheticError::Probability { .. }),
            "{error}"
        );
    }
}
