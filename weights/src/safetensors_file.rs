//! Safetensors files: defensive reading, atomic writing.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorView};
use serde::Deserialize;

use crate::atomic_file::write_atomically;
use crate::bounded_read::{open_bounded, read_part};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::state_dict::{ElementType, MAX_NAME_BYTES, StateDict, TensorData};

/// Bytes of the length that stands before the header.
const LENGTH_BYTES: u64 = 8;

/// Reads all tensors of a safetensors file, in the order of their data.
///
/// # Errors
/// A file that is truncated, over one of the `limits`, or malformed: a header longer than the file, overlapping or
/// missing data, a size that does not fit the shape, an element type that is not supported. The message names the file
/// and the tensor.
pub fn read_safetensors(path: &Path, limits: &Limits) -> Result<StateDict> {
    Ok(read_with_metadata(path, limits)?.0)
}

/// Like [`read_safetensors`], with the free-form text entries of the header (`__metadata__`).
///
/// # Errors
/// As [`read_safetensors`].
pub fn read_with_metadata(
    path: &Path,
    limits: &Limits,
) -> Result<(StateDict, BTreeMap<String, String>)> {
    let (mut file, file_bytes) = open_bounded(path, limits)?;
    let header = read_header(path, &mut file, file_bytes, limits)?;
    let mut state = StateDict::new(path.display().to_string());
    // The parser has made sure that the data ranges follow one another without gaps and end with the file.
    for name in header.offset_keys() {
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::format(
                path,
                format!("a tensor's name is longer than {MAX_NAME_BYTES} bytes"),
            ));
        }
        let info = header
            .info(&name)
            .ok_or_else(|| Error::tensor(path, &name, "it is missing from the header"))?;
        let element = element_type(info.dtype).ok_or_else(|| {
            let problem = format!("element type {} is not supported", info.dtype);
            Error::tensor(path, &name, problem)
        })?;
        let (from, to) = info.data_offsets;
        let size = to.saturating_sub(from) as u64;
        if size > limits.tensor_bytes {
            return Err(Error::TooLarge {
                path: path.to_path_buf(),
                what: format!("tensor `{name}`"),
                size,
                limit: limits.tensor_bytes,
                setting: "tensor_bytes",
            });
        }
        let bytes = read_part(&mut file, size)
            .map_err(|error| Error::tensor(path, &name, format!("cannot be read: {error}")))?;
        let tensor = TensorData::new(element, info.shape.clone(), bytes)
            .ok_or_else(|| Error::tensor(path, &name, "its data does not fit its shape"))?;
        state
            .insert(name.clone(), tensor)
            .map_err(|_| Error::tensor(path, &name, "its name stands twice"))?;
    }
    let metadata = header.metadata().clone().unwrap_or_default();
    Ok((state, metadata.into_iter().collect()))
}

/// Writes tensors as a safetensors file, completely or not at all: an existing file stays as it is until the new one is
/// on disk.
///
/// # Errors
/// An element type that the format lacks, or a folder that is missing, full or not writable.
pub fn write_safetensors(
    path: &Path,
    tensors: &StateDict,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let invalid = |error| Error::format(path, format!("the tensors cannot be written ({error})"));
    let mut views = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors.iter() {
        let view = TensorView::new(
            dtype(tensor.element()),
            tensor.shape().to_vec(),
            tensor.bytes(),
        )
        .map_err(invalid)?;
        views.push((name, view));
    }
    let metadata: HashMap<String, String> = metadata.clone().into_iter().collect();
    let metadata = (!metadata.is_empty()).then_some(metadata);
    let bytes = safetensors::serialize(views, metadata).map_err(invalid)?;
    write_atomically(path, |file| file.write_all(&bytes))
}

