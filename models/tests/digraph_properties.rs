//! Properties that hold for every graph and every configuration of the directed graph models; seeds
//! are fixed, so that every run tries the same cases.
//!
//! Tolerances. Bit equality where the arithmetic is the same. `STRUCTURE` where it is the same up to
//! the order of sums, in f64; a wrong row or offset shows above 1e-3. `SINGLE` where f32 sums have
//! another order, `FUSED` for f32 against f64.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_core::{DType, Device};
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph::ops::force_reference;
use candle_graph_models::digraph::Readout;
use candle_graph_models::{ModelConfig, Predictor, Trace};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use support::*;

const STRUCTURE: f64 = 1e-11;
const SINGLE: f64 = 1e-5;
const FUSED: f64 = 1e-4;

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_batch_gives_what_its_graphs_give_one_by_one(
        model in any_digraph_model(),
        specs in any_graphs(),
    ) {
        let single = BatchBudget { max_graphs: 1, ..BatchBudget::UNLIMITED };
        for (dtype, tolerance) in [(DType::F64, STRUCTURE), (DType::F32, SINGLE)] {
            let predictor = model.build(dtype);
            let graphs = build(&specs, &predictor);
            let together = predict_all(&predictor, &graphs, BatchBudget::UNLIMITED);
            assert_near(&together, &predict_all(&predictor, &graphs, single), tolerance);
        }
    }

    #[test]
    fn the_fused_path_gives_what_the_reference_gives(
        model in any_digraph_model(),
        specs in any_graphs(),
    ) {
        let exact = model.build(DType::F64);
        let predictor = model.build(DType::F32);
        let graphs = build(&specs, &predictor);
        let encodings = compute(&predictor, &graphs);
        let expected = evaluate(&exact, &graphs, &encodings);
        let fused = evaluate(&predictor, &graphs, &encodings);
        let reference = force_reference(|| evaluate(&predictor, &graphs, &encodings));
        assert_near(&fused, &expected, FUSED);
        assert_near(&reference, &expected, FUSED);
        let exact_reference = force_reference(|| evaluate(&exact, &graphs, &encodings));
        assert_near(&exact_reference, &expected, STRUCTURE);
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(
        model in any_digraph_model(),
        specs in any_graphs(),
        seed: u64,
    ) {
        let predictor = model.build(DType::F64);
        let graphs = build(&specs, &predictor);
        let orders: Vec<_> = graphs.iter().map(|g| permutation(g.num_nodes(), seed)).collect();
        let turned: Vec<Graph> = graphs
            .iter()
            .zip(&orders)
            .map(|(graph, order)| graph.renumbered(order).unwrap())
            .collect();
        let encodings = compute(&predictor, &graphs);
        let turned_encodings: Vec<_> = encodings
            .iter()
            .zip(&orders)
            .map(|(encoding, order)| moved_encoding(encoding, order))
            .collect();
        let expect = |predictor: &Predictor| -> Vec<Values> {
            evaluate(predictor, &graphs, &encodings)
                .iter()
                .zip(&orders)
                .map(|(values, order)| moved(values, order, node_predictions(predictor)))
                .collect()
        };
        let found = evaluate(&predictor, &turned, &turned_encodings);
        assert_near(&found, &expect(&predictor), STRUCTURE);
        // Walks and Laplacians, computed anew, move along with the nodes too.
        if !model.has_free_vectors() {
            let predictor = model.build(DType::F32);
            let found = evaluate(&predictor, &turned, &compute(&predictor, &turned));
            assert_near(&found, &expect(&predictor), FUSED);
        }
    }

    #[test]
    fn the_order_of_edges_does_not_matter(
        model in any_digraph_model(),
        specs in any_graphs(),
        seed: u64,
    ) {
        let predictor = model.build(DType::F64);
        let graphs = build(&specs, &predictor);
        let turned: Vec<Graph> = graphs
            .iter()
            .map(|graph| graph.with_edge_order(&permutation(graph.num_edges(), seed)).unwrap())
            .collect();
        let encodings = compute(&predictor, &graphs);
        let found = evaluate(&predictor, &turned, &encodings);
        assert_near(&found, &evaluate(&predictor, &graphs, &encodings), STRUCTURE);
    }

    #[test]
    fn a_configuration_reads_back_as_it_was_written(model in any_digraph_model()) {
        let config = ModelConfig::Digraph(model.config.clone());
        let text = serde_json::to_string_pretty(&config).unwrap();
        let read: ModelConfig = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &config);
        let model = model.build(DType::F32);
        prop_assert_eq!(&read.input_schema(), model.model().input_schema());
        prop_assert_eq!(&read.encoding_plan().unwrap(), model.model().encoding_plan());
        prop_assert_eq!(read.prediction_level(), model.model().prediction_level());
        prop_assert_eq!(read.output_dim(), model.model().output_dim());
        prop_assert_eq!(read.embedding_dim(), model.model().embedding_dim());
    }

    #[test]
    fn every_output_has_one_row_for_what_it_is_about(
        model in any_digraph_model(),
        specs in any_graphs(),
    ) {
        let predictor = model.build(DType::F32);
        let graphs = build(&specs, &predictor);
        let width = predictor.model().embedding_dim();
        let of_nodes = predictor.embed_nodes(&graphs).unwrap();
        let of_graphs = predictor.embed_graphs(&graphs).unwrap();
        for (i, graph) in graphs.iter().enumerate() {
            prop_assert_eq!(of_nodes[i].data.len(), graph.num_nodes() * width);
            prop_assert_eq!(of_graphs[i].data.len(), width);
        }
        let tokens = model.config.readout == Readout::Token;
        let batch = predictor.batch(&graphs, &compute(&predictor, &graphs), 0).unwrap();
        let states = predictor.model().node_states(&batch, &mut Trace::off()).unwrap();
        let nodes: usize = graphs.iter().map(Graph::num_nodes).sum();
        let more = if tokens { graphs.len() } else { 0 };
        prop_assert_eq!(states.all().dims(), [nodes + more, width]);
    }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn unusual_graphs_work_alone_and_in_company(model in any_digraph_model()) {
        let exact = model.build(DType::F64);
        let predictor = model.build(DType::F32);
        let (_, specs): (Vec<&str>, Vec<_>) = unusual_graphs().into_iter().unzip();
        let graphs = build(&specs, &predictor);
        let alone: Vec<Values> = graphs
            .iter()
            .flat_map(|g| predict_all(&exact, std::slice::from_ref(g), BatchBudget::UNLIMITED))
            .collect();
        assert_near(&predict_all(&exact, &graphs, BatchBudget::UNLIMITED), &alone, STRUCTURE);
        assert_near(&predict_all(&predictor, &graphs, BatchBudget::UNLIMITED), &alone, FUSED);
    }

    #[test]
    fn the_number_of_threads_does_not_matter(
        model in any_digraph_model(),
        specs in proptest::collection::vec(large_graph(), 1..3),
    ) {
        let predictor = model.build(DType::F32);
        let graphs = build(&specs, &predictor);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| predict_all(&predictor, &graphs, BatchBudget::UNLIMITED))
        };
        let expected = run(1);
        assert_bit_equal(&run(2), &expected);
        assert_bit_equal(&run(3), &expected);
    }
}

