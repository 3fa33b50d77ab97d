use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Graph {
    serde_json::from_str(text).unwrap()
}

fn refused(text: &str) -> String {
    serde_json::from_str::<Graph>(text).unwrap_err().to_string()
}

#[test]
fn both_edge_forms_have_their_own_default_direction() {
    let listed = read(r#"{"x":[5,6],"edge_index":[[0],[1]],"edge_attr":[3]}"#);
    assert_eq!(listed.edges(), [[0, 1]]);
    let doubled = read(r#"{"x":[5,6],"edges":[[0,1,3]]}"#);
    assert_eq!(doubled.edges(), [[0, 1], [1, 0]]);
    assert_eq!(
        doubled.edge_features(),
        Some(&Features::categorical(1, vec![3, 3]))
    );
    assert_eq!(
        read(r#"{"x":[5,6],"edges":[[0,1,3]],"directed":true}"#),
        listed
    );
    assert_eq!(
        read(r#"{"directed":false,"x":[[5],[6]],"edge_index":[[0],[1]],"edge_attr":[[3]]}"#),
        doubled
    );
}

#[test]
fn one_other_number_makes_a_table_real() {
    let kind = |x: &str| {
        let graph = read(&format!(r#"{{"x":{x},"edge_index":[[],[]]}}"#));
        graph.node_features().unwrap().clone()
    };
    assert_eq!(kind("[1,2]"), Features::categorical(1, vec![1, 2]));
    assert_eq!(kind("[1,2.0]"), Features::float(1, vec![1.0, 2.0]));
    assert_eq!(kind("[1,-2]"), Features::float(1, vec![1.0, -2.0]));
    assert_eq!(kind("[[1,2e0]]"), Features::float(2, vec![1.0, 2.0]));
    assert_eq!(
        kind("[4294967295]"),
        Features::categorical(1, vec![u32::MAX])
    );
    assert_eq!(kind("[4294967296]"), Features::float(1, vec![4294967296.0]));
}

#[test]
fn pairs_to_score_are_two_lists_that_direction_leaves_alone() {
    let graph = read(
        r#"{"num_nodes":3,"edges":[[0,1]],"edge_label_index":[[2,0,0],[0,2,2]],"y":[[1],[0],[1]]}"#,
    );
    let pairs = [[2, 0], [0, 2], [0, 2]];
    assert_eq!(graph.edge_label_index(), Some(&pairs[..]));
    assert_eq!(graph.num_edges(), 2);
    let written = serde_json::to_string(&graph).unwrap();
    assert_eq!(read(&written), graph);
    let none = read(r#"{"num_nodes":1,"edges":[],"edge_label_index":[[],[]]}"#);
    assert_eq!(none.edge_label_index(), Some(&[][..]));
    assert_eq!(read(&serde_json::to_string(&none).unwrap()), none);
    for absent in [r#", "edge_label_index":null"#, ""] {
        let graph = read(&format!(r#"{{"num_nodes":1,"edges":[]{absent}}}"#));
        assert_eq!(graph.edge_label_index(), None);
    }
}

#[test]
fn bad_pairs_to_score_are_named() {
    for (pairs, words) in [
        (
            "[[0],[2]]",
            "edge_label_index: edge 0 is 0 -> 2, but nodes are numbered 0 to 1",
        ),
        ("[[0,-1],[1,0]]", "edge_label_index: edge 1 is -1 -> 0"),
        ("[[0,1],[1]]", "edge_label_index: 2 sources but 1 targets"),
        (
            "[[0],[1],[1]]",
            "edge_label_index: 3 lists; it is two lists, all sources and all targets",
        ),
        (
            "[[0.5],[1]]",
            "edge_label_index: edge 0: source 0.5 is not a node number",
        ),
        ("7", "two lists of node numbers"),
    ] {
        let text = format!(r#"{{"num_nodes":2,"edges":[[0,1]],"edge_label_index":{pairs}}}"#);
        let message = refused(&text);
        assert!(message.contains(words), "{pairs}: {message}");
    }
    let twice =
        r#"{"num_nodes":2,"edges":[],"edge_label_index":[[],[]],"edge_label_index":[[],[]]}"#;
    assert!(refused(twice).contains("edge_label_index: given twice"));
    let rows = r#"{"num_nodes":2,"edges":[],"edge_label_index":[[0],[1]],"y":[[1],[0],[1]]}"#;
    let message = refused(rows);
    assert!(
        message.contains("y: 3 rows, expected 1 (one row a pair"),
        "{message}"
    );
}

#[test]
fn targets_take_a_number_a_row_or_rows_and_null() {
    let targets = |y: &str| {
        let graph = read(&format!(r#"{{"num_nodes":2,"edges":[],"y":{y}}}"#));
        graph.targets().map(|t| (t.width, t.data.clone()))
    };
    assert_eq!(targets("3"), Some((1, vec![3.0])));
    assert_eq!(targets("[1,2.5,3]"), Some((3, vec![1.0, 2.5, 3.0])));
    assert_eq!(targets("[[1],[2]]"), Some((1, vec![1.0, 2.0])));
    assert_eq!(targets("[]"), None);
    for (y, width) in [("null", 1), ("[1,null]", 2), ("[[null],[2]]", 1)] {
        let (found, data) = targets(y).unwrap();
        assert_eq!(found, width);
        assert_eq!(data.iter().filter(|v| v.is_nan()).count(), 1);
    }
}

#[test]
fn coordinates_are_real_and_come_back_bit_by_bit() {
    let graph = read(r#"{"num_nodes":2,"t":[[0,1],[2,3]],"edges":[[0,1]]}"#);
    let whole = Features::float(2, vec![0.0, 1.0, 2.0, 3.0]);
    assert_eq!(graph.rotational_features(), Some(&whole));
    assert_eq!(graph.node_features(), None);
    let flat = read(r#"{"x":[5,6],"t":[0.5,-1],"edges":[]}"#);
    let column = Features::float(1, vec![0.5, -1.0]);
    assert_eq!(flat.rotational_features(), Some(&column));
    // The shortest decimal text of each of these values stands for it alone.
    let decimals = [
        "-0.31622776",
        "0.105625376",
        "6.661338e-16",
        "-2.1926905e-15",
    ];
    let text = format!(
        r#"{{"num_nodes":1,"t":[[{}]],"edges":[]}}"#,
        decimals.join(",")
    );
    let graph = read(&text);
    let expected = decimals.map(|d| d.parse::<f32>().unwrap().to_bits());
    let Some(Features::Float { width: 4, data }) = graph.rotational_features() else {
        panic!("{:?}", graph.rotational_features());
    };
    assert_eq!(
        data.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
        expected
    );
    let written = serde_json::to_string(&graph).unwrap();
    assert!(
        written.contains("[[-0.31622776,0.105625376,6.661338e-16,"),
        "{written}"
    );
    assert_eq!(read(&written), graph);
    let absent = read(r#"{"num_nodes":1,"t":null,"edges":[]}"#);
    assert_eq!(absent.rotational_features(), None);
}

#[test]
fn bad_coordinates_are_named() {
    for (fields, words) in [
        (
            r#""t":[[0.5,1],[2,3],[4,5]]"#,
            "t: 3 rows, expected 2 (one row a node)",
        ),
        (r#""t":[[0.5,1],[2]]"#, "t: row 1 has 1 value(s)"),
        (
            r#""t":[[0.5],[1e39]]"#,
            "t: value 1e39 at row 1, column 0 is not finite",
        ),
        (r#""t":[]"#, "t: it holds no values"),
        (r#""t":[[null],[1]]"#, "null"),
        (r#""t":[1,2],"t":[1,2]"#, "t: given twice"),
    ] {
        let message = refused(&format!(
            r#"{{"id":"g","num_nodes":2,"edges":[],{fields}}}"#
        ));
        assert!(message.contains(words), "{fields}: {message}");
    }
    let built = Graph::builder(2).rotational_features(Features::float(1, vec![0.0, f32::NAN]));
    let message = built.id("g").build().unwrap_err().to_string();
    assert!(
        message.starts_with("graph \"g\": t: value NaN at row 1, column 0"),
        "{message}"
    );
}

#[test]
fn coordinates_follow_their_nodes() {
    let graph = read(r#"{"num_nodes":3,"t":[[0.5,1],[2,3],[4,5]],"edges":[[0,1]]}"#);
    let moved = graph.renumbered(&[2, 0, 1]).unwrap();
    let rows = Features::float(2, vec![2.0, 3.0, 4.0, 5.0, 0.5, 1.0]);
    assert_eq!(moved.rotational_features(), Some(&rows));
    let turned = graph.with_edge_order(&[1, 0]).unwrap();
    assert_eq!(turned.rotational_features(), graph.rotational_features());
}

#[test]
fn null_and_unknown_fields_count_as_absent() {
    let graph = read(
        r#"{"id":null,"smiles":"CC","x":null,"num_nodes":2,"extra":{"a":[1,{}]},"edges":[[0,1]],"edge_attr":null}"#,
    );
    assert_eq!((graph.num_nodes(), graph.num_edges()), (2, 2));
    assert!(graph.id().is_none() && graph.node_features().is_none());
}

#[test]
fn problems_name_graph_field_place_and_value() {
    for (text, words) in [
        (
            r#"{"id":"a","x":[0],"edge_index":[[0],[7]]}"#,
            &["graph \"a\"", "edge_index", "edge 0 is 0 -> 7"][..],
        ),
        (
            r#"{"x":[0,1],"edge_index":[[0],[-1]]}"#,
            &["without id", "0 -> -1"],
        ),
        (
            r#"{"x":[0,1],"edge_index":[[0,1],[1,0.5]]}"#,
            &["edge_index", "edge 1", "target 0.5"],
        ),
        (
            r#"{"x":[0,1],"edges":[[0,1],[1.5,0]]}"#,
            &["edges", "edge 1", "source 1.5"],
        ),
        (
            r#"{"x":[0,1],"edge_index":[[0,1],[1]]}"#,
            &["edge_index", "2 sources but 1 targets"],
        ),
        (
            r#"{"x":[0,1],"edge_index":[[0,1],[1,0],[1,1]]}"#,
            &["edge_index", "3 lists", "`edges`"],
        ),
        (
            r#"{"x":[[0.5,1e39]],"edges":[]}"#,
            &["x", "1e39", "row 0, column 1", "not finite"],
        ),
        (
            r#"{"x":[0,0],"edges":[[0,1,0.5],[1,1,-4e38]]}"#,
            &["edges", "-4e38", "row 1, column 2"],
        ),
        (
            r#"{"x":[0,0],"edges":[[0,1,5],[1,1]]}"#,
            &["edges", "row 1 has 2", "before have 3"],
        ),
        (r#"{"x":[[0],[1,2]],"edges":[]}"#, &["x", "row 1 has 2"]),
        (r#"{"x":[[0],1],"edges":[]}"#, &["x", "mixed", "row 1"]),
        (
            r#"{"x":[0],"num_nodes":2,"edges":[]}"#,
            &["x", "1 rows, expected 2"],
        ),
        (
            r#"{"num_nodes":-3,"edges":[]}"#,
            &["num_nodes", "-3 is not a number of nodes"],
        ),
        (r#"{"edges":[]}"#, &["num_nodes", "missing"]),
        (r#"{"x":[1]}"#, &["edge_index", "missing"]),
        (r#"{"x":[],"edges":[]}"#, &["no nodes"]),
        (
            r#"{"x":[1],"edges":[],"edge_index":[[],[]]}"#,
            &["edges", "edge_index", "one of the two"],
        ),
        (
            r#"{"x":[1],"edges":[],"edge_attr":[]}"#,
            &["edge_attr", "belongs to `edge_index`"],
        ),
        (
            r#"{"x":[1,1],"edge_index":[[0],[1]],"edge_attr":[1,2]}"#,
            &["edge_attr", "2 rows, expected 1"],
        ),
        (r#"{"x":[1],"x":[1],"edges":[]}"#, &["given twice"]),
        (r#"{"x":[null],"edges":[]}"#, &["null", "a number"]),
        (r#"{"x":["C"],"edges":[]}"#, &["\"C\"", "a number"]),
        (r#"{"x":[1],"edges":[[0]]}"#, &["source and target"]),
        (r#"{"x":[1],"edges":[],"id":1.5}"#, &["1.5", "text"]),
        (
            r#"{"x":[1],"edges":[],"y":[[1],[2,3]]}"#,
            &["y", "row 1 has 2"],
        ),
        (r#"{"x":[1],"edges":[],"y":1e39}"#, &["y", "1e39"]),
    ] {
        let message = refused(text);
        for word in words {
            assert!(message.contains(word), "{text}: {message} lacks {word}");
        }
    }
}

#[test]
fn a_spelling_that_double_rounding_breaks_survives() {
    let value = f32::from_bits(0x15ae_43fd);
    let graph = Graph::builder(1)
        .node_features(Features::float(1, vec![value]))
        .build()
        .unwrap();
    let text = serde_json::to_string(&graph).unwrap();
    assert_eq!(read(&text), graph, "{text}");
}

#[test]
fn an_infinite_target_is_not_written() {
    let graph = Graph::builder(1)
        .targets(Targets {
            width: 1,
            data: vec![f32::INFINITY],
        })
        .build()
        .unwrap();
    let message = serde_json::to_string(&graph).unwrap_err().to_string();
    assert!(message.contains("y: value inf"), "{message}");
}

fn finite() -> impl Strategy<Value = f32> {
    any::<u32>().prop_map(|bits| {
        let value = f32::from_bits(bits);
        if value.is_finite() { value } else { -0.0 }
    })
}

fn table(rows: usize) -> impl Strategy<Value = Option<Features>> {
    (1usize..4, 0..3).prop_flat_map(move |(width, kind)| match kind {
        0 => Just(None).boxed(),
        1 => proptest::collection::vec(any::<u32>(), rows * width)
            .prop_map(move |data| Some(Features::categorical(width, data)))
            .boxed(),
        _ => proptest::collection::vec(finite(), rows * width)
            .prop_map(move |data| Some(Features::float(width, data)))
            .boxed(),
    })
}

pub(crate) fn any_graph() -> impl Strategy<Value = Graph> {
    (1usize..7, 0usize..9)
        .prop_flat_map(|(n, m)| {
            (
                Just(n),
                proptest::collection::vec([0..n as u32, 0..n as u32], m),
                table(n),
                proptest::option::of(
                    (1usize..3, proptest::collection::vec(finite(), 2 * n)).prop_map(
                        move |(width, mut data)| {
                            data.truncate(width * n);
                            Features::float(width, data)
                        },
                    ),
                ),
                table(m),
                // With pairs, a column of targets may have a row each.
                proptest::option::of(proptest::collection::vec([0..n as u32, 0..n as u32], 1..6)),
                proptest::option::of((
                    1usize..3,
                    prop_oneof![Just(Some(1)), Just(Some(n)), Just(None)],
                    proptest::collection::vec(finite(), 14),
                )),
                prop_oneof![
                    Just(None),
                    any::<i64>().prop_map(|id| Some(GraphId::Number(id))),
                    "\\PC*".prop_map(|id| Some(GraphId::Text(id))),
                ],
            )
        })
        .prop_map(|(n, edges, x, t, edge_attr, pairs, y, id)| {
            let mut builder = Graph::builder(n)
                .edges(edges)
                .node_features(x)
                .rotational_features(t)
                .edge_features(edge_attr)
                .targets(y.map(|(width, rows, mut data)| {
                    let rows = rows.unwrap_or(pairs.as_ref().map_or(n, Vec::len));
                    data.truncate(width * rows);
                    Targets { width, data }
                }));
            if let Some(pairs) = pairs {
                builder = builder.edge_label_index(pairs);
            }
            if let Some(id) = id {
                builder = builder.id(id);
            }
            builder.build().unwrap()
        })
}

proptest! {
    #[test]
    fn writing_and_reading_is_identity(graph in any_graph()) {
        let text = serde_json::to_string(&graph).unwrap();
        let back: Graph = serde_json::from_str(&text).unwrap();
        // `==` takes 0.0 for -0.0; a second writing tells them apart.
        prop_assert_eq!(serde_json::to_string(&back).unwrap(), text);
        prop_assert_eq!(back, graph);
    }
}
