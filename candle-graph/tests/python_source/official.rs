//! The graphs that the official code made of 21 functions.

use candle_graph::datasets::python::{EdgeType, ProgramGraph, PythonFunction};
use serde_json::Value;

use crate::isomorphism::{Coloured, isomorphic};

const NEXT_SYNTAX: u64 = EdgeType::NextSyntax as u64;

pub(crate) fn fixture(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/dataflow");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn names() -> Vec<String> {
    let index = fixture("index");
    let functions = index["functions"].as_array().unwrap();
    let name = |function: &Value| function["name"].as_str().unwrap().to_string();
    functions.iter().map(name).collect()
}

/// Nodes as (type, attribute, depth), edges as (sender, receiver, type, name, order).
type Listing = (
    Vec<(String, String, u64)>,
    Vec<(u64, u64, u64, String, u64)>,
);

fn official(record: &Value) -> Listing {
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let nodes = record["nodes"].as_array().unwrap().iter().map(|node| {
        let depth = node["depth"].as_u64().unwrap();
        (text(&node["type"]), text(&node["attribute"]), depth)
    });
    let edges = record["edges"].as_array().unwrap().iter().map(|edge| {
        let number = |column: usize| edge[column].as_u64().unwrap();
        (number(0), number(1), number(2), text(&edge[3]), number(4))
    });
    (nodes.collect(), edges.collect())
}

fn listing(graph: &ProgramGraph) -> Listing {
    let nodes = graph.nodes().iter().map(|node| {
        let name = node.node_type.name().to_string();
        (
            name,
            node.attribute_name().to_string(),
            u64::from(node.depth),
        )
    });
    let edges = graph.edges().iter().map(|edge| {
        (
            u64::from(edge.sender),
            u64::from(edge.receiver),
            u64::from(edge.edge_type.index()),
            edge.name.to_string(),
            u64::from(edge.order),
        )
    });
    (nodes.collect(), edges.collect())
}

fn coloured((nodes, edges): &Listing, with_next_syntax: bool) -> Coloured {
    let edges = edges
        .iter()
        .filter(|edge| with_next_syntax || edge.2 != NEXT_SYNTAX);
    Coloured {
        nodes: nodes.iter().map(|node| format!("{node:?}")).collect(),
        edges: edges
            .map(|(s, r, kind, name, order)| {
                (*s as usize, *r as usize, format!("{kind} {name} {order}"))
            })
            .collect(),
    }
}

fn ours(name: &str) -> Listing {
    let record = fixture(name);
    let function = PythonFunction::parse(record["source"].as_str().unwrap()).unwrap();
    assert_eq!(function.name(), record["function_name"].as_str().unwrap());
    listing(function.graph())
}

#[test]
fn graphs_are_isomorphic_to_the_official_ones() {
    let names = names();
    assert_eq!(names.len(), 21);
    for name in names {
        let official = coloured(&official(&fixture(&name)), true);
        assert!(
            isomorphic(&coloured(&ours(&name), true), &official),
            "{name}"
        );
    }
}

/// More than isomorphic: the numbers of the nodes are the same too, so that models that break ties by
/// them see the same.
#[test]
fn nodes_are_numbered_as_by_the_official_code() {
    for name in names() {
        let (nodes, mut edges) = official(&fixture(&name));
        edges.sort();
        let (our_nodes, mut our_edges) = ours(&name);
        our_edges.sort();
        assert_eq!(our_nodes, nodes, "{name}");
        assert_eq!(our_edges, edges, "{name}");
    }
}

/// One function for every kind of syntax, beyond the 21: patterns, groups of exceptions, f-strings,
/// literals, parameters, loops that are left through `finally`.
#[test]
fn every_kind_of_syntax_gives_the_official_graph() {
    let record = fixture("syntax");
    let functions = record["functions"].as_array().unwrap();
    assert!(functions.len() > 60);
    for function in functions {
        let source = function["source"].as_str().unwrap();
        let ours = PythonFunction::parse(source).unwrap();
        assert_eq!(ours.name(), function["function_name"].as_str().unwrap());
        let (nodes, mut edges) = listing(ours.graph());
        edges.sort();
        let ours = serde_json::json!({ "nodes": nodes, "edges": edges });
        assert_eq!(ours["nodes"], function["nodes"], "{source}");
        assert_eq!(ours["edges"], function["edges"], "{source}");
    }
}

/// The comparison above can fail: one changed edge, edge type, node type or attribute is seen.
#[test]
fn damaged_graphs_are_told_apart() {
    for name in ["recursion", "try_except_finally", "commutative_ops"] {
        let graph = ours(name);
        let intact = coloured(&graph, true);
        let mut turned = graph.clone();
        let edge = &mut turned.1[3];
        (edge.0, edge.1) = (edge.1, edge.0);
        let mut retyped = graph.clone();
        retyped.1[3].2 = 4;
        let mut reordered = graph.clone();
        reordered.1[3].4 += 1;
        let mut other_node = graph.clone();
        other_node.0[2].0 = "Lambda".to_string();
        let mut other_name = graph.clone();
        other_name.0[3].1 = "other".to_string();
        for damaged in [turned, retyped, reordered, other_node, other_name] {
            assert!(!isomorphic(&intact, &coloured(&damaged, true)), "{name}");
        }
    }
}

/// Reordered statements give the same graph exactly where the official code says so.
#[test]
fn reordered_statements_give_the_graph_they_should() {
    let index = fixture("index");
    let pairs = index["isomorphism_up_to_node_order"].as_array().unwrap();
    assert_eq!(pairs.len(), 6);
    for pair in pairs {
        let [a, b] = ["a", "b"].map(|side| ours(pair[side].as_str().unwrap()));
        for (field, with_next_syntax) in [
            ("all_edges", true),
            ("model_edges_without_NEXT_SYNTAX", false),
        ] {
            let found = isomorphic(
                &coloured(&a, with_next_syntax),
                &coloured(&b, with_next_syntax),
            );
            assert_eq!(Some(found), pair[field].as_bool(), "{pair} {field}");
        }
    }
}
