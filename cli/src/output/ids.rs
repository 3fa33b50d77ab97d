//! The ids of all graphs as one array.

use candle_graph::graph::GraphId;

/// Ids in the order of the graphs.
#[derive(Debug, Default)]
pub(super) struct Ids(Vec<GraphId>);

impl Ids {
    pub(super) fn push(&mut self, id: &GraphId) {
        self.0.push(id.clone());
    }

    /// The ids as numbers, if all are.
    pub(super) fn numbers(&self) -> Option<Vec<i64>> {
        let number = |id: &GraphId| match id {
            GraphId::Number(number) => Some(*number),
            GraphId::Text(_) => None,
        };
        self.0.iter().map(number).collect()
    }

    /// The ids as text, numbers in digits.
    pub(super) fn texts(&self) -> Vec<String> {
        let text = |id: &GraphId| match id {
            GraphId::Number(number) => number.to_string(),
            GraphId::Text(text) => text.clone(),
        };
        self.0.iter().map(text).collect()
    }

    /// A JSON list of the ids as they were written.
    pub(super) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.0)
    }
}
