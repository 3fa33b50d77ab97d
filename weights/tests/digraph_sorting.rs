//! The sorting-network classifier of the zoo: the recorded predictions, on recorded eigenvectors and on
//! our own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};

use candle_core::{DType, Device};
use candle_graph::encodings::{EncodingArray, GraphEncoding, Level};
use candle_graph::graph::{Features, Graph};
use candle_graph::ops::force_reference;
use candle_graph_models::{Predictor, Want};
use candle_graph_weights::convert::haiku::convert;
use candle_graph_weights::{Checkpoint, Limits, StateDict, load_model, read_safetensors};
use support::{fixture, shared};

/// Lists of comparators that are complete, lack their last comparator, and run backwards.
const KINDS: usize = 3;
/// 7, 8 and 9 wires.
const SIZES: usize = 3;
/// Right answers among the 50 graphs of every number of wires and kind.
const CORRECT: [[usize; KINDS]; SIZES] = [[49, 40, 50], [47, 39, 49], [45, 36, 49]];
/// Graphs with what the official code computed for them.
struct Recorded {
    /// Numbers among all 450 graphs.
    ids: Vec<i64>,
    graphs: Vec<Graph>,
    encodings: Vec<GraphEncoding>,
    logits: Vec<[f32; 2]>,
    classes: Vec<i64>,
    labels: Vec<i64>,
}

fn numbers(tensors: &StateDict, name: &str) -> Vec<i64> {
    let tensor = tensors
        .get(name)
        .expect(name)
        .to_tensor(&Device::Cpu)
        .unwrap();
    let tensor = tensor.to_dtype(DType::I64).unwrap().flatten_all().unwrap();
    tensor.to_vec1().unwrap()
}

impl Recorded {
    fn new(graphs: &StateDict, predictions: &StateDict) -> Self {
        let logits = support::floats(predictions, "logits");
        let logits = logits.as_chunks().0.to_vec();
        let ids = match graphs.contains("ids") {
            true => numbers(graphs, "ids"),
            false => (0..).take(logits.len()).collect(),
        };
        let features = support::floats(graphs, "node_feat");
        let [real, imaginary] =
            ["real", "imag"].map(|part| support::floats(graphs, &format!("eigenvectors_{part}")));
        let eigenvalues = support::floats(graphs, "eigenvalues");
        let [senders, receivers] = ["senders", "receivers"].map(|name| numbers(graphs, name));
        let ranges = |name: &str| -> Vec<std::ops::Range<usize>> {
            let offsets: Vec<usize> = (numbers(graphs, name).iter())
                .map(|&at| usize::try_from(at).unwrap())
                .collect();
            offsets.windows(2).map(|w| w[0]..w[1]).collect()
        };
        let k = eigenvalues.len() / ids.len();
        let mut recorded = Self {
            ids,
            graphs: Vec::new(),
            encodings: Vec::new(),
            logits,
            classes: numbers(predictions, "pred"),
            labels: numbers(predictions, "label"),
        };
        let both = ranges("node_offsets")
            .into_iter()
            .zip(ranges("edge_offsets"));
        for (at, (nodes, edges)) in both.enumerate() {
            let edges =
                edges.map(|e| [senders[e], receivers[e]].map(|n| u32::try_from(n).unwrap()));
            let graph = Graph::builder(nodes.len())
                .edges(edges)
                .node_features(Features::float(
                    3,
                    features[3 * nodes.start..3 * nodes.end].to_vec(),
                ));
            recorded.graphs.push(graph.build().unwrap());
            let array = |name: &str, level, data: &[f32]| EncodingArray {
                name: format!("magnetic.{name}"),
                level,
                width: k,
                data: data.to_vec(),
            };
            let rows = k * nodes.start..k * nodes.end;
            recorded.encodings.push(GraphEncoding {
                arrays: vec![
                    array(
                        "eigenvalues",
                        Level::Graph,
                        &eigenvalues[k * at..k * (at + 1)],
                    ),
                    array("eigenvectors_real", Level::Node, &real[rows.clone()]),
                    array("eigenvectors_imag", Level::Node, &imaginary[rows]),
                ],
            });
        }
        recorded
    }

    /// 94 graphs, the ambiguous ones among them.
    fn some() -> Self {
        let path = fixture("digraph-sorting/test.safetensors");
        let tensors = read_safetensors(&path, &Limits::default()).unwrap();
        Self::new(&tensors, &tensors)
    }

    /// All 450, where they are.
    fn all() -> Option<Self> {
        let folder = shared()?.join("checkpoints/digraph-sorting");
        let read = |name| read_safetensors(&folder.join(name), &Limits::default()).unwrap();
        let graphs = read("test_encodings.safetensors");
        Some(Self::new(&graphs, &read("predictions.safetensors")))
    }
}

fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("zoo/digraph-sorting")
}

fn predictor() -> Predictor {
    Predictor::new(load_model(&zoo(), &Device::Cpu).unwrap(), Device::Cpu)
}

fn run(recorded: &Recorded, encodings: &[GraphEncoding]) -> Vec<[f32; 2]> {
    let outputs = predictor().run_batch(&recorded.graphs, encodings, 0, Want::Prediction);
    let outputs = outputs.unwrap().into_iter();
    outputs.map(|o| o.data.try_into().unwrap()).collect()
}

