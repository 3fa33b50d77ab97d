//! Recording of intermediate activations.

use std::collections::BTreeMap;

use candle_core::Tensor;

/// Collects named intermediate activations of a forward pass, all of them or none. A model that
/// records keeps every tensor intact, which costs memory and the in-place updates.
#[derive(Debug, Default)]
pub struct Trace {
    on: bool,
    activations: BTreeMap<String, Tensor>,
}

impl Trace {
    /// Records nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Records every activation that the model names.
    pub fn on() -> Self {
        Self {
            on: true,
            activations: BTreeMap::new(),
        }
    }

    /// Whether activations are recorded.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Records `tensor` under the name that `name` makes; neither is touched when off.
    pub fn record(&mut self, name: impl FnOnce() -> String, tensor: &Tensor) {
        if self.on {
            self.activations.insert(name(), tensor.clone());
        }
    }

    /// What was recorded.
    pub fn into_activations(self) -> BTreeMap<String, Tensor> {
        self.activations
    }
}
