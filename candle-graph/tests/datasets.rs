//! The readers against each other, against bad input and against noise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Cursor;
use std::path::{Path, PathBuf};

use candle_graph::Error;
use candle_graph::datasets::{self, EdgeListOptions, Format, GraphReader, ReadOptions};
use candle_graph::graph::{Features, Graph, GraphId};
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

fn read_all(text: impl AsRef<[u8]>, format: Format) -> Vec<Graph> {
    datasets::read(Cursor::new(text.as_ref().to_vec()), format, "input")
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn first_error(text: &[u8], format: Format, options: &ReadOptions) -> String {
    match datasets::read_with(Cursor::new(text.to_vec()), format, "input", options) {
        Err(error) => error.to_string(),
        Ok(reader) => reader
            .map(|g| g.map_err(|e| e.to_string()))
            .find_map(Result::err)
            .expect("bad input was read"),
    }
}

/// Asserts that reading `text` fails with a message that has all `words`.
fn refuse(text: impl AsRef<[u8]>, format: Format, words: &[&str]) {
    let message = first_error(text.as_ref(), format, &ReadOptions::default());
    for word in words {
        let shown = String::from_utf8_lossy(text.as_ref());
        assert!(message.contains(word), "{shown}\n{message}\nlacks {word}");
    }
}

fn bytes<const N: usize, T: Copy>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&v| to(v)).collect()
}

type Tensor<'a> = (&'a str, Dtype, Vec<usize>, Vec<u8>);

fn ints<'a>(name: &'a str, shape: &[usize], values: &[i64]) -> Tensor<'a> {
    let data = bytes(values, i64::to_le_bytes);
    (name, Dtype::I64, shape.to_vec(), data)
}

fn reals<'a>(name: &'a str, shape: &[usize], values: &[f32]) -> Tensor<'a> {
    let data = bytes(values, f32::to_le_bytes);
    (name, Dtype::F32, shape.to_vec(), data)
}

fn safetensors_file(tensors: &[Tensor<'_>]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, data)| {
            (*name, TensorView::new(*dtype, shape.clone(), data).unwrap())
        })
        .collect::<Vec<_>>();
    safetensors::serialize(views, None).unwrap()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn shared() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let path = std::env::var_os("CANDLE_GRAPH_SHARED").map_or(default, PathBuf::from);
    path.is_dir().then_some(path)
}

/// Everything but id and targets, which not every format carries.
fn structure(graph: &Graph) -> (usize, &[[u32; 2]], Option<&Features>, Option<&Features>) {
    (
        graph.num_nodes(),
        graph.edges(),
        graph.node_features(),
        graph.edge_features(),
    )
}

