//! Random directed graphs and the answers for their pairs, against those of the official code and
//! the Floyd–Warshall algorithm.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use candle_graph::datasets::synthetic::{Distances, PairTarget};
use candle_graph::graph::{Graph, GraphId};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;

const TARGETS: [PairTarget; 4] = [
    PairTarget::Adjacency,
    PairTarget::Reachability,
    PairTarget::Distance,
    PairTarget::UndirectedDistance,
];

fn graphs(task: &Distances, seed: u64, count: usize) -> Vec<Graph> {
    let graphs = task.graphs(seed).unwrap().take(count);
    graphs.collect::<candle_graph::Result<_>>().unwrap()
}

/// The answers of the graph by (source, target), −1 where there is none, as the official matrices
/// have it.
fn answers(graph: &Graph) -> Vec<Vec<i64>> {
    let n = graph.num_nodes();
    let pairs = graph.edge_label_index().unwrap();
    let targets = graph.targets().unwrap();
    assert_eq!(
        (pairs.len(), targets.data.len(), targets.width),
        (n * n, n * n, 1)
    );
    let mut matrix = vec![vec![-2; n]; n];
    for (place, (&[source, target], &y)) in pairs.iter().zip(&targets.data).enumerate() {
        assert_eq!(place, target as usize * n + source as usize);
        assert!(y.is_nan() || y.fract() == 0.0);
        matrix[source as usize][target as usize] = if y.is_nan() { -1 } else { y as i64 };
    }
    matrix
}

/// What `target` asks, by (source, target), from the lengths of all shortest paths.
fn by_floyd_warshall(graph: &Graph, target: PairTarget) -> Vec<Vec<i64>> {
    const NONE: i64 = 1 << 40;
    let n = graph.num_nodes();
    let mut lengths = vec![vec![NONE; n]; n];
    for &[s, t] in graph.edges() {
        lengths[s as usize][t as usize] = 1;
        if target == PairTarget::UndirectedDistance {
            lengths[t as usize][s as usize] = 1;
        }
    }
    if target != PairTarget::Adjacency {
        for via in 0..n {
            for s in 0..n {
                for t in 0..n {
                    let length = lengths[s][via] + lengths[via][t];
                    lengths[s][t] = lengths[s][t].min(length);
                }
            }
        }
    }
    let question = |s: usize, t: usize, length: i64| match target {
        _ if s == t => -1,
        PairTarget::Adjacency | PairTarget::Reachability => i64::from(length < NONE),
        _ if length < NONE => length,
        _ => -1,
    };
    let rows = lengths.iter().enumerate();
    rows.map(|(s, row)| {
        row.iter()
            .enumerate()
            .map(|(t, &l)| question(s, t, l))
            .collect()
    })
    .collect()
}

/// `tests/fixtures/random_digraphs.jsonl`: graphs and distances that the generator of
/// google-deepmind/digraph_transformer (commit 22b880e) gives after `numpy.random.seed(seed)`, with
/// numpy 2.4.6 and networkx 3.6.1; `distances[s][t]` is −1 where no path leads from s to t. `nodes`
/// are the kept nodes in the order of networkx, which is that of a Python set where they are less
/// than half of all; here they are numbered in ascending order.
#[test]
fn graphs_and_distances_are_the_official_ones() {
    let (mut count, mut in_order) = (0, 0);
    for line in include_str!("fixtures/random_digraphs.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let size = |name: &str| case[name].as_u64().unwrap() as usize;
        let acyclic = case["acyclic"] == true;
        let task = Distances {
            nodes: size("smallest")..=size("largest"),
            average_degrees: match acyclic {
                true => Distances::ACYCLIC_DEGREES.to_vec(),
                false => Distances::REGULAR_DEGREES.to_vec(),
            },
            acyclic,
            connected: case["connected"] == true,
            target: match case["target"] == "directed" {
                true => PairTarget::Distance,
                false => PairTarget::UndirectedDistance,
            },
        };
        let recorded = case["graphs"].as_array().unwrap();
        let graphs = graphs(&task, case["seed"].as_u64().unwrap(), recorded.len());
        for (at, (graph, recorded)) in graphs.iter().zip(recorded).enumerate() {
            assert_eq!(graph.id(), Some(&GraphId::Number(at as i64)));
            assert_eq!(
                graph.num_nodes() as u64,
                recorded["num_nodes"],
                "{task:?} {at}"
            );
            let [sources, targets]: [Vec<u32>; 2] =
                serde_json::from_value(recorded["edge_index"].clone()).unwrap();
            let nodes: Vec<u32> = serde_json::from_value(recorded["nodes"].clone()).unwrap();
            let number = |place: usize| nodes.iter().filter(|&&n| n < nodes[place]).count();
            let edges = sources.into_iter().zip(targets);
            let mut edges: Vec<[u32; 2]> = edges
                .map(|(s, t)| [s, t].map(|place| number(place as usize) as u32))
                .collect();
            in_order += usize::from(nodes.is_sorted());
            if !nodes.is_sorted() {
                edges.sort_unstable();
            }
            assert_eq!(graph.edges(), edges, "{task:?} {at}");
            let recorded: Vec<Vec<i64>> =
                serde_json::from_value(recorded["distances"].clone()).unwrap();
            let mut distances = vec![vec![-1; nodes.len()]; nodes.len()];
            for (s, row) in recorded.into_iter().enumerate() {
                for (t, distance) in row.into_iter().enumerate() {
                    // The loader of the official code ignores the diagonal.
                    distances[number(s)][number(t)] = if s == t { -1 } else { distance };
                }
            }
            assert_eq!(answers(graph), distances, "{task:?} {at}");
            count += 1;
        }
    }
    assert_eq!((count, in_order), (66, 64));
}

