//! Sorting networks against those that the official code made, brute force and Batcher's sorting
//! networks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use candle_graph::datasets::synthetic::{
    MAX_DRAWN_WIRES, MAX_TESTED_WIRES, MAX_WIRES, NetworkKind, SortingNetwork, SortingNetworks,
};
use candle_graph::graph::{Features, Graph, GraphId, Targets};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use serde_json::Value;

/// `tests/fixtures/sorting_networks.jsonl`: 200 graphs of networks, drawn by the generator of
/// google-deepmind/digraph_transformer (commit 22b880e) after `numpy.random.seed(seed)`.
fn stored() -> impl Iterator<Item = Value> {
    let lines = include_str!("fixtures/sorting_networks.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap())
}

fn pairs<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn kind(name: &str) -> NetworkKind {
    let kinds = NetworkKind::ALL.into_iter();
    kinds
        .clone()
        .find(|k| k.name().replace('-', "_") == name)
        .unwrap()
}

/// What the network makes of `values`.
fn run(network: &SortingNetwork, mut values: Vec<u8>) -> Vec<u8> {
    for &[i, j] in network.comparators() {
        let (i, j) = (i as usize, j as usize);
        if values[i] > values[j] {
            values.swap(i, j);
        }
    }
    values
}

/// Whether every input of zeros and ones comes out sorted, one by one.
fn sorts_one_by_one(network: &SortingNetwork) -> bool {
    (0..1u32 << network.wires()).all(|input| {
        let values = (0..network.wires()).map(|wire| (input >> wire & 1) as u8);
        run(network, values.collect()).is_sorted()
    })
}

#[test]
fn stored_networks_have_the_official_graphs_and_labels() {
    let mut kinds = [0; 3];
    for case in stored() {
        let wires = case["wires"].as_u64().unwrap() as usize;
        let rows: Vec<[u32; 3]> = pairs(&case["x"]);
        let comparators = rows.iter().map(|&[_, i, j]| [i, j]);
        let network = SortingNetwork::new(wires, comparators).unwrap();
        assert_eq!(network.sorts().unwrap(), case["sorts"], "{case}");

        let graph = network.graph().unwrap();
        let [senders, receivers]: [Vec<u32>; 2] = pairs(&case["edge_index"]);
        let edges: Vec<[u32; 2]> = senders
            .into_iter()
            .zip(receivers)
            .map(<[u32; 2]>::from)
            .collect();
        assert_eq!(graph.edges(), edges, "{case}");
        let values = rows.iter().flatten().map(|&v| v as f32).collect();
        assert_eq!(graph.node_features(), Some(&Features::float(3, values)));
        assert_eq!(SortingNetwork::from_graph(&graph).unwrap(), network);

        // The same network comes of the seed alone.
        let kind = kind(case["kind"].as_str().unwrap());
        kinds[kind as usize] += 1;
        let task = SortingNetworks {
            wires: wires..=wires,
            kinds: vec![kind],
        };
        let drawn = task
            .networks(case["seed"].as_u64().unwrap())
            .unwrap()
            .next()
            .unwrap();
        assert_eq!(drawn.network, network, "{case}");
        assert_eq!(
            (drawn.number, drawn.kind, drawn.sorts),
            (0, kind, case["sorts"] == true)
        );
    }
    assert_eq!(kinds, [67, 67, 66]);
}

/// `tests/fixtures/drawn_sorting_networks.jsonl`: of the same generator, the 150 networks on which
/// the shipped model `digraph-sorting` was tested, and sequences of networks of several numbers of
/// wires, up to 16.
#[test]
fn sequences_of_networks_are_the_official_ones() {
    let mut networks = 0;
    for line in include_str!("fixtures/drawn_sorting_networks.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let [smallest, largest]: [usize; 2] = pairs(&case["wires"]);
        let task = SortingNetworks {
            wires: smallest..=largest,
            kinds: NetworkKind::ALL.to_vec(),
        };
        let mut drawn = task.networks(case["seed"].as_u64().unwrap()).unwrap();
        for (number, recorded) in case["networks"].as_array().unwrap().iter().enumerate() {
            let mut next = |kind| {
                let drawn = drawn.next().unwrap();
                assert_eq!((drawn.number, drawn.kind), (number, kind));
                assert_eq!(drawn.network.wires() as u64, recorded["wires"]);
                (drawn.network.comparators().to_vec(), drawn.sorts)
            };
            let comparators: Vec<[u32; 2]> = pairs(&recorded["comparators"]);
            let (shorter, mut reversed) = (
                comparators[..comparators.len() - 1].to_vec(),
                comparators.clone(),
            );
            reversed.reverse();
            assert_eq!(next(NetworkKind::Correct), (comparators, true));
            assert_eq!(next(NetworkKind::LastRemoved), (shorter, false));
            let sorts = recorded["reversed_sorts"] == true;
            assert_eq!(next(NetworkKind::Reversed), (reversed, sorts));
            networks += 1;
        }
    }
    assert_eq!(networks, 210);
}

#[test]
fn labels_of_drawn_networks_are_what_the_test_says() {
    let task = SortingNetworks {
        wires: 3..=10,
        kinds: NetworkKind::ALL.to_vec(),
    };
    let mut found = BTreeSet::new();
    for drawn in task.networks(5).unwrap().take(300) {
        assert_eq!(drawn.network.sorts().unwrap(), drawn.sorts, "{drawn:?}");
        let twice_running = drawn.network.comparators().windows(2).any(|w| w[0] == w[1]);
        assert!(!twice_running, "{drawn:?}");
        found.insert((drawn.network.wires(), drawn.kind, drawn.sorts));
    }
    let reversed = |sorts| {
        found
            .iter()
            .filter(|f| (f.1, f.2) == (NetworkKind::Reversed, sorts))
            .count()
    };
    assert!(reversed(true) > 0 && reversed(false) > 0, "{found:?}");
    assert_eq!(
        found.iter().map(|f| f.0).collect::<BTreeSet<_>>(),
        (3..=10).collect()
    );
}

fn networks(
    wires: std::ops::Range<usize>,
    longest: usize,
) -> impl Strategy<Value = SortingNetwork> {
    wires.prop_flat_map(move |wires| {
        let comparator = (0..wires as u32, 0..wires as u32)
            .prop_filter_map("two wires", |(a, b)| (a != b).then(|| [a.min(b), a.max(b)]));
        let comparators = prop::collection::vec(comparator, 0..longest);
        comparators.prop_map(move |comparators| SortingNetwork::new(wires, comparators).unwrap())
    })
}

proptest! {
    #![proptest_config(Config {
        cases: 512,
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn the_test_agrees_with_inputs_tried_one_by_one(network in networks(2..9, 60)) {
        prop_assert_eq!(network.sorts().unwrap(), sorts_one_by_one(&network));
    }

    /// Short networks seldom sort, long ones do: between them lie networks that fail on few inputs.
    #[test]
    fn networks_that_sort_sort_all_values(network in networks(2..7, 60), seed: u64) {
        let values = (0..network.wires() as u64).map(|wire| (seed >> (8 * wire)) as u8);
        if network.sorts().unwrap() {
            prop_assert!(run(&network, values.collect()).is_sorted());
        }
    }

    #[test]
    fn graphs_hold_the_whole_network(network in networks(2..9, 30)) {
        prop_assume!(!network.comparators().is_empty());
        let graph = network.graph().unwrap();
        let read = SortingNetwork::from_graph(&graph).unwrap();
        prop_assert_eq!(read.comparators(), network.comparators());
        // Every node has one edge for each wire that was touched before.
        let touched = |wires: &[u32], node: usize| {
            let before = network.comparators()[..node].iter().flatten();
            wires.iter().filter(|wire| before.clone().any(|other| other == *wire)).count()
        };
        for (node, wires) in network.comparators().iter().enumerate() {
            let edges = graph.edges().iter().filter(|edge| edge[1] as usize == node);
            prop_assert_eq!(edges.count(), touched(wires, node));
        }
        prop_assert!(graph.edges().iter().all(|[source, target]| source < target));
    }
}

#[test]
fn batchers_networks_sort_and_need_their_comparators() {
    // Comparators that the network of a power of two needs and that of so many wires does not, found
    // by trying all inputs with numpy.
    let superfluous = |wires: usize, position: usize| {
        [(9, 22), (11, 12), (11, 22), (12, 14), (12, 24)].contains(&(wires, position))
    };
    for wires in 1..=16 {
        let network = SortingNetwork::odd_even_merge_sort(wires).unwrap();
        assert!(network.sorts().unwrap(), "{wires}");
        for left_out in 0..network.comparators().len() {
            let mut comparators = network.comparators().to_vec();
            comparators.remove(left_out);
            let shorter = SortingNetwork::new(wires, comparators).unwrap();
            let sorts = superfluous(wires, left_out);
            assert_eq!(shorter.sorts().unwrap(), sorts, "{wires} {left_out}");
        }
        assert_eq!(network.reversed().sorts().unwrap(), wires < 4, "{wires}");
    }
    // The sizes are known: (k² − k + 4)·2^(k−2) − 1 for 2^k wires.
    for k in 0..=10u32 {
        let network = SortingNetwork::odd_even_merge_sort(1 << k).unwrap();
        let size = ((k * k - k + 4) << k) / 4 - 1;
        assert_eq!(network.comparators().len(), size as usize, "{k}");
    }
    let network = SortingNetwork::odd_even_merge_sort(4).unwrap();
    assert_eq!(
        network.comparators(),
        [[0, 1], [2, 3], [0, 2], [1, 3], [1, 2]]
    );
    let network = SortingNetwork::odd_even_merge_sort(21).unwrap();
    assert!(network.sorts().unwrap());
    assert!(!network.without_last().sorts().unwrap());
    // Beyond the test: numbers in some order.
    for wires in [29, 100, 1000] {
        let network = SortingNetwork::odd_even_merge_sort(wires).unwrap();
        let values = (0..wires).map(|wire| (wire * 7919 % 251) as u8);
        assert!(run(&network, values.collect()).is_sorted(), "{wires}");
    }
    SortingNetwork::odd_even_merge_sort(MAX_WIRES).unwrap();
}

#[test]
fn graphs_are_labelled_and_named() {
    let task = SortingNetworks {
        wires: 4..=4,
        kinds: vec![NetworkKind::Reversed, NetworkKind::Correct],
    };
    let networks: Vec<_> = task.networks(3).unwrap().take(5).collect();
    let graphs: Vec<Graph> = task
        .graphs(3)
        .unwrap()
        .take(5)
        .map(Result::unwrap)
        .collect();
    let ids = [
        "0-reversed",
        "0-correct",
        "1-reversed",
        "1-correct",
        "2-reversed",
    ];
    for ((network, graph), id) in networks.iter().zip(&graphs).zip(ids) {
        assert_eq!(graph.id(), Some(&GraphId::from(id)));
        let data = vec![if network.sorts { 1.0 } else { 0.0 }];
        assert_eq!(graph.targets(), Some(&Targets { width: 1, data }));
        assert_eq!(SortingNetwork::from_graph(graph).unwrap(), network.network);
    }
    // The bytes of a record, which no machine and no release may change.
    assert_eq!(
        serde_json::to_string(&graphs[1]).unwrap(),
        RECORD.replace('\n', "")
    );
}

const RECORD: &str = r#"{"id":"0-correct","x":[[0.0,1.0,3.0],[1.0,1.0,2.0],[2.0,2.0,3.0],[3.0,0.0,1.0],
[4.0,1.0,3.0],[5.0,1.0,2.0]],"edge_index":[[0,1,0,1,3,2,4,2],[1,2,2,3,4,4,5,5]],"y":1.0}"#;

