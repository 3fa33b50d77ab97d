//! Node and edge encoders against what the official GraphGPS gives, from its inputs, its weights
//! and, where a spectrum leaves a choice, its eigenvectors.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod case;
#[path = "../support/mod.rs"]
mod support;

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::{
    ELECTROSTATIC, EncodingPlan, HEAT_KERNEL, LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, RWSE,
    SIGN_NET_EIGENVECTORS,
};
use candle_graph::graph::{FeatureSchema, Features, Graph, GraphBatch, InputSchema};
use candle_graph::nn::{
    FeatureEncoder, FeatureEncoderConfig, NodeEncoder, NodeEncoderConfig, NodeEncoding,
};
use candle_graph::ops::force_reference;
use candle_nn::VarBuilder;
use case::Case;
use support::{find, fixture, shared};

const CPU: Device = Device::Cpu;

/// The encodings in which a spectrum leaves a choice.
const SPECTRAL: [&str; 3] = [
    LAP_PE_EIGENVECTORS,
    LAP_PE_EIGENVALUES,
    SIGN_NET_EIGENVECTORS,
];

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(found: &Tensor, recorded: &Tensor, tolerance: f32, what: &str) {
    assert_eq!(found.dims(), recorded.dims(), "{what}");
    for (at, (x, y)) in values(found).iter().zip(values(recorded)).enumerate() {
        let off = (x - y).abs();
        assert!(
            off <= tolerance * y.abs().max(1.0),
            "{what}, value {at}: {x}, recorded {y}"
        );
    }
}

/// `tensor` with 0 for NaN.
fn filled(tensor: &Tensor) -> Tensor {
    let data = values(tensor)
        .into_iter()
        .map(|v| if v.is_nan() { 0.0 } else { v });
    Tensor::from_vec(data.collect(), tensor.dims(), &CPU).unwrap()
}

/// The bias that the official code holds as `[graphs · heads, n, n]` or `[graphs, heads, n, n]`, in
/// the order of our pairs.
fn ragged_bias(recorded: &Tensor, batch: &GraphBatch) -> Tensor {
    let graphs = batch.num_graphs();
    let widest = recorded.dims()[recorded.rank() - 1];
    let dense = recorded.reshape((graphs, (), widest, widest)).unwrap();
    let heads = dense.dim(1).unwrap();
    let blocks: Vec<Tensor> = (batch.node_ptr().lengths().enumerate())
        .map(|(graph, n)| {
            let block = dense.get(graph).unwrap();
            let block = block.narrow(1, 0, n).unwrap().narrow(2, 0, n).unwrap();
            let rows = block.permute((1, 2, 0)).unwrap();
            rows.reshape((n * n, heads)).unwrap()
        })
        .collect();
    Tensor::cat(&blocks, 0).unwrap()
}

/// Encodes the case's graphs; `None` where the official code normalises behind the encoder.
fn check(folder: &Path) -> Option<Vec<&'static str>> {
    let case = Case::read(folder);
    if case.flag("/dataset/node_encoder_bn") || !case.flag("/dataset/node_encoder") {
        return None;
    }
    let graphs = case.graphs();
    let (config, tensors) = case.node_encoder();
    let width = case.width();
    let names: Vec<String> = tensors.keys().cloned().collect();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &CPU);
    let encoder = NodeEncoder::new(&config, width, vb).unwrap();

    // The edge encoder where the model has one, else what the bias reads.
    let edges = case.flag("/dataset/edge_encoder").then(|| {
        let prefix = "encoder.edge_encoder.";
        case.features(case.text("/dataset/edge_encoder_name"), prefix)
    });
    let schema = InputSchema {
        node: config.schema(width),
        edge: match &edges {
            Some((edges, _)) => edges.schema(width),
            None => config.edge_schema().unwrap_or_default(),
        },
    };
    let mut batch = GraphBatch::new(&graphs, &schema, 0, &CPU).unwrap();
    let plan = EncodingPlan::new(config.recipes()).unwrap();
    let encodings = plan.compute_all(&graphs, 0).unwrap();
    plan.attach(&mut batch, &encodings).unwrap();
    let mut seen = vec!["nodes"];

    for (official, array) in [
        ("pestat_RWSE", RWSE),
        ("pestat_HKdiagSE", HEAT_KERNEL),
        ("pestat_ElstaticSE", ELECTROSTATIC),
    ] {
        if let Some(recorded) = case.tensors.get(official) {
            let what = format!("{}: {official}", case.name);
            assert_close(batch.encoding(array).unwrap(), recorded, 1e-6, &what);
            seen.push(array);
        }
    }
    for (official, array) in [
        ("EigVecs", LAP_PE_EIGENVECTORS),
        ("EigVals", LAP_PE_EIGENVALUES),
        ("eigvecs_sn", SIGN_NET_EIGENVECTORS),
    ] {
        if let Some(recorded) = case.tensors.get(official) {
            let recorded = recorded.reshape((batch.num_nodes(), ())).unwrap();
            batch.attach_encoding(array, filled(&recorded));
            seen.push(array);
        }
    }

    let found = encoder.forward(&batch).unwrap();
    compare(&case, &found, &batch, &mut seen);
    let reference = force_reference(|| encoder.forward(&batch)).unwrap();
    compare(&case, &reference, &batch, &mut seen);

    if let (Some((config, names)), Some(recorded)) = (edges, case.tensors.get("edge_after_encoder"))
    {
        let tensors = names
            .into_iter()
            .map(|[ours, official]| (ours, case.tensors[&official].clone()))
            .collect();
        let vb = VarBuilder::from_tensors(tensors, DType::F32, &CPU);
        let encoder = FeatureEncoder::new(&config, width, vb).unwrap();
        let found = encoder.forward(batch.edge_features(), batch.edges().len());
        let order = batch.edges().input_positions().to_vec();
        let order = Tensor::from_vec(order, batch.edges().len(), &CPU).unwrap();
        // The recorded edges stand in input order only where a graph's edges are together.
        let recorded = recorded.index_select(&order, 0).unwrap();
        let what = format!("{}: edges", case.name);
        assert_close(&found.unwrap(), &recorded, 1e-5, &what);
        seen.push("edges");
    }
    every_tensor_counts(&case, &config, &names);
    Some(seen)
}

