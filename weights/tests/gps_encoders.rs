//! Node and edge encoders against what the official GraphGPS gives, from its inputs, its weights
//! and, where a spectrum leaves a choice, its eigenvectors.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_graph::datasets::SafetensorsBatch;
use candle_graph::encodings::{
    ELECTROSTATIC, Electrostatic, EncodingPlan, Graphormer, HEAT_KERNEL, HeatKernel,
    LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS, LapPe, RWSE, Rwse, SIGN_NET_EIGENVECTORS,
};
use candle_graph::graph::{FeatureSchema, Graph, GraphBatch, InputSchema};
use candle_graph::nn::{
    EigenvectorSet, FeatureEncoder, FeatureEncoderConfig, KernelEncoder, NodeEncoder,
    NodeEncoderConfig, NodeEncoding, PositionalEncoderConfig, SignInvariantPooling,
};
use candle_graph::ops::force_reference;
use candle_graph_weights::{Limits, StateDict, read_safetensors, torch};
use candle_nn::VarBuilder;
use serde_json::Value;
use support::{find, fixture, shared};

const CPU: Device = Device::Cpu;

/// A recorded case: everything of its files under one roof.
struct Case {
    name: String,
    options: Value,
    tensors: HashMap<String, Tensor>,
    inputs: PathBuf,
}

impl Case {
    fn read(folder: &Path) -> Self {
        let text = std::fs::read(folder.join("config.json")).unwrap();
        let mut tensors = HashMap::new();
        let mut add = |state: StateDict| {
            for (name, data) in state.iter() {
                let name = name.strip_prefix("model.").unwrap_or(name);
                tensors.insert(name.to_string(), data.to_tensor(&CPU).unwrap());
            }
        };
        let one = folder.join("case.safetensors");
        let inputs = if one.is_file() {
            add(read_safetensors(&one, &Limits::default()).unwrap());
            one
        } else {
            add(torch::read_state_dict(&folder.join("model.ckpt"), &Limits::default()).unwrap());
            for file in ["inputs", "encodings", "outputs"] {
                let file = folder.join(format!("{file}.safetensors"));
                if file.is_file() {
                    add(read_safetensors(&file, &Limits::default()).unwrap());
                }
            }
            folder.join("inputs.safetensors")
        };
        Self {
            name: folder.display().to_string(),
            options: serde_json::from_slice(&text).unwrap(),
            tensors,
            inputs,
        }
    }

    fn graphs(&self) -> Vec<Graph> {
        let file = std::fs::File::open(&self.inputs).unwrap();
        let graphs = SafetensorsBatch::new(file, "inputs").unwrap();
        graphs.collect::<Result<_, _>>().unwrap()
    }

    fn text(&self, path: &str) -> &str {
        self.options.pointer(path).and_then(Value::as_str).unwrap()
    }

    fn whole(&self, path: &str) -> usize {
        let number = self.options.pointer(path).and_then(Value::as_u64);
        usize::try_from(number.unwrap_or_else(|| panic!("{path}"))).unwrap()
    }

    fn flag(&self, path: &str) -> bool {
        let flag = self.options.pointer(path).and_then(Value::as_bool);
        flag.unwrap_or(false)
    }

    /// Width of the node states.
    fn width(&self) -> usize {
        self.tensors["node_after_encoder"].dim(1).unwrap()
    }

    fn lap_pe(&self, eigen: &str, norm: &str) -> LapPe {
        LapPe {
            frequencies: self.whole(&format!("{eigen}/eigen/max_freqs")),
            laplacian_norm: self
                .text(&format!("{norm}/eigen/laplacian_norm"))
                .parse()
                .unwrap(),
            eigvec_norm: self
                .text(&format!("{eigen}/eigen/eigvec_norm"))
                .parse()
                .unwrap(),
        }
    }

