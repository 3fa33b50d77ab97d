//! Encodings of one graph, on the host.

use serde::{Deserialize, Serialize};

use crate::graph::Graph;

/// What the rows of an encoding array stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One row a graph.
    Graph,
    /// One row a node.
    Node,
    /// One row an ordered node pair, in the order of
    /// [`GraphBatch`](crate::graph::GraphBatch): row `t·n + s` is the pair (source `s`, target `t`).
    Pair,
}

impl Level {
    /// Number of rows that `graph` has at this level.
    pub fn rows(self, graph: &Graph) -> u64 {
        match self {
            Self::Graph => 1,
            Self::Node => graph.num_nodes() as u64,
            Self::Pair => graph.num_pairs(),
        }
    }
}

/// One array of an encoding, `[rows, width]`, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodingArray {
    /// Name under which a model asks for it, such as `rrwp.node`.
    pub name: String,
    /// What a row stands for.
    pub level: Level,
    /// Columns.
    pub width: usize,
    /// `rows * width` values.
    pub data: Vec<f32>,
}

/// All arrays that a plan makes for one graph, in the plan's order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GraphEncoding {
    /// The arrays.
    pub arrays: Vec<EncodingArray>,
}

impl GraphEncoding {
    /// The array called `name`, if the plan made it.
    pub fn get(&self, name: &str) -> Option<&EncodingArray> {
        self.arrays.iter().find(|a| a.name == name)
    }
}

/// The array of a name, level and width, with its data.
pub(super) fn array(
    ((name, level, width), data): ((&str, Level, usize), Vec<f32>),
) -> EncodingArray {
    EncodingArray {
        name: name.to_string(),
        level,
        width,
        data,
    }
}
