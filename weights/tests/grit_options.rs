//! Every option of the official GRIT code that has an effect gives the official numbers.
//!
//! The cases under `models/tests/fixtures/grit-options` were computed by the official code: small
//! models that together set every such option away from its default, on graphs that data sets hold
//! but tidy examples do not (one node, no edges, self loops, repeated edges, isolated nodes, one-way
//! edges). Each is converted from its official checkpoint and options and compared in everything
//! that was recorded.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_graph::datasets::{Format, ReadOptions, open};
use candle_graph::encodings::{EncodingArray, GraphEncoding, Level, RRWP_NODE, RRWP_PAIR};
use candle_graph::graph::Graph;
use candle_graph::nn::FeatureEncoderConfig;
use candle_graph::ops::force_reference;
use candle_graph_models::grit::GritConfig;
use candle_graph_models::{ModelConfig, Predictor, Trace};
use candle_graph_weights::checkpoint::Training;
use candle_graph_weights::convert::Options;
use candle_graph_weights::convert::graphgym::{Converted, GraphGymOptions, convert, convert_with};
use candle_graph_weights::{Checkpoint, CheckpointConfig, Limits, StateDict, read_safetensors};
use serde_json::{Value, json};

/// All cases; one that is lost or misspelt fails its test.
const CASES: [&str; 8] = [
    "both-norms",
    "fixed-pairs",
    "layer-norm-rezero",
    "ppa-swish",
    "raw-features",
    "sparse-no-norms",
    "sparse-two-classes",
    "voc-one-column",
];

/// f32 against the official f32, relative to `max(1, |value|)`.
const TOLERANCE: f64 = 1e-5;
/// f64 against the official f64: only the clamp's bound and the encodings are single there.
const DOUBLE_TOLERANCE: f64 = 1e-7;
const ENCODING_TOLERANCE: f64 = 1e-6;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/fixtures/grit-options")
}

struct Recorded(StateDict);

impl Recorded {
    fn read(path: &Path) -> Self {
        Self(read_safetensors(path, &Limits::default()).unwrap())
    }

    fn tensor(&self, name: &str) -> Tensor {
        let data = self.0.get(name).unwrap_or_else(|| panic!("no {name}"));
        data.to_tensor(&Device::Cpu).unwrap()
    }

    fn values(&self, name: &str) -> Vec<f64> {
        flat(&self.tensor(name))
    }