    fn positional(&self, name: &str) -> PositionalEncoderConfig {
        let section = format!("/posenc_{name}");
        let of = |option: &str| format!("{section}/{option}");
        let raw_norm = (self.options.pointer(&of("raw_norm_type")))
            .is_some_and(|norm| norm.as_str().unwrap().eq_ignore_ascii_case("batchnorm"));
        let dim = || self.whole(&of("dim_pe"));
        let layers = || self.whole(&of("layers"));
        let kernel = || match self.text(&of("model")).to_ascii_lowercase().as_str() {
            "linear" => KernelEncoder::Linear,
            _ => KernelEncoder::Mlp { layers: layers() },
        };
        let times = || {
            let times = self.options.pointer(&of("kernel/times")).unwrap();
            let times = times.as_array().unwrap().iter();
            times.map(|t| t.as_u64().unwrap()).collect::<Vec<_>>()
        };
        match name {
            "LapPE" => PositionalEncoderConfig::LapPe {
                recipe: self.lap_pe(&section, &section),
                dim: dim(),
                set: match self.text(&of("model")) {
                    "DeepSet" => EigenvectorSet::DeepSet { layers: layers() },
                    _ => EigenvectorSet::Transformer {
                        layers: layers(),
                        heads: self.whole(&of("n_heads")),
                    },
                },
                post_layers: self.whole(&of("post_layers")),
                raw_norm,
            },
            "RWSE" => PositionalEncoderConfig::Rwse {
                recipe: Rwse {
                    times: times().into_iter().map(|t| t as usize).collect(),
                },
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "HKdiagSE" => PositionalEncoderConfig::HeatKernel {
                recipe: HeatKernel {
                    times: times().into_iter().map(|t| t as u32).collect(),
                },
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "ElstaticSE" => PositionalEncoderConfig::Electrostatic {
                recipe: Electrostatic {},
                dim: dim(),
                encoder: kernel(),
                raw_norm,
            },
            "SignNet" => PositionalEncoderConfig::SignNet {
                recipe: self.lap_pe(&section, &section),
                dim: dim(),
                layers: layers(),
                hidden_dim: self.whole(&of("phi_hidden_dim")),
                output_dim: self.whole(&of("phi_out_dim")),
                pooling: match self.text(&of("model")) {
                    "DeepSet" => SignInvariantPooling::Sum,
                    _ => SignInvariantPooling::Concatenate,
                },
                post_layers: self.whole(&of("post_layers")),
            },
            "EquivStableLapPE" => PositionalEncoderConfig::EquivStable {
                recipe: self.lap_pe(&section, "/posenc_LapPE"),
                raw_norm,
            },
            "GraphormerBias" => PositionalEncoderConfig::Graphormer {
                recipe: Graphormer {
                    spatial_types: self.whole(&of("num_spatial_types")),
                    in_degrees: self.whole(&of("num_in_degrees")),
                    out_degrees: self.whole(&of("num_out_degrees")),
                    degrees_only: self.flag(&of("node_degrees_only")),
                    edge_types: true,
                },
                heads: self.whole("/graphormer/num_heads"),
                edge_types: self.whole("/dataset/edge_encoder_num_types"),
                graph_token: self.flag("/graphormer/use_graph_token"),
            },
            name => panic!("{}: positional encoder {name}", self.name),
        }
    }

    /// The tables of the embeddings below `prefix` with names from `parts`, in order.
    fn tables(&self, prefix: &str, parts: &[String]) -> Vec<usize> {
        let rows = |part: &String| {
            let table = self.tensors.get(&format!("{prefix}{part}.weight"));
            table.map(|table| table.dim(0).unwrap())
        };
        parts.iter().map_while(rows).collect()
    }

    /// The encoder of features called `name`, with official names below `prefix`; gives our names
    /// with the official ones.
    fn features(&self, name: &str, prefix: &str) -> (FeatureEncoderConfig, Vec<[String; 2]>) {
        let pair = |ours: String, official: &str| [ours, format!("{prefix}{official}")];
        let linear = |part: &str| {
            let weight = &self.tensors[&format!("{prefix}{part}.weight")];
            let width = weight.dim(1).unwrap();
            let names = ["weight", "bias"]
                .map(|t| pair(format!("linear.{t}"), &format!("{part}.{t}")))
                .to_vec();
            (FeatureEncoderConfig::Linear { width }, names)
        };
        let parts: Vec<String> = match name {
            "TypeDictNode" | "TypeDictEdge" | "DummyEdge" | "PPANode" => vec!["encoder".into()],
            "Atom" => (0..9).map(|c| format!("atom_embedding_list.{c}")).collect(),
            "Bond" => (0..3).map(|c| format!("bond_embedding_list.{c}")).collect(),
            "ASTNode" => vec![
                "type_encoder".into(),
                "attribute_encoder".into(),
                "depth_encoder".into(),
            ],
            "ASTEdge" => vec!["embedding_type".into(), "embedding_direction".into()],
            "LinearNode" | "LinearEdge" | "VOCNode" | "VOCEdge" | "COCONode" | "COCOEdge"
            | "PPAEdge" => return linear("encoder"),
            _ => return linear("linear_x"),
        };
        let tables = self.tables(prefix, &parts);
        assert_eq!(tables.len(), parts.len(), "{}: {name}", self.name);
        let names = (parts.iter().enumerate())
            .map(|(c, part)| pair(format!("embeddings.{c}.weight"), &format!("{part}.weight")))
            .collect();
        let config = match name {
            "DummyEdge" | "PPANode" => FeatureEncoderConfig::Dummy,
            "ASTNode" => FeatureEncoderConfig::ClampedEmbedding {
                tables,
                clamped: vec![2],
            },
            _ => FeatureEncoderConfig::Embedding { tables },
        };
        (config, names)
    }

    /// The node encoder and its tensors under our names.
    fn node_encoder(&self) -> (NodeEncoderConfig, HashMap<String, Tensor>) {
        const ROOT: &str = "encoder.node_encoder.";
        let name = self.text("/dataset/node_encoder_name");
        let mut parts: Vec<&str> = name.split('+').collect();
        let bare = self.options.get(format!("posenc_{}", parts[0])).is_some();
        if bare {
            parts.insert(0, "linear_x");
        }
        let composed = parts.len() > 1 && !bare;
        let prefix = |at: usize| match composed {
            true => format!("{ROOT}encoder{}.", at + 1),
            false => ROOT.to_string(),
        };
        let (features, names) = self.features(parts[0], &prefix(0));
        let mut tensors: HashMap<String, Tensor> = names
            .into_iter()
            .map(|[ours, official]| (format!("features.{ours}"), self.tensors[&official].clone()))
            .collect();
        let mut positional = Vec::new();
        for (at, part) in parts.iter().enumerate().skip(1) {
            positional.push(self.positional(part));
            let prefix = prefix(at);
            for (official, tensor) in &self.tensors {
                let Some(rest) = official.strip_prefix(&prefix) else {
                    continue;
                };
                if rest.starts_with("linear_x") || rest.ends_with("num_batches_tracked") {
                    continue;
                }
                let ours = renamed(
                    part,
                    rest,
                    self.flag("/posenc_GraphormerBias/node_degrees_only"),
                );
                tensors.insert(format!("positional.{}.{ours}", at - 1), tensor.clone());
            }
        }
        let config = NodeEncoderConfig {
            features,
            positional,
        };
        (config, tensors)
    }
}

/// Our name of a tensor of a positional encoder.
fn renamed(kind: &str, official: &str, degrees_only: bool) -> String {
    let numbered = |text: &str, prefix: &str, ours: &str, shift: usize| {
        let (number, rest) = text.strip_prefix(prefix)?.split_once('.')?;
        let number: usize = number.parse().ok()?;
        Some(format!("{ours}.{}.{rest}", (number - shift) / 2))
    };
    let replaced = |pairs: &[(&str, &str)]| {
        let replace = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
        pairs.iter().fold(official.to_string(), replace)
    };
    match kind {
        "LapPE" if official.starts_with("pe_encoder.layers.") => replaced(&[
            ("pe_encoder.", ""),
            ("self_attn.in_proj_", "attention.in_proj."),
            ("self_attn.", "attention."),
            ("linear1", "feed_forward.input"),
            ("linear2", "feed_forward.output"),
            ("norm1", "norm_attention"),
            ("norm2", "norm_feed_forward"),
        ]),
        "LapPE" => numbered(official, "pe_encoder.", "layers", 1)
            .or_else(|| numbered(official, "post_mlp.", "post", 0))
            .unwrap_or_else(|| replaced(&[("linear_A", "input")])),
        "SignNet" => replaced(&[
            ("sign_inv_net.", ""),
            ("enc.bns.", "norms."),
            ("enc.", ""),
            ("nn.lins.0", "input"),
            ("nn.lins.1", "output"),
            ("nn.bns.0", "norm"),
            ("rho.lins.", "post."),
            ("rho.bns.", "post_norms."),
        ]),
        "EquivStableLapPE" => replaced(&[("linear_encoder_eigenvec", "linear")]),
        "GraphormerBias" => {
            let bias = official.starts_with("0.") && !degrees_only;
            let token = if bias { "bias_token" } else { "graph_token" };
            replaced(&[
                ("0.", ""),
                ("1.", ""),
                ("graph_token", token),
                ("spatial_encoder", "spatial"),
                ("edge_dis_encoder", "edge_distances"),
                ("edge_encoder", "edges"),
                ("in_degree_encoder", "in_degrees"),
                ("out_degree_encoder", "out_degrees"),
            ])
        }
        _ => numbered(official, "pe_encoder.", "layers", 0)
            .unwrap_or_else(|| replaced(&[("pe_encoder.", "layers.0.")])),
    }
}

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
    const SPECTRAL: [&str; 3] = [
        LAP_PE_EIGENVECTORS,
        LAP_PE_EIGENVALUES,
        SIGN_NET_EIGENVECTORS,
    ];
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
        let pairs = place(batch.pair_ptr().ranges().collect());
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
        .edge_features(Some(candle_graph::graph::Features::categorical(
            1,
            vec![99],
        )));
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
        let features = candle_graph::graph::Features::categorical(2, data);
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