fn class(logits: [f32; 2]) -> i64 {
    i64::from(logits[1] > logits[0])
}

fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).abs().max((a[1] - b[1]).abs())
}

/// Right answers by number of wires and kind.
fn correct(recorded: &Recorded, logits: &[[f32; 2]]) -> [[usize; KINDS]; SIZES] {
    let mut counts = [[0; KINDS]; SIZES];
    for ((&id, &label), &logits) in recorded.ids.iter().zip(&recorded.labels).zip(logits) {
        let id = usize::try_from(id).unwrap();
        counts[id / KINDS % SIZES][id % KINDS] += usize::from(class(logits) == label);
    }
    counts
}

#[test]
fn recorded_predictions_are_reproduced_from_recorded_eigenvectors() {
    let some = Recorded::some();
    assert_eq!(some.graphs.len(), 94);
    for recorded in [Some(some), Recorded::all()].into_iter().flatten() {
        let logits = run(&recorded, &recorded.encodings);
        for (at, (&ours, &theirs)) in logits.iter().zip(&recorded.logits).enumerate() {
            assert!(distance(ours, theirs) < 1e-5, "{at}: {ours:?} {theirs:?}");
            assert_eq!(class(ours), recorded.classes[at], "{at}");
        }
        assert_eq!(
            correct(&recorded, &logits),
            correct(&recorded, &recorded.logits)
        );
        if recorded.graphs.len() == 450 {
            assert_eq!(correct(&recorded, &logits), CORRECT);
        }
    }
}

#[test]
fn batches_and_fused_code_do_not_change_predictions() {
    let recorded = Recorded::some();
    let together = run(&recorded, &recorded.encodings);
    let reference = force_reference(|| run(&recorded, &recorded.encodings));
    let predictor = predictor();
    for at in 0..recorded.graphs.len() {
        assert!(distance(together[at], reference[at]) < 1e-5, "{at}");
        let (graph, encoding) = (&recorded.graphs[at..=at], &recorded.encodings[at..=at]);
        let alone = predictor
            .run_batch(graph, encoding, 0, Want::Prediction)
            .unwrap();
        let alone: [f32; 2] = alone[0].data.clone().try_into().unwrap();
        assert!(distance(together[at], alone) < 1e-5, "{at}");
    }
}

/// Our eigenvectors are the recorded ones save a few whose phase hangs on a tie that rounding decides,
/// which moves a logit by less than 0.1 and hardly ever changes an answer.
#[test]
fn eigenvectors_of_our_own_give_the_same_answers() {
    let plan = load_model(&zoo(), &Device::Cpu)
        .unwrap()
        .encoding_plan()
        .clone();
    for recorded in [Some(Recorded::some()), Recorded::all()]
        .into_iter()
        .flatten()
    {
        let encodings = plan.compute_all(&recorded.graphs, 0).unwrap();
        let logits = run(&recorded, &encodings);
        let (mut other_logits, mut other_answers) = (0, 0);
        for (at, (&ours, &theirs)) in logits.iter().zip(&recorded.logits).enumerate() {
            let off = distance(ours, theirs);
            assert!(off < 0.15, "{at}: {off}");
            other_logits += usize::from(off > 1e-4);
            other_answers += usize::from(class(ours) != recorded.classes[at]);
        }
        // Here 5 of the 94 (which hold all that another solver was found to differ in) and 6 of the 450
        // graphs have other logits, and none another answer.
        assert!(other_logits <= 10, "{other_logits}");
        assert!(other_answers <= 1, "{other_answers}");
    }
}

/// What the model learned is in the eigenvectors: without them it says "no" nearly always.
#[test]
fn predictions_rest_on_the_eigenvectors() {
    let recorded = Recorded::some();
    let mut encodings = recorded.encodings.clone();
    for array in encodings
        .iter_mut()
        .flat_map(|encoding| &mut encoding.arrays)
    {
        if array.level == Level::Node {
            array.data.fill(0.0);
        }
    }
    let right = |logits: &[[f32; 2]]| correct(&recorded, logits).iter().flatten().sum::<usize>();
    let (with, without) = (right(&recorded.logits), right(&run(&recorded, &encodings)));
    assert!(without + 10 < with, "{with} {without}");
}

#[test]
fn the_parameter_count_is_the_recorded_one() {
    let checkpoint = Checkpoint::read(&zoo(), &Limits::default()).unwrap();
    assert_eq!(checkpoint.num_parameters(), 209_581);
}

#[test]
fn the_shipped_weights_are_the_official_ones() {
    let Some(shared) = shared() else { return };
    let folder = shared.join("checkpoints/digraph-sorting");
    let (checkpoint, options) = (folder.join("checkpoint.dill"), folder.join("config.json"));
    let converted = convert(&checkpoint, &options, &Limits::default()).unwrap();
    let shipped = Checkpoint::read(&zoo(), &Limits::default()).unwrap();
    assert_eq!(shipped.config(), converted.checkpoint.config());
    assert_eq!(
        shipped.weights().len(),
        converted.checkpoint.weights().len()
    );
    for (name, tensor) in converted.checkpoint.weights().iter() {
        assert_eq!(shipped.weights().get(name), Some(tensor), "{name}");
    }
}