fn compare(case: &Case, found: &NodeEncoding, batch: &GraphBatch, seen: &mut Vec<&'static str>) {
    let what = |part: &str| format!("{}: {part}", case.name);
    let recorded = &case.tensors["node_after_encoder"];
    assert_close(&found.nodes, recorded, 1e-5, &what("nodes"));
    let positions = case.tensors.get("pe_EquivStableLapPE");
    assert_eq!(found.positions.is_some(), positions.is_some());
    if let (Some(found), Some(recorded)) = (&found.positions, positions) {
        assert_close(found, recorded, 1e-5, &what("positions"));
        seen.push("positions");
    }
    let bias = case.tensors.get("attn_bias");
    assert_eq!(found.bias.is_some(), bias.is_some(), "{}", case.name);
    if let (Some(ours), Some(recorded)) = (&found.bias, bias) {
        let batch = found.token_batch.as_ref().unwrap_or(batch);
        let recorded = ragged_bias(recorded, batch);
        assert_close(ours, &recorded, 1e-5, &what("bias"));
        seen.push("bias");
    }
}

/// Without any one of its tensors the encoder is refused: none goes unread.
fn every_tensor_counts(case: &Case, config: &NodeEncoderConfig, names: &[String]) {
    let (_, tensors) = case.node_encoder();
    for name in names {
        let mut fewer = tensors.clone();
        fewer.remove(name);
        let vb = VarBuilder::from_tensors(fewer, DType::F32, &CPU);
        let error = NodeEncoder::new(config, case.width(), vb).err();
        let error = error.unwrap_or_else(|| panic!("{}: {name} is not read", case.name));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn recorded_encoders_are_reproduced() {
    for (name, parts) in [
        ("gps-encoders/zinc-GPS", &[LAP_PE_EIGENVALUES, "edges"][..]),
        (
            "gps-encoders/extra-LapPE-Transformer",
            &[LAP_PE_EIGENVALUES],
        ),
        ("gps-encoders/extra-RWSE-MLP", &[RWSE]),
        ("gps-encoders/zinc-GPS+SNMLP", &[SIGN_NET_EIGENVECTORS]),
        ("gps-encoders/cifar10-GPS-ESLapPE", &["positions"]),
        (
            "gps-encoders/zinc-GPS-LapPE+RWSE",
            &[LAP_PE_EIGENVECTORS, RWSE],
        ),
        (
            "gps/atom-signnet-rwse",
            &[SIGN_NET_EIGENVECTORS, RWSE, "edges"],
        ),
        ("gps/hkdiagse-linear", &[HEAT_KERNEL]),
        ("gps/hkdiagse-mlp", &[HEAT_KERNEL]),
        ("gps/elstaticse-linear", &[ELECTROSTATIC]),
        ("gps/elstaticse-mlp", &[ELECTROSTATIC]),
        ("gps/graphormer-bias-directed", &["bias", RWSE]),
        ("gps/graphormer-bias-rwse", &["bias", RWSE]),
        ("gps/graphormer-degrees-only", &["nodes"]),
        ("gps/graphormer-network-token", &["bias"]),
    ] {
        let seen = check(&fixture(name)).unwrap();
        for part in parts {
            assert!(seen.contains(part), "{name}: {part} was not compared");
        }
    }
}

/// The encoder of a recorded case, its graphs, and their batch with the recorded eigenvectors.
fn prepared(name: &str) -> (Case, NodeEncoder, Vec<Graph>, GraphBatch) {
    let case = Case::read(&fixture(name));
    let (config, tensors) = case.node_encoder();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &CPU);
    let encoder = NodeEncoder::new(&config, case.width(), vb).unwrap();
    let graphs = case.graphs();
    let batch = batch_of(&case, &graphs);
    (case, encoder, graphs, batch)
}

/// The batch of `graphs` with the encodings that the case's encoder reads.
fn batch_of(case: &Case, graphs: &[Graph]) -> GraphBatch {
    let (config, _) = case.node_encoder();
    let schema = InputSchema {
        node: config.schema(case.width()),
        edge: config.edge_schema().unwrap_or_default(),
    };
    let mut batch = GraphBatch::new(graphs, &schema, 0, &CPU).unwrap();
    let plan = EncodingPlan::new(config.recipes()).unwrap();
    let encodings = plan.compute_all(graphs, 0).unwrap();
    plan.attach(&mut batch, &encodings).unwrap();
    batch
}

#[test]
fn a_graph_alone_is_encoded_as_in_a_batch() {
    for name in [
        "gps-encoders/zinc-GPS",
        "gps-encoders/extra-LapPE-Transformer",
        "gps-encoders/zinc-GPS+SNMLP",
        "gps/atom-signnet-rwse",
        "gps/graphormer-bias-rwse",
        "gps/graphormer-network-token",
    ] {
        let (case, encoder, graphs, batch) = prepared(name);
        let together = encoder.forward(&batch).unwrap();
        let layout = together.token_batch.as_ref().unwrap_or(&batch);
        for (at, graph) in graphs.iter().enumerate() {
            let part = |tensor: &Tensor, range: std::ops::Range<usize>| {
                tensor.narrow(0, range.start, range.len()).unwrap()
            };
            let mut alone = batch_of(&case, std::slice::from_ref(graph));
            for array in SPECTRAL {
                if let Ok(vectors) = batch.encoding(array) {
                    let own = part(vectors, batch.node_ptr().range(at));
                    alone.attach_encoding(array, own.contiguous().unwrap());
                }
            }
            let alone = encoder.forward(&alone).unwrap();
            let nodes = part(&together.nodes, layout.node_ptr().range(at));
            assert_close(&alone.nodes, &nodes, 1e-6, name);
            if let Some(bias) = &together.bias {
                let bias = part(bias, layout.pair_ptr().unwrap().range(at));
                assert_close(&alone.bias.unwrap(), &bias, 1e-6, name);
            }
        }
    }
}

#[test]
fn signs_of_eigenvectors_do_not_change_sign_net() {
    for name in ["gps-encoders/zinc-GPS+SNMLP", "gps/atom-signnet-rwse"] {
        let (_, encoder, _, mut batch) = prepared(name);
        let before = encoder.forward(&batch).unwrap().nodes;
        let vectors = batch.encoding(SIGN_NET_EIGENVECTORS).unwrap().clone();
        let slots = vectors.dim(1).unwrap();
        let signs = (0..slots).map(|k| if k % 3 == 1 { -1f32 } else { 1.0 });
        let signs = Tensor::from_vec(signs.collect(), slots, &CPU).unwrap();
        let flipped = vectors.broadcast_mul(&signs).unwrap();
        batch.attach_encoding(SIGN_NET_EIGENVECTORS, flipped);
        let after = encoder.forward(&batch).unwrap().nodes;
        assert_close(&after, &before, 1e-6, name);
        // Another change of the eigenvectors does.
        let halved = (vectors * 0.5).unwrap();
        batch.attach_encoding(SIGN_NET_EIGENVECTORS, halved);
        let other = encoder.forward(&batch).unwrap().nodes;
        let off = (other - before).unwrap().abs().unwrap().max_all().unwrap();
        assert!(off.to_scalar::<f32>().unwrap() > 1e-3, "{name}");
    }
}

#[test]
fn the_numbering_of_nodes_does_not_matter() {
    for name in [
        "gps-encoders/extra-LapPE-Transformer",
        "gps-encoders/cifar10-GPS-ESLapPE",
        "gps-encoders/zinc-GPS-LapPE+RWSE",
        "gps/atom-signnet-rwse",
        "gps/hkdiagse-linear",
        "gps/elstaticse-mlp",
        "gps/graphormer-bias-directed",
    ] {
        let (case, encoder, graphs, batch) = prepared(name);
        let before = encoder.forward(&batch).unwrap();
        // Node i of a graph becomes node n - 1 - i.
        let reversed = |n: usize| (0..n as u32).rev().collect::<Vec<_>>();
        let turned: Vec<Graph> = (graphs.iter())
            .map(|graph| graph.renumbered(&reversed(graph.num_nodes())).unwrap())
            .collect();
        let place = |ranges: Vec<std::ops::Range<usize>>| {
            let ids = ranges.into_iter().flat_map(|range| range.rev());
            let ids: Vec<u32> = ids.map(|id| id as u32).collect();
            let count = ids.len();
            Tensor::from_vec(ids, count, &CPU).unwrap()
        };
        let nodes = place(batch.node_ptr().ranges().collect());
        // Reversing both nodes of every pair reverses the pairs of a graph.
        let pairs = place(batch.pair_ptr().unwrap().ranges().collect());
        let mut after = batch_of(&case, &turned);
        for array in SPECTRAL {
            if let Ok(vectors) = batch.encoding(array) {
                after.attach_encoding(array, vectors.index_select(&nodes, 0).unwrap());
            }
        }
        let after = encoder.forward(&after).unwrap();
        let expected = before.nodes.index_select(&nodes, 0).unwrap();
        assert_close(&after.nodes, &expected, 2e-6, name);
        if let Some(positions) = &before.positions {
            let expected = positions.index_select(&nodes, 0).unwrap();
            assert_close(&after.positions.unwrap(), &expected, 2e-6, name);
        }
        if let Some(bias) = &before.bias {
            let expected = bias.index_select(&pairs, 0).unwrap();
            assert_close(&after.bias.unwrap(), &expected, 2e-6, name);
        }
    }
}

#[test]
fn edge_types_beyond_the_table_are_refused() {
    let (case, encoder, graphs, _) = prepared("gps/graphormer-bias-rwse");
    let (config, _) = case.node_encoder();
    let wide = InputSchema {
        node: config.schema(case.width()),
        edge: FeatureSchema::Categorical { tables: vec![100] },
    };
    let graph = Graph::builder(2)
        .edges([[0, 1]])
        .node_features(graphs[1].node_features().cloned())
        .edge_features(Some(Features::categorical(1, vec![99])));
    let graph = [graph.build().unwrap()];
    let mut batch = GraphBatch::new(&graph, &wide, 0, &CPU).unwrap();
    let plan = EncodingPlan::new(config.recipes()).unwrap();
    plan.attach(&mut batch, &plan.compute_all(&graph, 0).unwrap())
        .unwrap();
    let error = encoder.forward(&batch).unwrap_err().to_string();
    assert!(error.contains("an edge has the category 99"), "{error}");
}

/// Every reference case, where the folder with them is there.
#[test]
fn all_recorded_encoders_are_reproduced() {
    let Some(folder) = shared()
        .map(|s| s.join("goldens/gps"))
        .filter(|f| f.is_dir())
    else {
        return;
    };
    let cases = find(&folder, "config.json");
    let checked = cases
        .iter()
        .filter_map(|path| check(path.parent().unwrap()));
    assert!(checked.count() > 25, "of {} cases", cases.len());
}

#[test]
fn depths_beyond_the_table_count_as_the_deepest() {
    let config = FeatureEncoderConfig::ClampedEmbedding {
        tables: vec![3, 21],
        clamped: vec![1],
    };
    let read = serde_json::to_value(&config).unwrap();
    assert_eq!(
        serde_json::from_value::<FeatureEncoderConfig>(read).unwrap(),
        config
    );
    let graph = |data: Vec<u32>| {
        let features = Features::categorical(2, data);
        let graph = Graph::builder(3).node_features(features).build();
        graph.unwrap()
    };
    let schema = InputSchema {
        node: config.schema(2),
        edge: FeatureSchema::Ignored,
    };
    let batch = GraphBatch::new(&[graph(vec![0, 20, 2, 21, 1, 900])], &schema, 0, &CPU).unwrap();
    let table = |rows: usize| Tensor::arange(0f32, 2.0 * rows as f32, &CPU).unwrap();
    let tensors = HashMap::from([
        (
            "embeddings.0.weight".into(),
            table(3).reshape((3, 2)).unwrap(),
        ),
        (
            "embeddings.1.weight".into(),
            table(21).reshape((21, 2)).unwrap(),
        ),
    ]);
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &CPU);
    let encoder = FeatureEncoder::new(&config, 2, vb).unwrap();
    let found = encoder.forward(batch.node_features(), 3).unwrap();
    let expected = [[40f32, 42.0], [44.0, 46.0], [42.0, 44.0]];
    assert_eq!(found.to_vec2::<f32>().unwrap(), expected);
    let outside = GraphBatch::new(&[graph(vec![3, 0, 0, 0, 0, 0])], &schema, 0, &CPU);
    let error = outside.unwrap_err().to_string();
    assert!(error.contains("category 3 at row 0, column 0"), "{error}");
}
