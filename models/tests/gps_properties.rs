//! Properties that hold for every graph and every configuration of the families of GraphGPS: GPS
//! itself, plain message passing networks, SAN, Graphormer, the plain transformer and SGFormer, over all
//! their options, rotary encodings included; seeds are
//! fixed, so that every run tries the same cases.
//!
//! Tolerances. Bit equality where the arithmetic is the same. `STRUCTURE` where it is the same up to
//! the order of sums, in f64 (below 1e-12 seen); a wrong row or offset shows above 1e-3. `SINGLE` where
//! f32 sums have another order (below 1e-6 seen), `FUSED` for f32 against f64 (6e-6 seen).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_core::DType;
use candle_graph::encodings::{
    EncodingRecipe, GraphEncoding, LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, LAP_PE_MASK,
    ROTATIONAL, Rotational, SIGN_NET_EIGENVECTORS,
};
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph::nn::PositionalEncoderConfig;
use candle_graph::ops::force_reference;
use candle_graph_models::{ModelConfig, PredictionLevel, Predictor, Trace};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use support::*;

const STRUCTURE: f64 = 1e-11;
const SINGLE: f64 = 1e-5;
const FUSED: f64 = 5e-5;

/// Rows that a model must predict for `graph`.
fn expected_rows(predictor: &Predictor, graph: &Graph) -> usize {
    match predictor.model().prediction_level() {
        PredictionLevel::Graph => 1,
        PredictionLevel::Node => graph.num_nodes(),
        PredictionLevel::Edge => graph.edge_label_index().unwrap().len(),
    }
}

/// The encodings of the renumbered `graph`, computed from it, but for eigenvectors, whose signs and
/// bases are free: they are `moved`.
fn recomputed(predictor: &Predictor, graph: &Graph, moved: &GraphEncoding) -> GraphEncoding {
    let mut found = compute(predictor, std::slice::from_ref(graph)).remove(0);
    for (array, moved) in found.arrays.iter_mut().zip(&moved.arrays) {
        let of_eigenvectors = [
            LAP_PE_EIGENVECTORS,
            LAP_PE_EIGENVALUES,
            LAP_PE_MASK,
            SIGN_NET_EIGENVECTORS,
        ];
        let coordinates = predictor
            .model()
            .encoding_plan()
            .recipes()
            .iter()
            .any(|recipe| {
                matches!(
                    recipe,
                    EncodingRecipe::Rotational(Rotational::Eigenvectors { .. })
                )
            });
        let free = coordinates && array.name == ROTATIONAL;
        if free || of_eigenvectors.contains(&array.name.as_str()) {
            array.data.clone_from(&moved.data);
        }
    }
    found
}

