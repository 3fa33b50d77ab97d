//! Named tensors as they come out of a file: host memory, plain bytes, original order.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};

use crate::error::Result;

/// Element type of a stored tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ElementType {
    /// 64-bit float.
    F64,
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 16-bit float with an 8-bit exponent.
    BF16,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 16-bit integer.
    I16,
    /// Signed 8-bit integer; becomes `I64` on a device, candle has no such type.
    I8,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 8-bit integer.
    U8,
    /// One byte an element, zero or one; becomes `U8` on a device.
    Bool,
}

impl ElementType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::BF16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::Bool => 1,
        }
    }

    /// The type that [`TensorData::to_tensor`] gives.
    pub fn dtype(self) -> DType {
        match self {
            Self::F64 => DType::F64,
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
            Self::I64 | Self::I8 => DType::I64,
            Self::I32 => DType::I32,
            Self::I16 => DType::I16,
            Self::U32 => DType::U32,
            Self::U8 | Self::Bool => DType::U8,
        }
    }
}

/// One tensor in host memory: contiguous (row-major), little-endian.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorData {
    element: ElementType,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl TensorData {
    /// A tensor of `shape` from its row-major little-endian `bytes`.
    ///
    /// `None` when the number of bytes is not what `element` and `shape` ask for.
    pub fn new(element: ElementType, shape: Vec<usize>, bytes: Vec<u8>) -> Option<Self> {
        let expected = shape
            .iter()
            .try_fold(element.size(), |size, &dim| size.checked_mul(dim))?;
        (expected == bytes.len()).then_some(Self {
            element,
            shape,
            bytes,
        })
    }

    /// An `F32` tensor of `shape`; `None` when the number of values does not fit.
    pub fn from_f32(shape: Vec<usize>, values: &[f32]) -> Option<Self> {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self::new(ElementType::F32, shape, bytes)
    }

    /// Copies a candle tensor of one of the [`ElementType`]s to the host.
    ///
    /// # Errors
    /// candle's own, and a candle message for a type that cannot be stored.
    pub fn from_tensor(tensor: &Tensor) -> Result<Self> {
        let element = match tensor.dtype() {
            DType::F64 => ElementType::F64,
            DType::F32 => ElementType::F32,
            DType::F16 => ElementType::F16,
            DType::BF16 => ElementType::BF16,
            DType::I64 => ElementType::I64,
            DType::I32 => ElementType::I32,
            DType::I16 => ElementType::I16,
            DType::U32 => ElementType::U32,
            DType::U8 => ElementType::U8,
            other => {
                return Err(candle_core::Error::Msg(format!(
                    "a tensor of type {other:?} cannot be stored"
                ))
                .into());
            }
        };
        let mut bytes = Vec::new();
        tensor.write_bytes(&mut bytes)?;
        Ok(Self {
            element,
            shape: tensor.dims().to_vec(),
            bytes,
        })
    }

    /// Element type.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Extents, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Row-major little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of elements.
    pub fn element_count(&self) -> usize {
        self.bytes.len() / self.element.size()
    }

    /// Whether every byte is zero: all values are zero (negative floating-point zeros do not count).
    pub fn is_all_zero(&self) -> bool {
        self.bytes.iter().all(|&byte| byte == 0)
    }

    /// Copies the tensor to `device`, with the type of [`ElementType::dtype`].
    ///
    /// # Errors
    /// candle's own: out of memory, or a type that the device does not have.
    pub fn to_tensor(&self, device: &Device) -> Result<Tensor> {
        if self.element == ElementType::I8 {
            let wide: Vec<i64> = self
                .bytes
                .iter()
                .map(|&byte| i64::from(i8::from_le_bytes([byte])))
                .collect();
            return Ok(Tensor::from_vec(wide, self.shape.as_slice(), device)?);
        }
        let dtype = self.element.dtype();
        // candle reads native byte order.
        if cfg!(target_endian = "big") {
            let native: Vec<u8> = self
                .bytes
                .chunks(self.element.size())
                .flat_map(|chunk| chunk.iter().rev().copied())
                .collect();
            return Ok(Tensor::from_raw_buffer(
                &native,
                dtype,
                &self.shape,
                device,
            )?);
        }
        Ok(Tensor::from_raw_buffer(
            &self.bytes,
            dtype,
            &self.shape,
            device,
        )?)
    }
}

/// Longest name of a tensor that the readers accept, in bytes: names are repeated in messages.
pub(crate) const MAX_NAME_BYTES: usize = 1024;

/// Tensors by name, in the order of their file.
#[derive(Debug, Clone, Default)]
pub struct StateDict {
    source: String,
    entries: Vec<(String, TensorData)>,
    positions: HashMap<String, usize>,
}

impl StateDict {
    /// An empty map; `source` is where the tensors come from (a path, usually), for messages.
    pub fn new(source: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            ..Self::default()
        }
    }

    /// Where the tensors come from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Adds a tensor under a new name. When the name is taken nothing changes and the tensor comes back.
    pub fn insert(&mut self, name: String, tensor: TensorData) -> Result<(), TensorData> {
        if self.positions.contains_key(&name) {
            return Err(tensor);
        }
        self.positions.insert(name.clone(), self.entries.len());
        self.entries.push((name, tensor));
        Ok(())
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Option<&TensorData> {
        let &position = self.positions.get(name)?;
        self.entries.get(position).map(|(_, tensor)| tensor)
    }

    /// Whether there is a tensor of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.positions.contains_key(name)
    }

    /// Names and tensors in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &TensorData)> {
        self.entries.iter().map(|(name, t)| (name.as_str(), t))
    }

    /// Names in file order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no tensors.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl IntoIterator for StateDict {
    type Item = (String, TensorData);
    type IntoIter = std::vec::IntoIter<(String, TensorData)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