#[test]
fn the_random_models_are_of_every_kind() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let model = any_digraph_model();
    let mut text = String::new();
    for _ in 0..400 {
        let drawn = model.new_tree(&mut runner).unwrap().current();
        text += &serde_json::to_string(&drawn.config).unwrap();
    }
    let kinds = "features comparators constant magnetic walk svd elementwise naive transformer \
                 message_passing mag_net graph pairs";
    for kind in kinds.split_whitespace() {
        assert!(text.contains(&format!("\"kind\":\"{kind}\"")), "{kind}");
    }
    for part in [
        "\"graph_network\"",
        "\"convolution\"",
        "\"token\"",
        "\"sum_and_size\"",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn the_direction_of_an_edge_shows_in_the_prediction() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let model = any_digraph_model();
    let mut seen = 0;
    for _ in 0..400 {
        let drawn = model.new_tree(&mut runner).unwrap().current();
        let magnetic = drawn.config.positional.is_some();
        if !magnetic || !drawn.has_free_vectors() {
            continue;
        }
        let predictor = drawn.build(DType::F64);
        let path = |turn: bool| {
            let edges = [[0i64, 1], [1, 2], [2, 3], [3, 4], [0, 4]];
            let edges = edges.map(|[s, t]| if turn && s == 1 { [t, s] } else { [s, t] });
            let spec = GraphSpec {
                nodes: 5,
                edges: edges.to_vec(),
                seed: 3,
            };
            spec.build(predictor.model().input_schema())
        };
        let [a, b] = [path(false), path(true)].map(|g| compute(&predictor, &[g]));
        seen += usize::from(a != b);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn the_second_node_is_read_where_there_is_one() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut spec = any_digraph_model().new_tree(&mut runner).unwrap().current();
    spec.config.readout = Readout::SecondNode;
    spec.config.head = candle_graph_models::digraph::DigraphHeadConfig::Graph { positions: 1 };
    let predictor = spec.build(DType::F64);
    let graphs = |nodes: &[usize]| -> Vec<Graph> {
        let spec = |&nodes: &usize| GraphSpec {
            nodes,
            edges: vec![],
            seed: 9,
        };
        build(&nodes.iter().map(spec).collect::<Vec<_>>(), &predictor)
    };
    let read = predictor.embed_graphs(&graphs(&[3, 2])).unwrap();
    let nodes = predictor.embed_nodes(&graphs(&[3, 2])).unwrap();
    for (graph, nodes) in read.iter().zip(&nodes) {
        assert_eq!(graph.data, nodes.data[graph.width..2 * graph.width]);
    }
    let error = predictor
        .embed_graphs(&graphs(&[3, 1]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("only one node"), "{error}");
}

#[test]
fn configurations_that_cannot_be_are_refused_by_option() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let base = any_digraph_model()
        .new_tree(&mut runner)
        .unwrap()
        .current()
        .config;
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::json!({
            "hidden_dim": 8,
            "input": {"kind": "constant", "ones": false},
            "positional": {
                "kind": "magnetic",
                "eigenvectors": {"k": 4, "q": {"relative": 0.25}, "symmetric_norm": true,
                                 "sign_rotate": true, "l2_norm": true},
                "network": {"kind": "elementwise", "element_dim": 2, "message_passing": false,
                            "sign_invariant": false, "eigenvalues": true, "attention_heads": 2},
                "relative": false
            },
            "encoder": {"kind": "transformer", "layers": 1, "heads": 2, "feed_forward_dim": 16,
                        "bias": true},
            "activation": "gelu_tanh",
            "readout": "token",
            "output_dim": 2,
            "head": {"kind": "graph", "positions": 1}
        });
        change(&mut value);
        let config: candle_graph_models::digraph::DigraphConfig =
            serde_json::from_value(value).unwrap();
        config.check()
    };
    assert_eq!(read(&|_| {}), Ok(()));
    assert_eq!(base.check(), Ok(()));
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 9] = [
        (|v| v["hidden_dim"] = 0.into(), "hidden_dim"),
        (|v| v["encoder"]["heads"] = 9.into(), "encoder.heads"),
        (|v| v["encoder"]["layers"] = 0.into(), "encoder.layers"),
        (|v| v["head"]["positions"] = 3.into(), "head.positions"),
        (
            |v| v["positional"]["network"]["attention_heads"] = 6.into(),
            "attention_heads",
        ),
        (
            |v| {
                v["positional"]["relative"] = true.into();
                v["positional"]["eigenvectors"]["q"] = serde_json::json!({"absolute": 0.0});
            },
            "positional.relative",
        ),
        (
            |v| {
                v["encoder"] = serde_json::json!({"kind": "mag_net", "layers": 2,
                    "laplacian": {"q": {"absolute": 0.1}}});
            },
            "readout",
        ),
        (
            |v| {
                v["encoder"]["structure"] = serde_json::json!({"messages": "convolution", "steps": 1,
                    "mlp_layers": 1, "tightening_factor": 1, "edge_features": true,
                    "concatenate": true, "residual": false, "bidirectional": true});
            },
            "encoder.structure.edge_features",
        ),
        (
            |v| v["input"] = serde_json::json!({"kind": "features", "node": {"kind": "none"}}),
            "input.node",
        ),
    ];
    for (change, option) in cases {
        let message = read(&change).unwrap_err().to_string();
        assert!(message.contains(option), "{option}: {message}");
    }
}

#[test]
fn a_batch_without_its_encodings_is_refused_by_name() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut drawn =
        std::iter::repeat_with(|| any_digraph_model().new_tree(&mut runner).unwrap().current());
    let spec = drawn.find(|spec| spec.config.positional.is_some()).unwrap();
    let predictor = spec.build(DType::F32);
    let graphs = build(
        &[GraphSpec {
            nodes: 3,
            edges: vec![],
            seed: 1,
        }],
        &predictor,
    );
    let schema = predictor.model().input_schema();
    let batch = candle_graph::graph::GraphBatch::new(&graphs, schema, 0, &Device::Cpu).unwrap();
    let message = predictor.model().forward(&batch).unwrap_err().to_string();
    let (name, ..) = predictor.model().encoding_plan().arrays()[0];
    assert!(
        message.contains(name.split('.').next().unwrap()),
        "{message}"
    );
}
