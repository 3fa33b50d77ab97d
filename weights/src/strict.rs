//! Strict loading: every tensor a model asks for must be there in its shape, and nothing may be left over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::state_dict::StateDict;

/// Differences after which building is stopped: a hostile configuration may ask for any number of layers.
const MAX_DIFFERENCES: usize = 10_000;
/// Lines that a message shows of each kind of difference.
const SHOWN: usize = 200;

/// A tensor whose shape is not the one that the model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongShape {
    /// Shape that the model asks for.
    pub expected: Vec<usize>,
    /// Shape in the file.
    pub found: Vec<usize>,
}

/// All differences between the tensors of a file and those that a model asks for, each list sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the tensors come from.
    pub source: String,
    /// Asked for but not there, with the expected shape where the model stated one.
    pub missing: BTreeMap<String, Option<Vec<usize>>>,
    /// There but never asked for, with their shapes.
    pub unexpected: BTreeMap<String, Vec<usize>>,
    /// There in another shape.
    pub wrong_shape: BTreeMap<String, WrongShape>,
    /// Asked for in a size over the limits, with that shape.
    pub too_large: BTreeMap<String, Vec<usize>>,
    /// Error with which building stopped before all tensors were asked for; `unexpected` is then empty.
    pub stopped: Option<String>,
}

impl Mismatch {
    fn differences(&self) -> usize {
        self.missing.len() + self.unexpected.len() + self.wrong_shape.len() + self.too_large.len()
    }
}

impl std::error::Error for Mismatch {}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tensors of {} do not fit the model", self.source)?;
        section(f, "missing", &self.missing, |f, shape| match shape {
            Some(shape) => write!(f, "expected {shape:?}"),
            None => write!(f, "any shape"),
        })?;
        section(f, "unexpected", &self.unexpected, |f, shape| {
            write!(f, "found {shape:?}")
        })?;
        let mut hints = Vec::new();
        section(f, "wrong shape", &self.wrong_shape, |f, shapes| {
            let WrongShape { expected, found } = shapes;
            write!(f, "expected {expected:?}, found {found:?}")
        })?;
        for (name, shapes) in &self.wrong_shape {
            hints.extend(table_hint(name, shapes));
        }
        section(f, "too large to allocate", &self.too_large, |f, shape| {
            write!(f, "the configuration asks for {shape:?}")
        })?;
        if let Some(error) = &self.stopped {
            write!(f, "\n  building then stopped: {error}")?;
        }
        for hint in hints.iter().take(SHOWN) {
            write!(f, "\n  note: {hint}")?;
        }
        Ok(())
    }
}

fn section<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    entries: &BTreeMap<String, T>,
    mut detail: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    if entries.is_empty() {
        return Ok(());
    }
    write!(f, "\n  {title} ({}):", entries.len())?;
    for (name, value) in entries.iter().take(SHOWN) {
        write!(f, "\n    {name}: ")?;
        detail(f, value)?;
    }
    if entries.len() > SHOWN {
        write!(f, "\n    … and {} more", entries.len() - SHOWN)?;
    }
    Ok(())
}

/// What a wrong number of rows in an embedding table means.
fn table_hint(name: &str, shapes: &WrongShape) -> Option<String> {
    let (encoder, rest) = name.split_once(".embeddings.")?;
    let column = rest.strip_suffix(".weight")?;
    match (shapes.expected.as_slice(), shapes.found.as_slice()) {
        (&[expected, width], &[found, found_width]) if width == found_width => Some(format!(
            "{name}: expected {expected} rows, found {found}: the feature table of column {column} in `{encoder}` \
             differs; the checkpoint was trained on other categories than the configuration states"
        )),
        _ => None,
    }
}

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