#[track_caller]
fn refused<T: std::fmt::Debug>(result: candle_graph::Result<T>, message: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn impossible_networks_and_options_are_refused() {
    refused(SortingNetwork::new(0, []), "wires: 0 is out of range");
    refused(
        SortingNetwork::odd_even_merge_sort(MAX_WIRES + 1),
        "wires: 16385 is out of range",
    );
    for comparator in [[2, 2], [3, 1], [0, 4], [u32::MAX, u32::MAX]] {
        let message = "comparator 1 is [";
        refused(SortingNetwork::new(4, [[0, 3], comparator]), message);
    }
    let endless = std::iter::repeat([0, 1]);
    refused(
        SortingNetwork::new(2, endless),
        "comparators: 1048577 is out of range",
    );
    let wide = |wires| SortingNetwork::new(wires, []).unwrap().sorts();
    assert!(!wide(MAX_TESTED_WIRES).unwrap());
    let message = "a network of 29 wires has 2^29 inputs of zeros and ones to test; 28 wires are";
    refused(wide(29), message);
    refused(SortingNetwork::new(2, []).unwrap().graph(), "node");
    assert!(
        SortingNetwork::new(2, [])
            .unwrap()
            .without_last()
            .comparators()
            .is_empty()
    );

    let kinds = vec![NetworkKind::Correct];
    #[allow(clippy::reversed_empty_ranges)]
    for wires in [2..=5, 5..=MAX_DRAWN_WIRES + 1, 7..=6, 0..=0] {
        let task = SortingNetworks {
            wires,
            kinds: kinds.clone(),
        };
        assert!(task.graphs(0).is_err(), "{task:?}");
        refused(task.networks(0).map(|_| ()), "wires: ");
    }
    let none = SortingNetworks {
        kinds: Vec::new(),
        ..SortingNetworks::default()
    };
    refused(none.networks(0).map(|_| ()), "kinds: none is given");
}

#[test]
fn graphs_that_are_no_networks_name_the_node() {
    let graph = |width: usize, values: &[f32]| {
        let features = Features::float(width, values.to_vec());
        Graph::builder(values.len() / width)
            .node_features(features)
            .build()
            .unwrap()
    };
    // Rows may come in any order.
    let network = SortingNetwork::from_graph(&graph(3, &[1.0, 1.0, 2.0, 0.0, 0.0, 1.0])).unwrap();
    assert_eq!(
        (network.wires(), network.comparators()),
        (3, &[[0, 1], [1, 2]][..])
    );
    for second in [
        [0.0, 1.0, 2.0],
        [2.0, 1.0, 2.0],
        [1.0, 0.5, 2.0],
        [1.0, -1.0, 2.0],
        [1.0, 1.0, 1e9],
    ] {
        let values = [[0.0, 0.0, 1.0], second].concat();
        refused(
            SortingNetwork::from_graph(&graph(3, &values)),
            "node 1 is no comparator",
        );
    }
    let values = [0.0, 0.0, 1.0, 1.0, 2.0, 1.0];
    refused(
        SortingNetwork::from_graph(&graph(3, &values)),
        "comparator 1 is [2, 1]",
    );
    refused(
        SortingNetwork::from_graph(&graph(2, &values)),
        "node 0 is no comparator",
    );
    refused(
        SortingNetwork::from_graph(&Graph::builder(2).build().unwrap()),
        "node 0",
    );
}
