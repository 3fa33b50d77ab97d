//! Two lists of node numbers as tensors, made when they are first asked for.

use std::sync::OnceLock;

use candle_core::{Device, Result, Tensor};

/// The tensors of two lists that never change.
#[derive(Debug, Clone, Default)]
pub(super) struct IndexTensors(OnceLock<[Tensor; 2]>);

impl IndexTensors {
    /// The lists on `device`, u32 `[numbers]` each; they must be the same at every call.
    pub(super) fn get(&self, lists: [&[u32]; 2], device: &Device) -> Result<(&Tensor, &Tensor)> {
        let [first, second] = match self.0.get() {
            Some(tensors) => tensors,
            None => {
                let make = |ids: &[u32]| Tensor::from_vec(ids.to_vec(), ids.len(), device);
                let made = [make(lists[0])?, make(lists[1])?];
                self.0.get_or_init(|| made)
            }
        };
        Ok((first, second))
    }
}
