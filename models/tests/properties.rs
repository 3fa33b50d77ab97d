//! Properties that hold for every graph and every configuration of a model. Random models are GRIT
//! over all its options; seeds are fixed, so that every run tries the same cases.
//!
//! Tolerances. Bit equality where the arithmetic is the same. `STRUCTURE` where it is the same up to
//! the order of sums, in f64: rounding is 1e-16, and the norms and the slope of the signed root at
//! the scores that occur leave it below 1e-13 over three layers (2e-15 seen), while a wrong row or
//! offset shows above 1e-3. `FUSED` for f32 paths, on models whose scores keep away from the root's
//! infinite slope at 0: 6e-6 seen.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use candle_core::DType;
use candle_graph::encodings::{
    CacheOptions, EncodingCache, EncodingPlan, EncodingRecipe, RRWP_PAIR, Rwse,
};
use candle_graph::graph::{BatchBudget, Graph, GraphBatch, GraphBuilder, InputSchema};
use candle_graph::nn::DegreeScaler;
use candle_graph::ops::force_reference;
use candle_graph_models::{Trace, Want};
use proptest::prelude::*;

use support::*;

const STRUCTURE: f64 = 1e-11;
const FUSED: f64 = 5e-5;

fn any_budget() -> impl Strategy<Value = BatchBudget> {
    // 9 nodes are the largest of `any_graph`: every budget takes every graph.
    (1usize..6, 9u64..40, 81u64..300).prop_map(|(max_graphs, max_nodes, max_pairs)| BatchBudget {
        max_graphs,
        max_nodes,
        max_pairs,
    })
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn a_batch_gives_what_its_graphs_give_one_by_one(model in any_model(), specs in any_graphs()) {
        let predictor = model.build(DType::F64, Weights::Any);
        let graphs = build(&specs, &predictor);
        let together = predict_all(&predictor, &graphs, BatchBudget::UNLIMITED);
        let single = BatchBudget { max_graphs: 1, ..BatchBudget::UNLIMITED };
        assert_near(&together, &predict_all(&predictor, &graphs, single), STRUCTURE);

        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let together = predict_all(&predictor, &graphs, BatchBudget::UNLIMITED);
        assert_near(&together, &predict_all(&predictor, &graphs, single), FUSED);
    }

    #[test]
    fn the_budget_of_a_batch_does_not_matter(
        model in any_model(),
        specs in any_graphs(),
        budgets in [any_budget(), any_budget()],
    ) {
        let predictor = model.build(DType::F64, Weights::Any);
        let graphs = build(&specs, &predictor);
        let [a, b] = budgets.map(|budget| {
            let predictor = predictor.clone().with_budget(budget);
            let all = [
                predictor.predict(&graphs).unwrap(),
                predictor.embed_graphs(&graphs).unwrap(),
                predictor.embed_nodes(&graphs).unwrap(),
            ];
            all.concat()
        });
        prop_assert_eq!(a.len(), 3 * graphs.len());
        for (a, b) in a.iter().zip(&b) {
            prop_assert_eq!((a.level, a.width, a.data.len()), (b.level, b.width, b.data.len()));
            // The outputs are f64 results rounded to f32: equal up to one unit in the last place.
            for (x, y) in a.data.iter().zip(&b.data) {
                let scale = y.abs().max(1e-3);
                prop_assert!((x - y).abs() <= 2.0 * f32::EPSILON * scale, "{} {}", x, y);
            }
        }
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(model in any_model(), specs in any_graphs(), seed: u64) {
        let predictor = model.build(DType::F64, Weights::Any);
        let graphs = build(&specs, &predictor);
        let orders: Vec<_> = graphs.iter().map(|g| permutation(g.num_nodes(), seed)).collect();
        let turned: Vec<Graph> = graphs
            .iter()
            .zip(&orders)
            .map(|(graph, order)| graph.renumbered(order).unwrap())
            .collect();
        // Walks are summed in f32 in the order of the nodes, so the model gets the same encodings,
        // moved; that they do move along is the next property.
        let encodings = compute(&predictor, &graphs);
        let turned_encodings: Vec<_> = encodings
            .iter()
            .zip(&orders)
            .map(|(encoding, order)| moved_encoding(encoding, order))
            .collect();
        let expected: Vec<Values> = evaluate(&predictor, &graphs, &encodings)
            .iter()
            .zip(&orders)
            .map(|(values, order)| moved(values, order, node_predictions(&predictor)))
            .collect();
        let found = evaluate(&predictor, &turned, &turned_encodings);
        assert_near(&found, &expected, STRUCTURE);

        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let expected: Vec<Values> = evaluate(&predictor, &graphs, &encodings)
            .iter()
            .zip(&orders)
            .map(|(values, order)| moved(values, order, node_predictions(&predictor)))
            .collect();
        let found = predict_all(&predictor, &turned, BatchBudget::UNLIMITED);
        assert_near(&found, &expected, FUSED);
    }

    #[test]
    fn walk_encodings_move_along_with_the_nodes(
        spec in prop_oneof![any_graph().boxed(), large_graph().boxed()],
        exact in dyadic_graph(),
        steps in 1usize..8,
        seed: u64,
        model in any_model(),
    ) {
        let times = (1..=steps).collect();
        let rrwp = model.config.rrwp.clone();
        let recipes = vec![EncodingRecipe::Rrwp(rrwp), EncodingRecipe::Rwse(Rwse { times })];
        let plan = EncodingPlan::new(recipes).unwrap();
        // Sums of at most 44 probabilities, 7 steps: an error below 44·7·2⁻²⁴. On graphs with
        // out-degrees 0, 1, 2, 4 every value is a multiple of 2⁻¹⁴ below 2 and nothing is rounded.
        for (spec, tolerance) in [(spec, 2e-5), (exact, 0.0)] {
            let graph = spec.build(&InputSchema::default());
            let order = permutation(graph.num_nodes(), seed);
            let expected = moved_encoding(&plan.compute(&graph, 0).unwrap(), &order);
            let found = plan.compute(&graph.renumbered(&order).unwrap(), 0).unwrap();
            for (a, b) in found.arrays.iter().zip(&expected.arrays) {
                prop_assert_eq!((&a.name, a.data.len()), (&b.name, b.data.len()));
                for (x, y) in a.data.iter().zip(&b.data) {
                    prop_assert!((x - y).abs() <= tolerance, "{}: {} {}", a.name, x, y);
                }
            }
        }
    }

    #[test]
    fn the_order_of_edges_does_not_matter(model in any_model(), specs in any_graphs(), seed: u64) {
        let turn = |graph: &Graph| {
            let order = permutation(graph.num_edges(), seed);
            graph.with_edge_order(&order).unwrap()
        };
        // Repeated edges with different features are summed in input order: equal up to rounding.
        let predictor = model.build(DType::F64, Weights::Any);
        let graphs = build(&specs, &predictor);
        let turned: Vec<Graph> = graphs.iter().map(turn).collect();
        let encodings = compute(&predictor, &graphs);
        prop_assert_eq!(&encodings, &compute(&predictor, &turned));
        let expected = evaluate(&predictor, &graphs, &encodings);
        assert_near(&evaluate(&predictor, &turned, &encodings), &expected, STRUCTURE);

        // Without repeats every number is made the same way.
        let predictor = model.build(DType::F32, Weights::Any);
        let simple: Vec<GraphSpec> = specs.into_iter().map(GraphSpec::simple).collect();
        let graphs = build(&simple, &predictor);
        let turned: Vec<Graph> = graphs.iter().map(turn).collect();
        assert_bit_equal(
            &predict_all(&predictor, &turned, BatchBudget::UNLIMITED),
            &predict_all(&predictor, &graphs, BatchBudget::UNLIMITED),
        );
    }

    #[test]
    fn the_fused_path_gives_what_the_reference_gives(model in any_model(), specs in any_graphs()) {
        let exact = model.build(DType::F64, Weights::FarFromZero);
        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let graphs = build(&specs, &predictor);
        let encodings = compute(&predictor, &graphs);
        let expected = evaluate(&exact, &graphs, &encodings);
        let fused = evaluate(&predictor, &graphs, &encodings);
        let reference = force_reference(|| evaluate(&predictor, &graphs, &encodings));
        assert_near(&fused, &expected, FUSED);
        assert_near(&reference, &expected, FUSED);
    }

    #[test]
    fn recording_changes_nothing_and_a_batch_can_run_again(
        model in any_model(),
        specs in any_graphs(),
        wide: bool,
    ) {
        let dtype = if wide { DType::F64 } else { DType::F32 };
        let predictor = model.build(dtype, Weights::Any);
        let graphs = build(&specs, &predictor);
        let batch = predictor.batch(&graphs, &compute(&predictor, &graphs), 0).unwrap();
        let bits = |trace: &mut Trace| {
            let prediction = predictor.model().forward_traced(&batch, trace).unwrap();
            let all = prediction.to_dtype(DType::F64).unwrap().flatten_all().unwrap();
            let values = all.to_vec1::<f64>().unwrap();
            values.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let silent = bits(&mut Trace::off());
        let mut trace = Trace::on();
        prop_assert_eq!(&bits(&mut trace), &silent);
        prop_assert_eq!(&bits(&mut Trace::off()), &silent);

        // Nothing that was recorded was overwritten by a later layer: a model that ends after the
        // first one, of the same weights, records the same.
        let mut first = model.clone();
        first.config.layers = 1;
        let mut short = Trace::on();
        first.build(dtype, Weights::Any).model().forward_traced(&batch, &mut short).unwrap();
        let (all, short) = (trace.into_activations(), short.into_activations());
        let list = |t: &candle_core::Tensor| {
            let wide = t.to_dtype(DType::F64).unwrap().flatten_all().unwrap();
            wide.to_vec1::<f64>().unwrap()
        };
        let mut names = vec!["encoder.node", "encoder.pair", "layers.0.node", "layers.0.pair"];
        names.extend(["layers.0.attention.weights", "layers.0.attention.value"]);
        for name in names {
            prop_assert_eq!(list(&all[name]), list(&short[name]), "{}", name);
        }
    }

    #[test]
    fn attention_goes_where_the_configuration_lets_it(model in any_model(), specs in any_graphs()) {
        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let graphs = build(&specs, &predictor);
        let batch = predictor.batch(&graphs, &compute(&predictor, &graphs), 0).unwrap();
        let check = |reference: bool| {
            let mut trace = Trace::on();
            let mut run = || predictor.model().forward_traced(&batch, &mut trace).unwrap();
            match reference {
                true => force_reference(run),
                false => run(),
            };
            let activations = trace.into_activations();
            for layer in 0..model.config.layers {
                let weights = &activations[&format!("layers.{layer}.attention.weights")];
                let weights = weights.to_vec2::<f32>().unwrap();
                for (graph, pairs) in graphs.iter().zip(batch.pair_ptr().unwrap().ranges()) {
                    let n = graph.num_nodes();
                    let allowed = match model.config.attention.full {
                        true => vec![true; n * n],
                        false => reachable(graph, model.config.rrwp.channels() - 1),
                    };
                    for (t, rows) in weights[pairs].chunks_exact(n).enumerate() {
                        for head in 0..model.config.heads {
                            let sum: f32 = rows.iter().map(|row| row[head]).sum();
                            assert!((sum - 1.0).abs() < 1e-5, "weights of target {t} add to {sum}");
                        }
                        for (s, row) in rows.iter().enumerate() {
                            for &weight in row {
                                assert_eq!(weight > 0.0, allowed[t * n + s], "{s} -> {t}: {weight}");
                            }
                        }
                    }
                }
            }
        };
        check(false);
        check(true);
    }

    #[test]
    fn sparse_attention_keeps_components_apart(
        mut model in any_model(),
        left in any_graph(),
        right in any_graph(),
    ) {
        model.config.attention.full = false;
        let predictor = model.build(DType::F64, Weights::Any);
        let graphs = build(&[left, right], &predictor);
        let union = disjoint_union(&graphs[0], &graphs[1]);
        let apart = predict_all(&predictor, &graphs, BatchBudget::UNLIMITED);
        let mut joint = predict_all(&predictor, &[union], BatchBudget::UNLIMITED);
        let mut expected = apart[0].clone();
        expected.nodes.extend(&apart[1].nodes);
        // Only the states are local: the prediction for a graph pools over both.
        expected.prediction.clear();
        joint[0].prediction.clear();
        assert_near(&joint, &[expected], STRUCTURE);
    }

    #[test]
    fn degrees_and_walks_are_those_of_the_edge_list(specs in any_graphs()) {
        let schema = InputSchema::default();
        let graphs: Vec<Graph> = specs.iter().map(|s| s.build(&schema)).collect();
        let device = candle_core::Device::Cpu;
        let mut batch = GraphBatch::new(&graphs, &schema, 0, &device).unwrap();
        let plan = EncodingPlan::new(vec![EncodingRecipe::Rrwp(candle_graph::encodings::Rrwp {
            steps: 2,
            shortest_path: false,
        })])
        .unwrap();
        plan.attach(&mut batch, &plan.compute_all(&graphs, 0).unwrap()).unwrap();
        let logs = DegreeScaler::log_degrees(&batch).unwrap().to_vec2::<f32>().unwrap();
        let walks = batch.encoding(RRWP_PAIR).unwrap().to_vec2::<f32>().unwrap();
        for (g, graph) in graphs.iter().enumerate() {
            let (nodes, pairs) = (batch.node_ptr().range(g), batch.pair_ptr().unwrap().range(g));
            let n = graph.num_nodes();
            let degree = |node: usize| {
                let leaving = graph.edges().iter().filter(|e| e[0] as usize == node);
                leaving.count() as f32
            };
            for node in 0..n {
                let log = logs[nodes.start + node][0];
                prop_assert!((log - (degree(node) + 1.0).ln()).abs() < 1e-6);
            }
            // One step of the walk goes along an edge out of `t`, to `s`.
            for (pair, row) in walks[pairs].iter().enumerate() {
                let (t, s) = (pair / n, pair % n);
                let edge = graph.edges().contains(&[t as u32, s as u32]);
                let step = if edge { 1.0 / degree(t) } else { 0.0 };
                let stay = if s == t { 1.0 } else { 0.0 };
                prop_assert_eq!(row, &vec![stay, step]);
            }
        }
        let edges = batch.edges();
        let mut listed = Vec::new();
        for (graph, nodes) in graphs.iter().zip(batch.node_ptr().ranges()) {
            let first = nodes.start as u32;
            listed.extend(graph.edges().iter().map(|&[s, t]| [first + s, first + t]));
        }
        for (at, &position) in edges.input_positions().iter().enumerate() {
            let pair = [edges.sources()[at], edges.targets()[at]];
            prop_assert_eq!(pair, listed[position as usize]);
            prop_assert!(edges.edge_ptr().range(pair[1] as usize).contains(&at));
        }
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn cached_encodings_give_what_fresh_ones_give(
        model in any_model(),
        specs in any_graphs(),
        shard_bytes in 1u64..4000,
    ) {
        let predictor = model.build(DType::F32, Weights::Any);
        let graphs = build(&specs, &predictor);
        let plan = predictor.model().encoding_plan();
        let expected = output_bits(&predictor.predict(&graphs).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let options = CacheOptions { shard_bytes, ..CacheOptions::default() };
        // The first round computes and stores, the second reads what is on disk.
        for round in 0..2 {
            let cache = EncodingCache::open(dir.path(), options.clone()).unwrap();
            let (encodings, report) = cache.get_or_compute(plan, &graphs, 0).unwrap();
            prop_assert_eq!(report.computed == 0, round == 1);
            let outputs = predictor.run_batch(&graphs, &encodings, 0, Want::Prediction).unwrap();
            prop_assert_eq!(&output_bits(&outputs), &expected);
        }
    }

    #[test]
    fn the_number_of_threads_does_not_matter(
        model in any_model(),
        specs in proptest::collection::vec(large_graph(), 1..3),
    ) {
        let predictor = model.build(DType::F32, Weights::Any);
        let graphs = build(&specs, &predictor);
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| predict_all(&predictor, &graphs, BatchBudget::UNLIMITED))
        };
        let expected = run(1);
        assert_bit_equal(&run(2), &expected);
        assert_bit_equal(&run(3), &expected);
    }

    #[test]
    fn blocks_of_large_graphs_have_no_seams(model in any_model(), spec in large_graph()) {
        let exact = model.build(DType::F64, Weights::FarFromZero);
        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let graphs = build(&[spec], &predictor);
        let encodings = compute(&predictor, &graphs);
        let expected = evaluate(&exact, &graphs, &encodings);
        assert_near(&evaluate(&predictor, &graphs, &encodings), &expected, FUSED);
    }

    #[test]
    fn one_predictor_serves_many_threads(model in any_model(), specs in any_graphs()) {
        fn shared<T: Send + Sync + Clone>(value: &T) -> T {
            value.clone()
        }
        let expected = {
            let predictor = model.build(DType::F32, Weights::Any);
            let graphs = build(&specs, &predictor);
            output_bits(&predictor.predict(&graphs).unwrap())
        };
        // A new predictor, so that the threads also race for whatever is prepared on first use.
        let predictor = model.build(DType::F32, Weights::Any);
        let graphs = build(&specs, &predictor);
        let outputs = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (predictor, graphs) = (shared(&predictor), &graphs);
                    scope.spawn(move || predictor.predict(graphs).unwrap())
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
        });
        for output in outputs {
            prop_assert_eq!(&output_bits(&output), &expected);
        }
    }

    #[test]
    fn graphs_from_petgraph_predict_the_same(model in any_model(), spec in any_graph()) {
        let predictor = model.build(DType::F32, Weights::Any);
        let graphs = build(&[spec], &predictor);
        let graph = &graphs[0];
        let expected = output_bits(&predictor.predict(&graphs).unwrap());

        let there = graph.to_petgraph();
        let back = GraphBuilder::from_petgraph(&there, Vec::clone, Vec::clone);
        // petgraph has no place for node pairs to score.
        let pairs = graph.edge_label_index().unwrap();
        let scored = |builder: GraphBuilder| builder.edge_label_index(pairs.iter().copied());
        let back = scored(back.unwrap()).build().unwrap();
        prop_assert_eq!(&output_bits(&predictor.predict(&[back]).unwrap()), &expected);

        // The same nodes with holes between them.
        let mut holes = petgraph::stable_graph::StableDiGraph::new();
        let mut nodes = Vec::new();
        for node in there.node_indices() {
            let hole = holes.add_node(vec![]);
            nodes.push(holes.add_node(there[node].clone()));
            holes.add_edge(hole, nodes[nodes.len() - 1], vec![]);
            holes.remove_node(hole);
        }
        for &[source, target] in graph.edges() {
            holes.add_edge(nodes[source as usize], nodes[target as usize], vec![]);
        }
        let weights: Vec<Vec<f32>> = there.edge_weights().cloned().collect();
        let edges: Vec<_> = holes.edge_indices().collect();
        for (edge, weight) in edges.into_iter().zip(weights) {
            holes[edge] = weight;
        }
        // Which edges a stable graph lists first is its own affair.
        let simple = graph.edges().iter().collect::<std::collections::BTreeSet<_>>();
        if simple.len() == graph.num_edges() {
            let built = GraphBuilder::from_petgraph(&holes, Vec::clone, Vec::clone);
            let built = scored(built.unwrap()).build().unwrap();
            prop_assert_eq!(&output_bits(&predictor.predict(&[built]).unwrap()), &expected);
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn unusual_graphs_work_alone_and_in_company(model in any_model()) {
        let exact = model.build(DType::F64, Weights::FarFromZero);
        let predictor = model.build(DType::F32, Weights::FarFromZero);
        let (names, specs): (Vec<_>, Vec<_>) = unusual_graphs().into_iter().unzip();
        let graphs = build(&specs, &predictor);
        let alone: Vec<Values> = graphs
            .iter()
            .flat_map(|g| predict_all(&exact, std::slice::from_ref(g), BatchBudget::UNLIMITED))
            .collect();
        assert_near(&predict_all(&exact, &graphs, BatchBudget::UNLIMITED), &alone, STRUCTURE);
        assert_near(&predict_all(&predictor, &graphs, BatchBudget::UNLIMITED), &alone, FUSED);
        let outputs = predictor.predict(&graphs).unwrap();
        for ((name, graph), output) in names.iter().zip(&graphs).zip(&outputs) {
            let rows = if node_predictions(&predictor) { graph.num_nodes() } else { 1 };
            prop_assert_eq!(output.rows().len(), rows, "{}", name);
            prop_assert_eq!(output.width, model.config.output_dim, "{}", name);
        }
    }
}

#[test]
fn a_graph_without_nodes_is_a_clear_error() {
    let expected = "it has no nodes; a graph needs at least one";
    let built = Graph::builder(0).id("hollow").build().unwrap_err();
    assert_eq!(built.to_string(), format!("graph \"hollow\": {expected}"));
    let read = serde_json::from_str::<Graph>(r#"{"num_nodes": 0, "edges": []}"#).unwrap_err();
    assert!(read.to_string().contains(expected), "{read}");
    let empty = petgraph::Graph::<(), ()>::new();
    let converted = Graph::try_from(&empty).unwrap_err();
    assert!(converted.to_string().contains(expected), "{converted}");
}
