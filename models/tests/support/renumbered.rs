//! What must come out for a graph whose nodes have other numbers.

use candle_graph::encodings::{GRAPHORMER_PREDECESSORS, GraphEncoding, Level};
use candle_graph_models::{PredictionLevel, Predictor};

use super::Values;

/// Node `i` becomes `new_of_old[i]`, in the rows of a table.
fn moved_rows<T: Copy + Default>(rows: &[T], width: usize, new_of_old: &[u32]) -> Vec<T> {
    let mut out = vec![T::default(); rows.len()];
    for (row, &new) in rows.chunks_exact(width).zip(new_of_old) {
        let at = new as usize * width;
        out[at..at + width].copy_from_slice(row);
    }
    out
}

/// What a model must give for the renumbered graph.
pub(crate) fn moved(values: &Values, new_of_old: &[u32], node_predictions: bool) -> Values {
    let outputs = values.prediction.len() / new_of_old.len();
    Values {
        nodes: moved_rows(&values.nodes, values.width, new_of_old),
        width: values.width,
        prediction: match node_predictions {
            true => moved_rows(&values.prediction, outputs, new_of_old),
            false => values.prediction.clone(),
        },
    }
}

/// What an encoding must be for the renumbered graph.
pub(crate) fn moved_encoding(encoding: &GraphEncoding, new_of_old: &[u32]) -> GraphEncoding {
    let n = new_of_old.len();
    let mut out = encoding.clone();
    for array in &mut out.arrays {
        let of_rows: Vec<u32> = match array.level {
            Level::Graph => vec![0],
            Level::Node => new_of_old.to_vec(),
            Level::Pair => (0..n * n)
                .map(|pair| new_of_old[pair / n] * n as u32 + new_of_old[pair % n])
                .collect(),
        };
        array.data = moved_rows(&array.data, array.width, &of_rows);
        if array.name == GRAPHORMER_PREDECESSORS {
            // The values are nodes, or -1.
            for node in array.data.iter_mut().filter(|node| **node >= 0.0) {
                *node = new_of_old[*node as usize] as f32;
            }
        }
    }
    out
}

pub(crate) fn node_predictions(predictor: &Predictor) -> bool {
    predictor.model().prediction_level() == PredictionLevel::Node
}
