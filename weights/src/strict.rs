//! Strict loading: every tensor a model asks for must be there in its shape, and nothing may be left over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use crate::error::{Error, Result};
use crate::limits::Limits;
pub use crate::mismatch::{Mismatch, WrongShape};
use crate::state_dict::StateDict;

/// Differences after which building is stopped: a hostile configuration may ask for any number of layers.
const MAX_DIFFERENCES: usize = 10_000;

/// Builds a model from `tensors` and requires that they fit exactly.
///
/// `build` gets a [`VarBuilder`] of type `dtype` on `device`. A tensor that is missing or of another shape is replaced
/// by zeros, so that building goes on and the error lists everything at once; the model is then dropped.
///
/// # Errors
/// - [`Error::Mismatch`] with all missing, unexpected and mis-shaped tensors.
/// - [`Error::Build`] when `build` fails although every tensor it asked for was there (an invalid configuration).
/// - A single tensor over `limits.tensor_bytes`, or missing ones over `limits.total_bytes` together, stop the building
///   (in [`Mismatch::too_large`]): a hostile configuration must not allocate.
pub fn load_strict<M, E>(
    tensors: StateDict,
    dtype: DType,
    device: &Device,
    limits: &Limits,
    build: impl FnOnce(VarBuilder<'static>) -> std::result::Result<M, E>,
) -> Result<M>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let source = tensors.source().to_string();
    let shared = Arc::new(Shared {
        tensors,
        limits: limits.clone(),
        record: Mutex::default(),
    });
    let backend = Box::new(Backend(Arc::clone(&shared)));
    let built = build(VarBuilder::from_backend(backend, dtype, device.clone()));
    let record = std::mem::take(&mut *shared.record());
    let mut mismatch = Mismatch {
        source,
        ..record.mismatch
    };
    match built {
        Ok(model) => {
            for (name, tensor) in shared.tensors.iter() {
                if !record.requested.contains(name) {
                    mismatch
                        .unexpected
                        .insert(name.to_string(), tensor.shape().to_vec());
                }
            }
            if mismatch.differences() == 0 {
                return Ok(model);
            }
            Err(Error::Mismatch(Box::new(mismatch)))
        }
        Err(error) => {
            let error = error.into();
            if mismatch.differences() == 0 {
                return Err(Error::Build(error));
            }
            mismatch.stopped = Some(error.to_string());
            Err(Error::Mismatch(Box::new(mismatch)))
        }
    }
}

#[derive(Default)]
struct Record {
    requested: std::collections::HashSet<String>,
    mismatch: Mismatch,
    /// Bytes of the zeros that stand in for missing tensors.
    zero_bytes: u64,
}

struct Shared {
    tensors: StateDict,
    limits: Limits,
    record: Mutex<Record>,
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        // The record stays valid whatever happened while it was held.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Backend(Arc<Shared>);

impl SimpleBackend for Backend {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _init: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let shape = shape.into_dims();
        let mut record = self.0.record();
        let stored = self.0.tensors.get(name);
        if let Some(tensor) = stored
            && tensor.shape() == shape
        {
            record.requested.insert(name.to_string());
            return tensor
                .to_tensor(device)
                .map_err(candle_core::Error::wrap)?
                .to_dtype(dtype);
        }
        if record.mismatch.differences() >= MAX_DIFFERENCES {
            return Err(candle_core::Error::Msg(format!(
                "more than {MAX_DIFFERENCES} tensors do not fit"
            )));
        }
        let bytes = shape
            .iter()
            .try_fold(dtype.size_in_bytes().max(1), |size, &dim| {
                size.checked_mul(dim)
            })
            .and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or(u64::MAX);
        let zero_bytes = record.zero_bytes.saturating_add(bytes);
        if bytes > self.0.limits.tensor_bytes || zero_bytes > self.0.limits.total_bytes {
            record.mismatch.too_large.insert(name.to_string(), shape);
            return Err(candle_core::Error::Msg(format!(
                "tensor `{name}` is too large to allocate"
            )));
        }
        record.zero_bytes = zero_bytes;
        match stored {
            Some(tensor) => {
                record.requested.insert(name.to_string());
                let shapes = WrongShape {
                    expected: shape.clone(),
                    found: tensor.shape().to_vec(),
                };
                record.mismatch.wrong_shape.insert(name.to_string(), shapes);
            }
            None => {
                let expected = Some(shape.clone());
                record.mismatch.missing.insert(name.to_string(), expected);
            }
        }
        // One element seen at every place: nothing of the asked-for size is allocated here.
        Tensor::zeros((), dtype, device)?.broadcast_as(shape)
    }

    fn get_unchecked(
        &self,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let mut record = self.0.record();
        let Some(tensor) = self.0.tensors.get(name) else {
            record.mismatch.missing.insert(name.to_string(), None);
            return Err(candle_core::Error::CannotFindTensor {
                path: name.to_string(),
            });
        };
        record.requested.insert(name.to_string());
        tensor
            .to_tensor(device)
            .map_err(candle_core::Error::wrap)?
            .to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.0.tensors.contains(name)
    }
}
