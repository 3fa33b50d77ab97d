//! Running models and comparing what they give.

use candle_core::{DType, Tensor};
use candle_graph::encodings::GraphEncoding;
use candle_graph::graph::{BatchBudget, Graph};
use candle_graph_models::{Output, PredictionLevel, Predictor, Trace};

use super::GraphSpec;

/// What a model gives for one graph, in full precision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Values {
    /// Node embeddings, `[nodes, width]`.
    pub(crate) nodes: Vec<f64>,
    /// Width of a node embedding.
    pub(crate) width: usize,
    /// Predictions, `[1, nodes or pairs, outputs]`.
    pub(crate) prediction: Vec<f64>,
}

/// The graphs with the features that the model reads.
pub(crate) fn build(specs: &[GraphSpec], predictor: &Predictor) -> Vec<Graph> {
    let schema = predictor.model().input_schema();
    specs.iter().map(|s| s.build(schema)).collect()
}

pub(crate) fn compute(predictor: &Predictor, graphs: &[Graph]) -> Vec<GraphEncoding> {
    predictor
        .model()
        .encoding_plan()
        .compute_all(graphs, 0)
        .unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap();
    wide.to_vec1().unwrap()
}

/// Runs `graphs` as one batch.
pub(crate) fn evaluate(
    predictor: &Predictor,
    graphs: &[Graph],
    encodings: &[GraphEncoding],
) -> Vec<Values> {
    let model = predictor.model();
    let batch = predictor.batch(graphs, encodings, 0).unwrap();
    let states = model.node_states(&batch, &mut Trace::off()).unwrap();
    let prediction = model.head(&states, &batch, &mut Trace::off()).unwrap();
    let nodes = states.nodes().unwrap();
    let (nodes, prediction) = (values(&nodes), values(&prediction));
    assert!(nodes.iter().chain(&prediction).all(|v| v.is_finite()));
    let (width, outputs) = (model.embedding_dim(), model.output_dim());
    let of_graph = |(g, rows): (usize, std::ops::Range<usize>)| {
        let predicted = match model.prediction_level() {
            PredictionLevel::Graph => g..g + 1,
            PredictionLevel::Node => rows.clone(),
            PredictionLevel::Edge => batch.edge_label_index().unwrap().ptr().range(g),
        };
        Values {
            nodes: nodes[rows.start * width..rows.end * width].to_vec(),
            width,
            prediction: prediction[predicted.start * outputs..predicted.end * outputs].to_vec(),
        }
    };
    batch
        .node_ptr()
        .ranges()
        .enumerate()
        .map(of_graph)
        .collect()
}

/// Runs `graphs` in batches after `budget`, with encodings computed on the fly.
pub(crate) fn predict_all(
    predictor: &Predictor,
    graphs: &[Graph],
    budget: BatchBudget,
) -> Vec<Values> {
    let ranges = budget.cut(graphs, 0).unwrap();
    let run = |range: std::ops::Range<usize>| {
        let graphs = &graphs[range];
        evaluate(predictor, graphs, &compute(predictor, graphs))
    };
    ranges.into_iter().flat_map(run).collect()
}

/// The bits of all outputs, to demand equality of every one.
pub(crate) fn output_bits(outputs: &[Output]) -> Vec<(usize, Vec<u32>)> {
    let bits = |o: &Output| (o.width, o.data.iter().map(|v| v.to_bits()).collect());
    outputs.iter().map(bits).collect()
}

/// Demands equal bits.
#[track_caller]
pub(crate) fn assert_bit_equal(a: &[Values], b: &[Values]) {
    let bits = |values: &[Values]| -> Vec<Vec<u64>> {
        let of_one = |v: &Values| {
            v.nodes
                .iter()
                .chain(&v.prediction)
                .map(|x| x.to_bits())
                .collect()
        };
        values.iter().map(of_one).collect()
    };
    assert_eq!(bits(a), bits(b));
}

/// Demands `|a - b| <= tolerance * max(1, largest |b| of the graph)`.
#[track_caller]
pub(crate) fn assert_near(a: &[Values], b: &[Values], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (graph, (a, b)) in a.iter().zip(b).enumerate() {
        for (what, a, b) in [
            ("node embeddings", &a.nodes, &b.nodes),
            ("prediction", &a.prediction, &b.prediction),
        ] {
            assert_eq!(a.len(), b.len(), "{what} of graph {graph}");
            let scale = b.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
            let worst = a
                .iter()
                .zip(b)
                .map(|(a, b)| (a - b).abs())
                .fold(0.0, f64::max);
            assert!(
                worst <= tolerance * scale,
                "{what} of graph {graph}: off by {worst:e} at a scale of {scale:e}"
            );
        }
    }
}