    fn index(&self, name: &str) -> Vec<(usize, usize)> {
        let rows = self.tensor(name).to_vec2::<i64>().unwrap();
        let node = |v: &i64| usize::try_from(*v).unwrap();
        let pairs = rows[0].iter().zip(&rows[1]);
        pairs.map(|(a, b)| (node(a), node(b))).collect()
    }
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_dtype(DType::F64).unwrap();
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

struct Case {
    name: String,
    converted: Converted,
    graphs: Vec<Graph>,
    encodings: Recorded,
    outputs: Recorded,
}

impl Case {
    fn read(name: &str) -> Self {
        let folder = cases().join(name);
        let limits = Limits::default();
        let converted = convert(
            &folder.join("model.ckpt"),
            &folder.join("config.json"),
            &GraphGymOptions::default(),
            &limits,
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        let inputs = folder.join("inputs.safetensors");
        let format = Some(Format::SafetensorsBatch);
        let reader = open(&inputs, format, &ReadOptions::default()).unwrap();
        Self {
            name: name.to_string(),
            converted,
            graphs: reader.collect::<Result<_, _>>().unwrap(),
            encodings: Recorded::read(&folder.join("encodings.safetensors")),
            outputs: Recorded::read(&folder.join("outputs.safetensors")),
        }
    }

    /// Our row of every recorded pair (source, target), both numbered through the batch.
    fn pair_rows(&self, pairs: &[(usize, usize)]) -> Vec<usize> {
        let mut of_node = Vec::new();
        let (mut first_node, mut first_pair) = (0, 0);
        for graph in &self.graphs {
            let n = graph.num_nodes();
            of_node.extend(std::iter::repeat_n((first_node, first_pair, n), n));
            (first_node, first_pair) = (first_node + n, first_pair + n * n);
        }
        let row = |&(source, target): &(usize, usize)| {
            assert_eq!(of_node[source], of_node[target]);
            let (first_node, first_pair, n) = of_node[source];
            first_pair + (target - first_node) * n + (source - first_node)
        };
        pairs.iter().map(row).collect()
    }

    /// The recorded encodings in our layout; pairs that were not recorded are zero.
    fn recorded_encodings(&self) -> Vec<GraphEncoding> {
        let width = self.encodings.tensor("rrwp").dims()[1];
        let single = |name| -> Vec<f32> {
            let values = self.encodings.values(name);
            values.into_iter().map(|v| v as f32).collect()
        };
        let (node, values) = (single("rrwp"), single("rrwp_val"));
        let pairs: usize = self.graphs.iter().map(|g| g.num_nodes().pow(2)).sum();
        let mut pair = vec![0.0; pairs * width];
        let rows = self.pair_rows(&self.encodings.index("rrwp_index"));
        for (row, values) in rows.into_iter().zip(values.chunks_exact(width)) {
            pair[row * width..][..width].copy_from_slice(values);
        }
        let (mut node, mut pair) = (node.into_iter(), pair.into_iter());
        let array = |name: &str, level, data| EncodingArray {
            name: name.to_string(),
            level,
            width,
            data,
        };
        let encoding = |graph: &Graph| {
            let n = graph.num_nodes();
            let node = node.by_ref().take(n * width).collect();
            let pair = pair.by_ref().take(n * n * width).collect();
            GraphEncoding {
                arrays: vec![
                    array(RRWP_NODE, Level::Node, node),
                    array(RRWP_PAIR, Level::Pair, pair),
                ],
            }
        };
        self.graphs.iter().map(encoding).collect()
    }

    fn activations(&self, dtype: DType, encodings: &[GraphEncoding]) -> BTreeMap<String, Tensor> {
        let limits = Limits::default();
        let checkpoint = &self.converted.checkpoint;
        let model = checkpoint.build(&Device::Cpu, dtype, &limits).unwrap();
        let predictor = Predictor::new(model, Device::Cpu);
        let batch = predictor.batch(&self.graphs, encodings, 0).unwrap();
        let mut trace = Trace::on();
        let traced = predictor.model().forward_traced(&batch, &mut trace);
        let traced = flat(&traced.unwrap());
        // Without a record the engine takes other paths: in place, and without the last pair state.
        let untraced = flat(&predictor.model().forward(&batch).unwrap());
        self.compare("prediction without a trace", &untraced, &traced, TOLERANCE);
        trace.into_activations()
    }

    /// Compares everything that was recorded; pairs that the official code does not hold (sparse
    /// attention) are left out.
    fn compare_activations(&self, run: &str, ours: &BTreeMap<String, Tensor>) {
        let rows = self.pair_rows(&self.outputs.index("enc.edge_index"));
        let mut compared = 0;
        for name in self.outputs.0.names() {
            let Some(our_name) = our_name(name) else {
                continue;
            };
            let tensor = &ours[&our_name];
            let mut values = flat(tensor);
            if our_name.ends_with("pair") || our_name.ends_with("weights") {
                let width = tensor.dims()[1];
                let row = |&row: &usize| values[row * width..][..width].to_vec();
                values = rows.iter().flat_map(row).collect();
            }
            let label = format!("{run}: {name}");
            self.compare(&label, &values, &self.outputs.values(name), TOLERANCE);
            compared += 1;
        }
        // The encoders' two, two of every layer, two of the first attention, the prediction.
        let layers = (0..).take_while(|i| ours.contains_key(&format!("layers.{i}.node")));
        assert!(compared >= 5 + 2 * layers.count(), "{}: {run}", self.name);
    }

    fn compare(&self, what: &str, ours: &[f64], theirs: &[f64], tolerance: f64) {
        assert_eq!(ours.len(), theirs.len(), "{}: {what}", self.name);
        for (at, (a, b)) in ours.iter().zip(theirs).enumerate() {
            let difference = (a - b).abs() / b.abs().max(1.0);
            assert!(
                difference <= tolerance,
                "{}: {what}: value {at} is {a}, officially {b}",
                self.name
            );
        }
    }
}

/// Our name of a recorded activation; `None` for entries that are none of the f32 run.
fn our_name(recorded: &str) -> Option<String> {
    Some(match recorded {
        "enc.edge_index" | "pred_f64" => return None,
        "enc.x" => "encoder.node".to_string(),
        "enc.edge_attr" => "encoder.pair".to_string(),
        "pred" => "prediction".to_string(),
        "pooled" => "pooled".to_string(),
        layer => layer
            .replace(".edge_attr", ".pair")
            .replace(".x", ".node")
            .replace(".attention.attn", ".attention.weights")
            .replace(".attention.wV", ".attention.value"),
    })
}

fn check(name: &str) {
    check_case(&Case::read(name));
}

fn check_case(case: &Case) {
    let checkpoint = &case.converted.checkpoint;
    let model = checkpoint
        .build(&Device::Cpu, DType::F32, &Limits::default())
        .unwrap();
    let recorded = case.recorded_encodings();
    let computed = model.encoding_plan().compute_all(&case.graphs, 0).unwrap();
    for (ours, theirs) in computed.iter().zip(&recorded) {
        for (a, b) in ours.arrays.iter().zip(&theirs.arrays) {
            assert_eq!((&a.name, a.width), (&b.name, b.width));
            let wide = |data: &[f32]| data.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
            let (ours, theirs) = (wide(&a.data), wide(&b.data));
            case.compare(&a.name, &ours, &theirs, ENCODING_TOLERANCE);
        }
    }
    let runs = [
        ("recorded encodings", &recorded),
        ("our encodings", &computed),
    ];
    for (run, encodings) in runs {
        let fused = case.activations(DType::F32, encodings);
        case.compare_activations(&format!("fused, {run}"), &fused);
        let reference = force_reference(|| case.activations(DType::F32, encodings));
        case.compare_activations(&format!("reference, {run}"), &reference);
    }
    // In double precision rounding cannot hide a small mistake.
    let double = flat(&case.activations(DType::F64, &recorded)["prediction"]);
    let official = case.outputs.values("pred_f64");
    case.compare("double precision", &double, &official, DOUBLE_TOLERANCE);
}

#[test]
fn layer_norm_with_batch_norm_encoder_norms_and_a_head_of_one_map() {
    check("both-norms");
}

#[test]
fn pair_states_that_stay_no_degree_scaler_and_node_predictions() {
    check("fixed-pairs");
}

#[test]
fn layer_norm_alone_rezero_no_clamp_biases_and_shortest_paths() {
    check("layer-norm-rezero");
}

#[test]
fn one_row_encoders_and_sparse_attention_with_swish() {
    check("ppa-swish");
}

#[test]
fn raw_node_features_without_edge_encoder() {
    check("raw-features");
}

#[test]
fn edge_features_without_an_encoder_are_added_where_the_configuration_says_so() {
    // It lies apart because the options alone do not say it: a plain conversion gives other numbers.
    let mut case = Case::read("../grit-raw-edge-features");
    assert!(case.converted.notes.join(" ").contains("`raw`"));
    let checkpoint = &case.converted.checkpoint;
    let ModelConfig::Grit(config) = &checkpoint.config().model else {
        panic!("not GRIT");
    };
    let config = GritConfig {
        edge_encoder: Some(FeatureEncoderConfig::Raw),
        ..config.clone()
    };
    let config = CheckpointConfig::new(ModelConfig::Grit(config), Training::default()).unwrap();
    case.converted.checkpoint = Checkpoint::new(config, checkpoint.weights().clone());
    check_case(&case);
}

#[test]
fn sparse_attention_without_any_norm_in_the_layers() {
    check("sparse-no-norms");
}

#[test]
fn sparse_attention_plain_pair_branch_and_one_logit_for_two_classes() {
    check("sparse-two-classes");
}

#[test]
fn edge_encoder_norm_on_nodes_and_pair_states_without_norms() {
    check("voc-one-column");
}

#[test]
fn options_without_effect_are_remarked_on_and_only_those() {
    let notes = |name| Case::read(name).converted.notes.join("; ");
    let inert = notes("fixed-pairs");
    for option in [
        "gt.attn.signed_sqrt",
        "gt.attn.sqrt_relu",
        "gt.attn.scaled_attn",
        "gt.attn.no_qk",
        "gt.attn.fwl",
        "gt.attn.sparse",
        "gt.attn.use",
        "gt.residual",
        "posenc_RRWP.add_identity",
    ] {
        assert!(inert.contains(option), "{option}: {inert}");
    }
    assert!(notes("raw-features").contains("`dataset.edge_encoder` is off"));
    assert_eq!(notes("both-norms"), "");
}

#[test]
fn no_case_is_forgotten() {
    let mut found: Vec<String> = std::fs::read_dir(cases())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, CASES);
}

/// The `both-norms` options with `value` at `path`, converted.
fn with_option(path: &str, value: Value) -> String {
    let folder = cases().join("both-norms");
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let mut options: Value = serde_json::from_str(&text).unwrap();
    let pointer = format!("/{}", path.replace('.', "/"));
    *options.pointer_mut(&pointer).expect(path) = value;
    let options = Options::from_value(options, "test");
    let ckpt = folder.join("model.ckpt");
    let choices = GraphGymOptions::default();
    match convert_with(&ckpt, options, &choices, &Limits::default()) {
        Ok(_) => "converted".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn options_that_the_official_code_cannot_run_or_that_need_more_are_refused_by_name() {
    for (path, value) in [
        ("gnn.act", json!("relu")),
        ("gnn.act", json!("None")),
        ("gnn.head", json!("default")),
        ("share.dim_out", json!(0)),
    ] {
        assert_eq!(with_option(path, value), "converted", "{path}");
    }
    for (path, value, reason) in [
        // Each PReLU has a learned slope, which the key table has no place for.
        ("gt.attn.act", json!("prelu"), "prelu"),
        ("gnn.act", json!("prelu"), "prelu"),
        // A later GraphGym's name; GRIT's code says `swish`.
        ("gnn.act", json!("silu"), "silu"),
        // The official encoder makes two channels and then multiplies them by a matrix for one.
        ("posenc_RRWP.ksteps", json!(1), "at least 2"),
        ("posenc_RRWP.enable", json!(false), "random walk"),
        ("gnn.layers_pre_mp", json!(1), "before GRIT"),
        ("gt.bn_no_runner", json!(true), "running statistics"),
        ("model.graph_pooling", json!("example"), "example"),
        ("gnn.head", json!("inductive_edge"), "inductive_edge"),
        ("dataset.node_encoder_name", json!("ASTNode"), "ASTNode"),
    ] {
        let message = with_option(path, value.clone());
        assert!(
            message.contains(&format!("option `{path}`")) && message.contains(reason),
            "{path} = {value}: {message}"
        );
    }
    let message = with_option("bn.eps", json!(-1.0));
    assert!(message.contains("encoder_norm_eps"), "{message}");
}