#[test]
fn all_formats_give_the_same_graph() {
    let graph = Graph::builder(3)
        .edges([[0, 1], [1, 2], [2, 2]])
        .undirected(true)
        .node_features(Features::float(2, vec![0.5, 1.0, -2.0, 0.25, 3.0, 1e-7]))
        .edge_features(Features::categorical(1, vec![4, 5, 6]))
        .targets(candle_graph::graph::Targets {
            width: 2,
            data: vec![1.5, 2.0],
        })
        .id(7)
        .build()
        .unwrap();

    let edges = r#""x":[[0.5,1],[-2,0.25],[3,1e-7]],"edges":[[0,1,4],[1,2,5],[2,2,6]],"y":[1.5,2]"#;
    let record = format!(r#"{{"id":7,{edges}}}"#);
    let index = r#"{"id":7,"x":[[0.5,1],[-2,0.25],[3,1e-7]],"directed":false,
        "edge_index":[[0,1,2],[1,2,2]],"edge_attr":[4,5,6],"y":[1.5,2]}"#;
    let expected = std::slice::from_ref(&graph);
    assert_eq!(read_all(&record, Format::JsonLines), expected);
    for document in [
        record.clone(),
        index.to_string(),
        format!("\u{feff}[{record}]"),
        format!(r#"{{"about":[1,{{"graphs":0}}],"graphs":[ {record} ],"n":1}}"#),
        serde_json::to_string(&graph).unwrap(),
    ] {
        assert_eq!(read_all(document, Format::Json), expected);
    }

    for key in ["links", "edges"] {
        let data = format!(
            r#"{{"directed":false,"multigraph":false,"graph":{{"id":7,"y":[1.5,2],"name":"g"}},
            "{key}":[{{"source":"a","target":[0,1],"weight":4}},
                     {{"weight":5,"source":[0,1],"target":3}},
                     {{"source":3,"target":3.0,"key":0,"weight":6}}],
            "nodes":[{{"id":"a","feat":[0.5,1]}},{{"feat":[-2,0.25],"id":[0,1]}},
                     {{"id":3,"feat":[3,1e-7],"label":"z"}}]}}"#
        );
        assert_eq!(read_all(&data, Format::NodeLink), expected);
        let list = format!("[{data},{data}]");
        assert_eq!(
            read_all(list, Format::NodeLink),
            [graph.clone(), graph.clone()]
        );
    }

    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes.csv");
    std::fs::write(&nodes, "node,a,b\n1,-2,0.25\n2,3,1e-7\n0,0.5,1\n").unwrap();
    for (name, text) in [
        (
            "a.csv",
            "# a comment\nsource,target,bond\n0,1,4\n1,2,5\n\n2,2,6\n",
        ),
        (
            "a.tsv",
            "bond\tdst\tsrc\r\n4\t1\t0\r\n5\t2\t1\r\n6\t2\t2\r\n",
        ),
        ("a.edges", "0 1  4\n1 2 5\n# c\n 2 2 6"),
        ("a.txt", "0;1;4\n1;2;5\n2;2;6\n"),
        ("b.csv", "\"from\",\"to\",\"bond\"\n0,1,4\n1,2,5\n2,2,6\n"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut options = ReadOptions::default();
        options.edge_list.node_features = Some(nodes.clone());
        let graphs: Vec<_> = datasets::open(&path, None, &options)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(graphs.len(), 1, "{name}");
        assert_eq!(structure(&graphs[0]), structure(&graph), "{name}");
    }

    let file = safetensors_file(&[
        reals("x", &[3, 2], &[0.5, 1.0, -2.0, 0.25, 3.0, 1e-7]),
        ints("edge_index", &[2, 5], &[0, 1, 1, 2, 2, 1, 0, 2, 1, 2]),
        ints("edge_attr", &[5], &[4, 4, 5, 5, 6]),
        ints("ptr", &[2], &[0, 3]),
        reals("y", &[1, 2], &[1.5, 2.0]),
    ]);
    let graphs = read_all(file, Format::SafetensorsBatch);
    assert_eq!(structure(&graphs[0]), structure(&graph));
    assert_eq!(graphs[0].targets(), graph.targets());
}

#[test]
fn the_json_kind_is_told_by_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("g.json");
    for text in [
        r#"{"nodes":[{"id":1},{"id":2}],"edges":[{"source":1,"target":2}]}"#,
        r#"[{"graph":{},"nodes":[{"id":1},{"id":2}],"links":[{"source":1,"target":2}]}]"#,
        r#"{"about":[1,2],"graphs":[{"nodes":[{"id":1},{"id":2}],"links":[{"source":1,"target":2}]}]}"#,
        r#"{"num_nodes":2,"edges":[[0,1]]}"#,
        r#"[{"num_nodes":2,"edges":[[0,1]],"meta":{"nodes":0,"links":0}}]"#,
        r#"{"graphs":[{"num_nodes":2,"edges":[[0,1]]}]}"#,
    ] {
        std::fs::write(&path, text).unwrap();
        let reader = datasets::open(&path, None, &ReadOptions::default()).unwrap();
        let graphs: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(graphs.len(), 1, "{text}");
        assert_eq!(graphs[0].edges(), [[0, 1], [1, 0]], "{text}");
    }
}

#[test]
fn molecules_are_read_as_they_stand_in_the_file() {
    let path = fixture("zinc64.jsonl");
    let graphs: Vec<_> = datasets::open(&path, None, &ReadOptions::default())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(graphs.len(), 64);
    let first = &graphs[0];
    assert_eq!(first.id(), Some(&GraphId::Number(912)));
    assert_eq!((first.num_nodes(), first.num_edges()), (16, 34));
    assert_eq!(first.edges()[..4], [[0, 1], [1, 0], [1, 2], [2, 1]]);
    assert_eq!(first.targets().unwrap().data, [1.999_782_3]);
    assert!(graphs.iter().all(|g| matches!(
        g.node_features(),
        Some(Features::Categorical { width: 1, .. })
    )));
    for graph in &graphs {
        let text = serde_json::to_string(graph).unwrap();
        assert_eq!(serde_json::from_str::<Graph>(&text).unwrap(), *graph);
    }
}