/// `tests/fixtures/pair_targets.jsonl`: the first graph of every batch on which the official model
/// was run for adjacency and for directed distance, with the matrix of targets as it was given to
/// the loss. The row of an adjacency matrix is the source of the edge, that of a distance matrix the
/// target of the path.
#[test]
fn answers_are_the_recorded_targets_of_the_official_loader() {
    for line in include_str!("fixtures/pair_targets.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let graph: Graph = serde_json::from_str(line).unwrap();
        let n = graph.num_nodes();
        let recorded: Vec<Vec<i64>> = serde_json::from_value(case["matrix"].clone()).unwrap();
        let (target, row_is_source) = match case["task"] == "adjacency" {
            true => (PairTarget::Adjacency, true),
            false => (PairTarget::Distance, false),
        };
        for (place, answer) in target.of(&graph).into_iter().enumerate() {
            let (source, target) = (place % n, place / n);
            let recorded = match row_is_source {
                true => recorded[source][target],
                false => recorded[target][source],
            };
            assert_eq!(answer.map_or(-1, i64::from), recorded, "{source} {target}");
        }
    }
    assert_eq!(
        include_str!("fixtures/pair_targets.jsonl").lines().count(),
        4
    );
}

proptest! {
    #![proptest_config(Config {
        cases: 128,
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn answers_are_those_of_floyd_and_warshall(
        n in 1usize..12,
        edges in prop::collection::vec((0u32..12, 0u32..12), 0..30),
    ) {
        let edges = edges.into_iter().map(|(s, t)| [s % n as u32, t % n as u32]);
        let graph = Graph::builder(n).edges(edges).build().unwrap();
        for target in TARGETS {
            let expected = by_floyd_warshall(&graph, target);
            for (place, answer) in target.of(&graph).into_iter().enumerate() {
                prop_assert_eq!(answer.map_or(-1, i64::from), expected[place % n][place / n]);
            }
        }
    }

    #[test]
    fn drawn_graphs_are_what_the_options_say(
        smallest in 2usize..20,
        more in 0usize..6,
        share in 0.0f64..=1.0,
        acyclic: bool,
        connected: bool,
        target in prop::sample::select(&TARGETS[..]),
        seed: u64,
    ) {
        let task = Distances {
            nodes: smallest..=smallest + more,
            average_degrees: vec![share * (smallest - 1) as f64],
            acyclic,
            connected,
            target,
        };
        for graph in graphs(&task, seed, 3) {
            let n = graph.num_nodes();
            prop_assert!(graph.node_features().is_none());
            prop_assert!(graph.edges().is_sorted_by(|a, b| a < b));
            prop_assert_eq!(answers(&graph), by_floyd_warshall(&graph, target));
            let undirected = by_floyd_warshall(&graph, PairTarget::UndirectedDistance);
            let joined = (0..n).all(|s| (0..n).all(|t| s == t || undirected[s][t] > 0));
            prop_assert!(!connected || joined);
            prop_assert!(connected || (smallest..=smallest + more).contains(&n));
            // On a cycle some node reaches its source again by an edge.
            let reach = by_floyd_warshall(&graph, PairTarget::Reachability);
            let cycle = graph.edges().iter().any(|&[s, t]| s == t || reach[t as usize][s as usize] == 1);
            prop_assert!(!acyclic || !cycle);
        }
    }
}