/// Reads and parses the header; `file` then stands at the first tensor.
fn read_header(path: &Path, file: &mut File, file_bytes: u64, limits: &Limits) -> Result<Metadata> {
    let mut length = Vec::new();
    file.take(LENGTH_BYTES)
        .read_to_end(&mut length)
        .map_err(Error::io("read", path))?;
    let Ok(length) = <[u8; 8]>::try_from(length) else {
        return Err(Error::format(
            path,
            format!("{file_bytes} bytes are too few for a safetensors file; it is truncated"),
        ));
    };
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > file_bytes.saturating_sub(LENGTH_BYTES) {
        return Err(Error::format(
            path,
            format!(
                "its header claims {header_bytes} bytes but the file has {file_bytes}; \
                 it is truncated or no safetensors file"
            ),
        ));
    }
    if header_bytes > limits.header_bytes {
        return Err(Error::TooLarge {
            path: path.to_path_buf(),
            what: "the header".into(),
            size: header_bytes,
            limit: limits.header_bytes,
            setting: "header_bytes",
        });
    }
    let header = read_part(file, header_bytes).map_err(Error::io("read", path))?;
    let data_bytes = file_bytes - LENGTH_BYTES - header_bytes;
    let parsed: Metadata = serde_json::from_slice(&header)
        .map_err(|error| explain(path, &header, data_bytes, &error.to_string()))?;
    if parsed.data_len() as u64 != data_bytes {
        return Err(explain(
            path,
            &header,
            data_bytes,
            "the data does not end with the file",
        ));
    }
    Ok(parsed)
}

/// A header entry with nothing checked.
#[derive(Deserialize)]
struct RawInfo {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Finds the tensor that made the parser refuse a file; the parser itself rarely names one.
fn explain(path: &Path, header: &[u8], data_bytes: u64, error: &str) -> Error {
    let general = || {
        Error::format(
            path,
            format!("this is not a valid safetensors file: {error}"),
        )
    };
    let Ok(serde_json::Value::Object(entries)) = serde_json::from_slice(header) else {
        return general();
    };
    let mut tensors = Vec::new();
    for (name, value) in entries {
        if name == "__metadata__" {
            continue;
        }
        match serde_json::from_value::<RawInfo>(value) {
            Ok(info) => tensors.push((name, info)),
            Err(problem) => {
                return Error::tensor(
                    path,
                    &name,
                    format!("its header entry is malformed: {problem}"),
                );
            }
        }
    }
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    let mut expected_from = 0;
    for (name, info) in &tensors {
        let (from, to) = info.data_offsets;
        let quoted = serde_json::Value::String(info.dtype.clone());
        let Ok(dtype) = serde_json::from_value::<Dtype>(quoted) else {
            return Error::tensor(
                path,
                name,
                format!("its element type `{}` is not known", info.dtype),
            );
        };
        if from != expected_from || to < from {
            let problem = if from < expected_from {
                "overlaps other data"
            } else {
                "leaves a gap"
            };
            return Error::tensor(
                path,
                name,
                format!(
                    "its data range {from}..{to} {problem}; expected to start at {expected_from}"
                ),
            );
        }
        let bits = info
            .shape
            .iter()
            .try_fold(dtype.bitsize() as u64, |bits, &dim| bits.checked_mul(dim));
        if bits != (to - from).checked_mul(8) {
            return Error::tensor(
                path,
                name,
                format!(
                    "shape {:?} of {} does not take the {} bytes of its data range",
                    info.shape,
                    info.dtype,
                    to - from
                ),
            );
        }
        expected_from = to;
    }
    if expected_from != data_bytes {
        let state = if data_bytes < expected_from {
            "it is truncated"
        } else {
            "it has extra data"
        };
        return Error::format(
            path,
            format!(
                "the header describes {expected_from} bytes of data, the file has {data_bytes}; {state}"
            ),
        );
    }
    general()
}

fn element_type(dtype: Dtype) -> Option<ElementType> {
    Some(match dtype {
        Dtype::F64 => ElementType::F64,
        Dtype::F32 => ElementType::F32,
        Dtype::F16 => ElementType::F16,
        Dtype::BF16 => ElementType::BF16,
        Dtype::I64 => ElementType::I64,
        Dtype::I32 => ElementType::I32,
        Dtype::I16 => ElementType::I16,
        Dtype::I8 => ElementType::I8,
        Dtype::U32 => ElementType::U32,
        Dtype::U8 => ElementType::U8,
        Dtype::BOOL => ElementType::Bool,
        _ => return None,
    })
}

fn dtype(element: ElementType) -> Dtype {
    match element {
        ElementType::F64 => Dtype::F64,
        ElementType::F32 => Dtype::F32,
        ElementType::F16 => Dtype::F16,
        ElementType::BF16 => Dtype::BF16,
        ElementType::I64 => Dtype::I64,
        ElementType::I32 => Dtype::I32,
        ElementType::I16 => Dtype::I16,
        ElementType::I8 => Dtype::I8,
        ElementType::U32 => Dtype::U32,
        ElementType::U8 => Dtype::U8,
        ElementType::Bool => Dtype::BOOL,
    }
}