proptest! {
    #![proptest_config(cases(320))]

    #[test]
    fn a_batch_gives_what_its_graphs_give_one_by_one(
        model in any_gps_model(),
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
        model in any_gps_model(),
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
        model in any_gps_model().prop_map(GpsSpec::with_one_block),
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

        // Computed encodings move along with the nodes too.
        let predictor = model.build(DType::F32);
        let computed: Vec<_> = turned
            .iter()
            .zip(&turned_encodings)
            .map(|(graph, moved)| recomputed(&predictor, graph, moved))
            .collect();
        let found = evaluate(&predictor, &turned, &computed);
        assert_near(&found, &expect(&predictor), FUSED);
    }

    #[test]
    fn the_order_of_edges_does_not_matter(
        model in any_gps_model().prop_map(GpsSpec::with_one_edge_type),
        specs in any_graphs(),
        seed: u64,
    ) {
        let turn = |graph: &Graph| {
            let order = permutation(graph.num_edges(), seed);
            graph.with_edge_order(&order).unwrap()
        };
        // Repeated edges with different features are summed in input order: equal up to rounding.
        let predictor = model.build(DType::F64);
        let graphs = build(&specs, &predictor);
        let turned: Vec<Graph> = graphs.iter().map(turn).collect();
        let found = predict_all(&predictor, &turned, BatchBudget::UNLIMITED);
        let expected = predict_all(&predictor, &graphs, BatchBudget::UNLIMITED);
        assert_near(&found, &expected, STRUCTURE);

        // Without repeats every number is made the same way.
        let predictor = model.build(DType::F32);
        let simple: Vec<GraphSpec> = specs.into_iter().map(GraphSpec::simple).collect();
        let graphs = build(&simple, &predictor);
        let turned: Vec<Graph> = graphs.iter().map(turn).collect();
        assert_bit_equal(
            &predict_all(&predictor, &turned, BatchBudget::UNLIMITED),
            &predict_all(&predictor, &graphs, BatchBudget::UNLIMITED),
        );
    }

    #[test]
    fn a_configuration_reads_back_as_it_was_written(model in any_gps_model()) {
        let text = serde_json::to_string_pretty(&model.config).unwrap();
        let read: ModelConfig = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&read, &model.config);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&value["model_type"], model.config.model_type());
        prop_assert!(ModelConfig::MODEL_TYPES.contains(&model.config.model_type()));
        // The model that it describes reads the same features and encodings.
        let model = model.build(DType::F32);
        prop_assert_eq!(&read.input_schema(), model.model().input_schema());
        prop_assert_eq!(&read.encoding_plan().unwrap(), model.model().encoding_plan());
    }

    #[test]
    fn every_output_has_one_row_for_what_it_is_about(
        model in any_gps_model(),
        specs in any_graphs(),
    ) {
        let predictor = model.build(DType::F32);
        let graphs = build(&specs, &predictor);
        let width = predictor.model().embedding_dim();
        let outputs = predictor.model().output_dim();
        let predicted = predictor.predict(&graphs).unwrap();
        let of_nodes = predictor.embed_nodes(&graphs).unwrap();
        let of_graphs = predictor.embed_graphs(&graphs).unwrap();
        for (i, graph) in graphs.iter().enumerate() {
            let rows = expected_rows(&predictor, graph);
            prop_assert_eq!((predicted[i].data.len(), predicted[i].width), (rows * outputs, outputs));
            prop_assert_eq!(of_nodes[i].data.len(), graph.num_nodes() * width);
            prop_assert_eq!(of_graphs[i].data.len(), width);
        }
        // Graph tokens are in the states up to the pooling and nowhere else.
        let token = |encoder: &PositionalEncoderConfig| {
            matches!(encoder, PositionalEncoderConfig::Graphormer { graph_token: true, .. })
        };
        let tokens = model.clone().input().node_encoder.positional.iter().any(token);
        let batch = predictor.batch(&graphs, &compute(&predictor, &graphs), 0).unwrap();
        let states = predictor.model().node_states(&batch, &mut Trace::off()).unwrap();
        let nodes: usize = graphs.iter().map(Graph::num_nodes).sum();
        let more = if tokens { graphs.len() } else { 0 };
        prop_assert_eq!(states.all().dims(), [nodes + more, width]);
        let own = states.nodes().unwrap();
        prop_assert_eq!(own.dims(), [nodes, width]);
    }

    #[test]
    fn recording_changes_nothing(model in any_gps_model(), specs in any_graphs()) {
        let predictor = model.build(DType::F32);
        let graphs = build(&specs, &predictor);
        let batch = predictor.batch(&graphs, &compute(&predictor, &graphs), 0).unwrap();
        let bits = |trace: &mut Trace| {
            let prediction = predictor.model().forward_traced(&batch, trace).unwrap();
            let values = prediction.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            values.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let silent = bits(&mut Trace::off());
        let mut trace = Trace::on();
        prop_assert_eq!(&bits(&mut trace), &silent);
        prop_assert_eq!(&bits(&mut Trace::off()), &silent);
        let activations = trace.into_activations();
        for name in ["encoder.node", "layers.0.node", "prediction"] {
            prop_assert!(activations.contains_key(name), "{}", name);
        }
    }
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn unusual_graphs_work_alone_and_in_company(model in any_gps_model()) {
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
    fn the_signs_of_eigenvectors_do_not_matter_to_sign_net(
        mut model in any_gps_model(),
        sign_net in any_sign_net(),
        specs in any_graphs(),
        signs: u64,
    ) {
        let encoder = &mut model.input().node_encoder;
        let others = |e: &PositionalEncoderConfig| !matches!(e, PositionalEncoderConfig::SignNet { .. });
        encoder.positional.retain(others);
        encoder.positional.insert(0, sign_net);
        let predictor = model.build(DType::F64);
        let graphs = build(&specs, &predictor);
        let encodings = compute(&predictor, &graphs);
        let mut turned = encodings.clone();
        for array in turned.iter_mut().flat_map(|encoding| &mut encoding.arrays) {
            if array.name == SIGN_NET_EIGENVECTORS {
                for (at, value) in array.data.iter_mut().enumerate() {
                    if signs >> (at % array.width) & 1 == 1 {
                        *value = -*value;
                    }
                }
            }
        }
        let expected = evaluate(&predictor, &graphs, &encodings);
        assert_near(&evaluate(&predictor, &graphs, &turned), &expected, STRUCTURE);
    }

    #[test]
    fn the_number_of_threads_does_not_matter(
        model in any_gps_model(),
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
    let model = any_gps_model();
    let mut text = String::new();
    for _ in 0..800 {
        let drawn = model.new_tree(&mut runner).unwrap().current();
        text += &serde_json::to_string(&drawn.config).unwrap();
    }
    let kinds = "gine gin gcn gat gen_conv pna gated_gcn softmax performer big_bird lap_pe rwse \
                 heat_kernel electrostatic sign_net equiv_stable graphormer deep_set transformer \
                 mlp shared separate embedding linear dummy raw san_graph graph inductive_node \
                 graphormer_graph ogb_code_graph inductive_edge raw positive_random relu simple";
    let kinds = kinds.split_whitespace().map(|kind| ("kind", kind));
    let types = [
        "gps",
        "mpnn",
        "san",
        "graphormer",
        "transformer",
        "sgformer",
    ]
    .map(|family| ("model_type", family));
    let norms = ["none", "batch", "graph_layer"].map(|norm| ("norm", norm));
    let rotations = [
        ("from", "eigenvectors"),
        ("from", "random_walk"),
        ("from", "wave"),
        ("pairs", "full_width"),
        ("pairs", "shared_by_heads"),
        ("pairs", "per_head"),
        ("modulation", "before_features"),
        ("modulation", "after_features"),
        ("norm_place", "after"),
        ("norm_place", "before"),
    ];
    let aggregations = ["mean", "concatenate"].map(|kind| ("kind", kind));
    let poolings = [
        ("pooling", "concatenate"),
        ("pooling", "sum"),
        ("pooling", "add"),
        ("pooling", "mean"),
        ("pooling", "max"),
        ("pooling", "graph_token"),
    ];
    for (option, value) in (kinds.chain(types).chain(norms))
        .chain(rotations)
        .chain(aggregations)
        .chain(poolings)
    {
        let wanted = format!("\"{option}\":\"{value}\"");
        assert!(text.contains(&wanted), "no model with {wanted}");
    }
}