#[test]
fn an_edge_list_is_split_into_graphs() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes.csv");
    std::fs::write(&nodes, "graph,f\nb,1\nb,2\n4,3\n4,4\nlone,5\n").unwrap();
    let options = ReadOptions {
        edge_list: EdgeListOptions {
            directed: true,
            node_features: Some(nodes),
            ..EdgeListOptions::default()
        },
        ..ReadOptions::default()
    };
    let text = "graph,src,dst\n4,0,1\nb,1,0\nb,1,1\n";
    let graphs: Vec<_> = datasets::read_with(text.as_bytes(), Format::EdgeList, "input", &options)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let found: Vec<_> = graphs
        .iter()
        .map(|g| {
            (
                g.id().unwrap().to_string(),
                g.num_nodes(),
                g.edges().to_vec(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("4".to_string(), 2, vec![[0, 1]]),
            ("\"b\"".to_string(), 2, vec![[1, 0], [1, 1]]),
            ("\"lone\"".to_string(), 1, vec![]),
        ]
    );
    assert_eq!(
        graphs[0].node_features(),
        Some(&Features::categorical(1, vec![3, 4]))
    );
}

#[test]
fn edges_of_a_batch_keep_their_order_within_each_graph() {
    let file = safetensors_file(&[
        ints("x", &[5], &[1, 2, 3, 4, 5]),
        ints("edge_index", &[2, 4], &[4, 1, 3, 0, 3, 0, 4, 1]),
        reals("edge_attr", &[4, 1], &[0.0, 1.0, 2.0, 3.0]),
        ints("batch", &[5], &[0, 0, 1, 2, 2]),
        reals("y", &[5], &[1.0, 2.0, 3.0, f32::NAN, 5.0]),
    ]);
    let graphs = read_all(file, Format::SafetensorsBatch);
    let edges: Vec<_> = graphs.iter().map(|g| g.edges().to_vec()).collect();
    assert_eq!(edges, [vec![[1, 0], [0, 1]], vec![], vec![[1, 0], [0, 1]]]);
    assert_eq!(
        graphs[2].edge_features(),
        Some(&Features::float(1, vec![0.0, 2.0]))
    );
    assert_eq!(graphs[0].targets().unwrap().data, [1.0, 2.0]);
    assert!(graphs[2].targets().unwrap().data[0].is_nan());
}

#[test]
fn the_depth_of_nodes_is_their_last_feature() {
    let file = |x| {
        safetensors_file(&[
            x,
            ints("node_depth", &[3, 1], &[0, 7, 40]),
            ints("edge_index", &[2, 0], &[]),
            ints("ptr", &[3], &[0, 2, 3]),
        ])
    };
    let graphs = read_all(
        file(ints("x", &[3, 2], &[1, 2, 3, 4, 5, 6])),
        Format::SafetensorsBatch,
    );
    let features = |data: &[u32]| Features::categorical(3, data.to_vec());
    assert_eq!(
        graphs[0].node_features(),
        Some(&features(&[1, 2, 0, 3, 4, 7]))
    );
    assert_eq!(graphs[1].node_features(), Some(&features(&[5, 6, 40])));
    let real = read_all(
        file(reals("x", &[3], &[0.5, 1.5, 2.5])),
        Format::SafetensorsBatch,
    );
    let expected = Features::float(2, vec![2.5, 40.0]);
    assert_eq!(real[1].node_features(), Some(&expected));
}

#[test]
fn bad_json_is_named() {
    use Format::{Json, JsonLines};
    let good = r#"{"x":[1],"edges":[]}"#;
    for (line, words) in [
        (
            r#"{"id":"m1","x":[[1.0,2.0],[3.0,NaN]],"edges":[]}"#,
            &[
                "graph \"m1\"",
                "x: NaN at row 1, column 1",
                "Python",
                "allow_nan",
            ][..],
        ),
        (
            r#"{"y":NaN,"x":[1],"edges":[]}"#,
            &["#1", "y: NaN", "write null"],
        ),
        (
            r#"{"x":[-Infinity],"edges":[]}"#,
            &["x: -Infinity at row 0", "Python"],
        ),
        (
            r#"{"x":[1],"edges":[],"logp":Infinity}"#,
            &["logp: Infinity"],
        ),
        (
            r#"{"id":5,"x":[[1,1e999]],"edges":[]}"#,
            &["graph 5", "x: value 1e999 at row 0, column 1 is not finite"],
        ),
        (
            r#"{"x":[1,1e39],"edges":[],"id":6}"#,
            &["graph 6", "x: value 1e39 at row 1, column 0 is not finite"],
        ),
        (
            r#"{"id":912,"x":[1,2],"edges":[[0,1],[1,2]]}"#,
            &["graph 912", "edge 1 is 1 -> 2", "0 to 1"],
        ),
        (
            r#"{"x":[1,2],"edges":[[0,-1]]}"#,
            &["#1", "edge 0 is 0 -> -1"],
        ),
        (
            r#"{"x":[1,2],"edges":[[0,0.5]]}"#,
            &["edges: edge 0: target 0.5"],
        ),
        (
            r#"{"x":[1,"C"],"edges":[]}"#,
            &["x: ", "\"C\"", "expected a number", "at row 1"],
        ),
        (
            r#"{"x":[[1],[null]],"edges":[]}"#,
            &["x: ", "null", "at row 1, column 0"],
        ),
        (
            r#"{"x":[1,2"#,
            &["#1", "malformed JSON", "EOF", "x at row 1"],
        ),
        (r#"{"x":[1],"edges":[]}}"#, &["#1", "more text follows"]),
        (
            r#"{"x":[1] "edges":[]}"#,
            &["malformed JSON", "character 10"],
        ),
        ("[1,2]", &["#1", "a graph record"]),
        ("hello", &["#1", "malformed JSON"]),
        (
            r#"{"x":[1,2],"edges":[],"y":[[1],[2],[3]]}"#,
            &["y: 3 rows, expected 2", "row a node"],
        ),
        (r#"{"x":[1],"edges":[],"x":[1]}"#, &["x: given twice"]),
        (r#"{"x":[1],"edges":7}"#, &["edges: ", "7", "list of edges"]),
        (
            r#"{"x":[1],"edges":[],"directed":"no"}"#,
            &["directed: ", "\"no\""],
        ),
    ] {
        let text = format!("{good}\n\n{line}\n{good}\n");
        refuse(&text, JsonLines, &["input, line 3: "]);
        refuse(&text, JsonLines, words);
        // One bad line does not hide the others.
        let reader = datasets::read(Cursor::new(text.clone()), JsonLines, "input").unwrap();
        assert_eq!(reader.filter(Result::is_ok).count(), 2, "{line}");
        if !line.ends_with("}}") {
            refuse(format!("[{good},\n\n{line}"), Json, &["input, line 3: "]);
        }
    }
    refuse("", Json, &["empty"]);
    refuse("[", Json, &["ends early"]);
    refuse(format!("{good}\n{good}"), Json, &["line 2", "jsonl"]);
    refuse(format!("[{good} {good}]"), Json, &["expected a comma"]);
    refuse(format!("[{good},]"), Json, &["comma before the end"]);
    refuse(format!("[{good}] x"), Json, &["more text"]);
    refuse(format!(r#"{{"graphs":[{good}]"#), Json, &["ends early"]);
    refuse(b"{\"id\":\"\xff\"}", JsonLines, &["line 1"]);

    let short = ReadOptions {
        max_bytes: 40,
        ..ReadOptions::default()
    };
    let long = format!("{good}\n{:60}\n", good);
    let message = first_error(long.as_bytes(), JsonLines, &short);
    assert!(
        message.contains("line 2") && message.contains("limit of 40"),
        "{message}"
    );
    let message = first_error(long.as_bytes(), Json, &short);
    assert!(message.contains("limit of 40"), "{message}");
}

#[test]
fn bad_node_links_are_named() {
    let nodes = r#""nodes":[{"id":"a","x":1},{"id":"b","x":2}]"#;
    for (data, words) in [
        (
            format!(r#"{{"graph":{{"id":"g"}},{nodes},"links":[{{"source":"a","target":"c"}}]}}"#),
            &["graph \"g\"", "edge 0", "target \"c\""][..],
        ),
        (
            format!(r#"{{{nodes},"links":[{{"source":"a"}}]}}"#),
            &["#0", "edge 0 has no `target`"],
        ),
        (format!("{{{nodes}}}"), &["links", "missing"]),
        (r#"{"links":[]}"#.to_string(), &["nodes", "missing"]),
        (
            r#"{"nodes":[{"id":1},{"id":1.0}],"links":[]}"#.to_string(),
            &["nodes 0 and 1", "id 1"],
        ),
        (
            r#"{"nodes":[{"id":1,"x":1},{"id":2}],"links":[]}"#.to_string(),
            &["x: node 1 has no attribute `x`"],
        ),
        (
            r#"{"nodes":[{"x":1}],"links":[]}"#.to_string(),
            &["node 0 has no `id`"],
        ),
        (
            r#"{"nodes":[{"id":1,"x":[[1],[2]]}],"links":[]}"#.to_string(),
            &["attribute `x` of node 0"],
        ),
        (
            r#"{"nodes":[{"id":1,"x":[1,2]},{"id":2,"x":[3]}],"links":[]}"#.to_string(),
            &["x: row 1 has 1"],
        ),
        (
            format!(r#"{{{nodes},"links":[],"edges":[]}}"#),
            &["edges", "repeats"],
        ),
        (
            r#"{"graph":{"id":3},"nodes":[{"id":1,"x":[0.5,NaN]}],"links":[]}"#.to_string(),
            &["graph 3", "NaN at nodes[0].x[1]", "Python"],
        ),
        (r#"{"nodes":[],"links":[]}"#.to_string(), &["no nodes"]),
    ] {
        refuse(data, Format::NodeLink, words);
    }
}

#[test]
fn bad_edge_lists_are_named() {
    for (text, words) in [
        (
            "0,1\n0,x\n",
            &["line 2", "column 2", "\"x\"", "node number"][..],
        ),
        ("src,dst\n0,1\n0,-4\n", &["line 3", "`dst`", "\"-4\""]),
        ("0 1\n# c\n0 1.5\n", &["line 3", "\"1.5\""]),
        ("0,1,2\n1,0\n", &["line 2", "2 field(s)", "have 3"]),
        (
            "src,dst,w\n0,1,much\n",
            &["line 2", "`w`", "\"much\"", "not a number"],
        ),
        (
            "src,dst,w\n0,1,nan\n",
            &["line 2", "`w`", "\"nan\"", "not finite"],
        ),
        (
            "src,dst,w\n0,1,1e39\n",
            &["line 2", "\"1e39\"", "not finite"],
        ),
        ("# c\na,b\n0,1\n", &["line 2", "header (a, b)", "source"]),
        (
            ",src,dst\n0,0,1\n",
            &["line 1", "column 1 without a name", "index=False"],
        ),
        ("7\n", &["line 1", "\"7\" is one field"]),
        ("", &["there is no edge"]),
        (
            "graph,src,dst\na,0,1\nb,0,1\na,1,0\n",
            &["line 4", "\"a\" comes again"],
        ),
        ("0,9223372036854775806\n", &["#0", "nodes, more than"]),
    ] {
        refuse(text, Format::EdgeList, words);
    }

    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes.csv");
    for (text, list, words) in [
        (
            "1\n2\n",
            "0,1\n1,2\n",
            &["line 2", "edge 1 -> 2", "2 nodes"][..],
        ),
        (
            "id,f\n0,1\n0,2\n",
            "0,1\n",
            &["nodes.csv, line 3", "node 0"],
        ),
        ("f\n1\nbad\n", "0,1\n", &["nodes.csv, line 3", "\"bad\""]),
        ("graph,f\na,1\n", "0,0\n", &["column `graph`", "both"]),
        (
            "graph,f\na,1\n",
            "graph,src,dst\nb,0,0\n",
            &["graph \"b\"", "no rows"],
        ),
        (
            "id\n0\n1\n",
            "0,1\n",
            &["nodes.csv", "no column with features"],
        ),
    ] {
        std::fs::write(&nodes, text).unwrap();
        let mut options = ReadOptions::default();
        options.edge_list.node_features = Some(nodes.clone());
        let message = first_error(list.as_bytes(), Format::EdgeList, &options);
        for word in words {
            assert!(
                message.contains(word),
                "{text}{list}{message}\nlacks {word}"
            );
        }
    }
}

/// Two graphs of three and two nodes with one edge each, and more tensors.
fn batch_with(more: &[Tensor<'_>]) -> Vec<u8> {
    let mut tensors = vec![
        ints("x", &[5], &[0; 5]),
        ints("ptr", &[3], &[0, 3, 5]),
        ints("edge_index", &[2, 2], &[0, 3, 1, 4]),
    ];
    tensors.extend_from_slice(more);
    safetensors_file(&tensors)
}

#[test]
fn pairs_to_score_are_given_to_their_graphs() {
    let index = [4i64, 0, 2, 3, 3, 1, 2, 4];
    for name in ["edge_label_index", "edge_index_labeled"] {
        let tensors = [
            ints(name, &[2, 4], &index),
            reals("y", &[4], &[0.0, 1.0, 2.0, 3.0]),
        ];
        let graphs = read_all(batch_with(&tensors), Format::SafetensorsBatch);
        let pairs = |g: usize| graphs[g].edge_label_index().unwrap();
        assert_eq!(pairs(0), [[0, 1], [2, 2]]);
        assert_eq!(pairs(1), [[1, 0], [0, 1]]);
        let targets = |g: usize| graphs[g].targets().unwrap().data.clone();
        assert_eq!(targets(0), [1.0, 2.0]);
        assert_eq!(targets(1), [0.0, 3.0]);
    }
    let graphs = read_all(batch_with(&[]), Format::SafetensorsBatch);
    assert!(graphs.iter().all(|g| g.edge_label_index().is_none()));
    let none = ints("edge_label_index", &[2, 0], &[]);
    let graphs = read_all(batch_with(&[none]), Format::SafetensorsBatch);
    assert!(graphs.iter().all(|g| g.edge_label_index() == Some(&[][..])));
}

#[test]
fn coordinates_of_a_batch_are_given_to_their_graphs() {
    let values = [0.5f32, 1.5, 2.5, 3.5, 4.5];
    let t = |shape: &[usize]| reals("t", shape, &values[..shape.iter().product()]);
    let graphs = read_all(batch_with(&[t(&[5, 1])]), Format::SafetensorsBatch);
    let of_graph = |values: &[f32]| Some(Features::float(1, values.to_vec()));
    assert_eq!(
        graphs[0].rotational_features().cloned(),
        of_graph(&values[..3])
    );
    assert_eq!(
        graphs[1].rotational_features().cloned(),
        of_graph(&values[3..])
    );
    let graphs = read_all(batch_with(&[]), Format::SafetensorsBatch);
    assert!(graphs.iter().all(|g| g.rotational_features().is_none()));
    refuse(
        batch_with(&[t(&[4])]),
        Format::SafetensorsBatch,
        &["t: 4 rows for 5 nodes"],
    );
    let nan = reals("t", &[5], &[0.0, 0.0, f32::NAN, 0.0, 0.0]);
    refuse(
        batch_with(&[nan]),
        Format::SafetensorsBatch,
        &["t: value NaN at row 2"],
    );
}

#[test]
fn bad_pairs_of_batches_are_named() {
    let refuse_pairs = |shape: &[usize], index: &[i64], words: &[&str]| {
        let tensor = ints("edge_index_labeled", shape, index);
        refuse(batch_with(&[tensor]), Format::SafetensorsBatch, words);
    };
    refuse_pairs(
        &[2, 1],
        &[0, 5],
        &["edge_index_labeled: pair 0 is 0 -> 5", "0 to 4"],
    );
    refuse_pairs(
        &[2, 1],
        &[-1, 0],
        &["edge_index_labeled: pair 0 is -1 -> 0"],
    );
    refuse_pairs(
        &[2, 1],
        &[2, 3],
        &["pair 0 is 2 -> 3, from graph 0 into graph 1"],
    );
    refuse_pairs(
        &[1, 2],
        &[0, 1],
        &["edge_index_labeled: shape [1, 2], expected [2, pairs]"],
    );
    let both = ["edge_index_labeled", "edge_label_index"].map(|name| ints(name, &[2, 0], &[]));
    let words = ["edge_index_labeled: given beside `edge_label_index`"];
    refuse(batch_with(&both), Format::SafetensorsBatch, &words);
    let tensors = [
        ints("edge_label_index", &[2, 1], &[0, 1]),
        reals("y", &[4], &[0.0; 4]),
    ];
    let words = [
        "y: 4 rows",
        "one a graph (2)",
        "one a node (5)",
        "one a pair (1)",
    ];
    refuse(batch_with(&tensors), Format::SafetensorsBatch, &words);
}

#[test]
fn bad_batches_are_named() {
    let x = || ints("x", &[3, 1], &[1, 2, 3]);
    let index = |values: &[i64]| ints("edge_index", &[2, values.len() / 2], values);
    let none = || ints("edge_index", &[2, 0], &[]);
    for (tensors, words) in [
        (
            vec![x(), index(&[0, 1, 1, 3])],
            &["edge_index: edge 1 is 1 -> 3", "0 to 2"][..],
        ),
        (vec![x(), index(&[0, -1])], &["edge 0 is 0 -> -1"]),
        (
            vec![x(), index(&[0, 0, 1, 2]), ints("ptr", &[3], &[0, 2, 3])],
            &["edge 1 is 0 -> 2", "graph 0 into graph 1"],
        ),
        (vec![x()], &["`edge_index` is missing"]),
        (
            vec![x(), none(), ints("node_depth", &[2], &[0, 1])],
            &["node_depth: shape [2] for 3 nodes"],
        ),
        (vec![none()], &["`x`, `batch` and `ptr`"]),
        (
            vec![x(), ints("edge_index", &[3, 0], &[])],
            &["edge_index: shape [3, 0]"],
        ),
        (
            vec![x(), none(), ints("ptr", &[3], &[0, 4, 3])],
            &["ptr: entry 2 is 3 after 4"],
        ),
        (
            vec![x(), none(), ints("ptr", &[2], &[0, 2])],
            &["ptr: the last entry is 2", "3 nodes"],
        ),
        (
            vec![x(), none(), ints("ptr", &[2], &[1, 3])],
            &["ptr: 2 entries starting with Some(1)"],
        ),
        (
            vec![x(), none(), ints("ptr", &[3], &[0, 0, 3])],
            &["graph #0", "no nodes"],
        ),
        (
            vec![x(), none(), ints("batch", &[2], &[0, 0])],
            &["batch: 2 entries for 3"],
        ),
        (
            vec![x(), none(), ints("batch", &[3], &[0, 1, 0])],
            &["batch: entry 2 is 0 after 1"],
        ),
        (
            vec![x(), none(), ints("batch", &[3], &[0, 2, 2])],
            &["batch: entry 1 is 2", "graph 1"],
        ),
        (
            vec![
                x(),
                none(),
                ints("batch", &[3], &[0, 0, 1]),
                ints("ptr", &[3], &[0, 1, 3]),
            ],
            &["batch: entry 1 is 0", "graph 1"],
        ),
        (
            vec![reals("x", &[2, 2], &[0.0, 1.0, 2.0, f32::NAN]), none()],
            &["x: value NaN at row 1, column 1"],
        ),
        (
            vec![ints("x", &[2], &[0, -7]), none()],
            &["x: value -7 at row 1, column 0"],
        ),
        (
            vec![ints("x", &[2, 1, 1], &[0, 1]), none()],
            &["x: shape [2, 1, 1]"],
        ),
        (
            vec![ints("x", &[1 << 40, 0], &[]), none()],
            &["x: rows have no values"],
        ),
        (
            vec![none(), ints("ptr", &[2], &[0, 1 << 40])],
            &["1099511627776 nodes"],
        ),
        (
            vec![x(), index(&[0, 1]), ints("edge_attr", &[2], &[1, 1])],
            &["edge_attr: 2 rows", "1 edges"],
        ),
        (
            vec![x(), none(), reals("y", &[2], &[1.0, 1.0])],
            &["y: 2 rows"],
        ),
        (
            vec![x(), reals("edge_index", &[2, 1], &[0.0, 1.0])],
            &["edge_index: dtype F32"],
        ),
        (
            vec![("x", Dtype::BOOL, vec![1], vec![1]), none()],
            &["x: dtype BOOL"],
        ),
    ] {
        refuse(safetensors_file(&tensors), Format::SafetensorsBatch, words);
    }
    let whole = safetensors_file(&[x(), none()]);
    for cut in [0, 4, 20, whole.len() - 1] {
        refuse(
            &whole[..cut],
            Format::SafetensorsBatch,
            &["input", "safetensors"],
        );
    }
    let header = r#"{"x":{"dtype":"I64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#;
    let mut hostile = (header.len() as u64).to_le_bytes().to_vec();
    hostile.extend(header.as_bytes());
    refuse(
        &hostile,
        Format::SafetensorsBatch,
        &["input", "safetensors"],
    );
    refuse(
        u64::MAX.to_le_bytes(),
        Format::SafetensorsBatch,
        &["input", "safetensors"],
    );
}

#[test]
fn formats_go_by_name_and_by_ending() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let message = "xml".parse::<Format>().unwrap_err().to_string();
    assert!(message.contains("`xml`") && message.contains("node-link"));
    assert_eq!(
        Format::from_path(Path::new("a/B.NDJSON")),
        Some(Format::JsonLines)
    );
    let options = ReadOptions::default();
    let message = datasets::open("graphs.parquet", None, &options).unwrap_err();
    assert!(message.to_string().contains(".jsonl"), "{message}");
    let missing = datasets::open("no-such-file.jsonl", None, &options).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }) && missing.to_string().contains("no-such-file"));
    fn sendable<T: Send>() {}
    sendable::<GraphReader>();
}

/// Runs where the project's shared data is present; the fixtures above cover the same code.
#[test]
fn shared_data_is_read_in_full() {
    let Some(shared) = shared() else { return };
    let options = ReadOptions::default();
    let mut batches = 0;
    for family in ["grit", "gps"] {
        let cases = std::fs::read_dir(shared.join("goldens").join(family)).unwrap();
        for case in cases {
            let path = case.unwrap().path().join("inputs.safetensors");
            if !path.is_file() {
                continue;
            }
            batches += 1;
            let graphs: Vec<_> = datasets::open(&path, None, &options)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert_eq!(graphs.len(), 5, "{}", path.display());
            assert!(graphs.iter().all(|g| g.node_features().is_some()));
        }
    }
    assert!(batches > 30, "{batches}");
    for (file, count) in [
        ("data/zinc/train_substitute.jsonl", 10_000),
        ("data/peptides/peptides20.jsonl", 20),
    ] {
        let start = std::time::Instant::now();
        let reader = datasets::open(shared.join(file), None, &options).unwrap();
        assert_eq!(reader.map(Result::unwrap).count(), count);
        println!("{file}: {count} graphs in {:?}", start.elapsed());
    }
}

proptest! {
    // There is no crate root here that recorded failures could be kept beside.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in Format::ALL {
            if let Ok(reader) = datasets::read(Cursor::new(noise.clone()), format, "noise") {
                prop_assert!(reader.take(1000).count() < 1000);
            }
        }
    }

    #[test]
    fn damaged_files_never_panic(
        sample in 0usize..5,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        printable in any::<bool>(),
    ) {
        let (format, mut text) = match sample {
            0 => (Format::JsonLines, br#"{"id":1,"x":[[1,2.5],[3,4]],"edge_index":[[0],[1]],"edge_attr":[7],"y":[1,null]}"#.to_vec()),
            1 => (Format::Json, br#"{"graphs":[{"x":[1,2],"edges":[[0,1,3]]},{"num_nodes":2,"edges":[]}]}"#.to_vec()),
            2 => (Format::NodeLink, br#"{"graph":{"id":"g"},"nodes":[{"id":[1,"a"],"x":[1]},{"id":2,"x":[2]}],"links":[{"source":2,"target":[1,"a"]}]}"#.to_vec()),
            3 => (Format::EdgeList, b"graph,src,dst,w\n1,0,1,0.5\n2,3,0,-1e3\n\"x\",0,0,1\n".to_vec()),
            _ => (Format::SafetensorsBatch, safetensors_file(&[
                ints("x", &[3], &[1, 2, 3]),
                ints("edge_index", &[2, 2], &[0, 2, 1, 2]),
                ints("ptr", &[3], &[0, 2, 3]),
                ints("batch", &[3], &[0, 0, 1]),
                reals("y", &[3, 1], &[1.0, 2.0, 3.0]),
            ])),
        };
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = if printable { 32 + byte % 95 } else { byte };
        }
        if cut.index(4) == 0 {
            text.truncate(cut.index(text.len()));
        }
        if let Ok(reader) = datasets::read(Cursor::new(text), format, "damaged") {
            prop_assert!(reader.take(1000).count() < 1000);
        }
    }

    #[test]
    fn bounded_graphs_survive_every_json_shape(
        n in 1usize..6,
        ends in proptest::collection::vec((any::<u32>(), any::<u32>(), -1e6f32..1e6), 0..8),
    ) {
        let edges: Vec<_> = ends.iter().map(|(s, t, _)| [s % n as u32, t % n as u32]).collect();
        let weights = Features::float(1, ends.iter().map(|e| e.2).collect());
        let graph = Graph::builder(n).edges(edges).edge_features(weights).build().unwrap();
        let text = serde_json::to_string(&graph).unwrap();
        prop_assert_eq!(read_all(&text, Format::JsonLines), [graph.clone()]);
        let list = format!("[{text}, {text}]");
        prop_assert_eq!(read_all(&list, Format::Json), [graph.clone(), graph.clone()]);
    }
}