#[test]
fn edges_come_with_the_probability_that_the_degree_says() {
    let mut task = Distances {
        nodes: 21..=21,
        average_degrees: vec![1.0, 3.0],
        connected: false,
        ..Distances::default()
    };
    // 2000 graphs of 441 pairs, with probabilities of 0.05 and 0.15: 44 edges each.
    let mean = |task: &Distances, seed| {
        let edges = graphs(task, seed, 2000)
            .iter()
            .map(Graph::num_edges)
            .sum::<usize>();
        edges as f64 / 2000.0
    };
    // Deviation of the mean: √(41 + 22²) / √2000 = 0.5.
    let found = mean(&task, 1);
    assert!((found - 44.1).abs() < 2.5, "{found}");
    task.acyclic = true;
    let found = mean(&task, 1);
    assert!((found - 21.0).abs() < 1.3, "{found}");
}

#[test]
fn the_record_holds_all_pairs() {
    let task = Distances {
        nodes: 3..=3,
        average_degrees: vec![1.0],
        target: PairTarget::Distance,
        ..Distances::default()
    };
    let graph = graphs(&task, 4, 1).remove(0);
    let record = serde_json::to_string(&graph).unwrap();
    // The bytes of a record, which no machine and no release may change.
    assert_eq!(record, RECORD.replace('\n', ""));
    let read: Graph = serde_json::from_str(&record).unwrap();
    assert_eq!(
        (read.edges(), read.edge_label_index()),
        (graph.edges(), graph.edge_label_index())
    );
    assert_eq!(answers(&read), answers(&graph));
}

const RECORD: &str = r#"{"id":0,"num_nodes":3,"edge_index":[[0,0,0,1,1,2],[0,1,2,0,1,0]],
"edge_label_index":[[0,1,2,0,1,2,0,1,2],[0,0,0,1,1,1,2,2,2]],
"y":[[null],[1.0],[1.0],[1.0],[null],[2.0],[1.0],[2.0],[null]]}"#;

#[test]
fn impossible_options_are_refused_by_name() {
    let task = Distances::default;
    #[allow(clippy::reversed_empty_ranges)]
    let wrong = [
        (
            Distances {
                nodes: 1..=4,
                ..task()
            },
            "nodes: 1 is out of range, which is 2 to 4",
        ),
        (
            Distances {
                nodes: 5..=4,
                ..task()
            },
            "nodes: 5 is out of range, which is 2 to 4",
        ),
        (
            Distances {
                nodes: 5..=1025,
                ..task()
            },
            "nodes: 1025 is out of range, which is 2 to 1024",
        ),
        (
            Distances {
                average_degrees: vec![],
                ..task()
            },
            "average_degrees: none is given",
        ),
        (
            Distances {
                average_degrees: vec![1.0, 15.1],
                ..task()
            },
            "average_degrees: 15.1 is out of range, which is 0 to 15,",
        ),
        (
            Distances {
                average_degrees: vec![-0.5],
                ..task()
            },
            "average_degrees: -0.5 is out of range",
        ),
        (
            Distances {
                average_degrees: vec![f64::NAN],
                ..task()
            },
            "average_degrees: NaN is out of range",
        ),
    ];
    for (task, message) in wrong {
        let error = task.graphs(0).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
    let full = Distances {
        nodes: 4..=4,
        average_degrees: vec![3.0],
        ..task()
    };
    assert_eq!(graphs(&full, 0, 1)[0].num_edges(), 16);
    let none = Distances {
        average_degrees: vec![0.0],
        ..task()
    };
    let alone = graphs(&none, 0, 1).remove(0);
    assert_eq!((alone.num_nodes(), answers(&alone)), (1, vec![vec![-1]]));
}
