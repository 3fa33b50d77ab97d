//! Tensors as views of storages: what `torch._utils._rebuild_tensor_v2` describes, and how such a view is gathered.

use crate::pickle::{Node, NodeId, Tree};
use crate::state_dict::{ElementType, TensorData};
use crate::strided::{element_count, gather};

/// Most dimensions that a tensor may have; PyTorch itself allows 64.
const MAX_RANK: usize = 64;

/// A strided view of one storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    /// Name of the storage's raw entry.
    pub(super) key: String,
    pub(super) element: ElementType,
    /// Elements of the whole storage.
    storage_len: usize,
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl View {
    /// Reads the description of a tensor; the error says what in it cannot be used.
    pub(super) fn from_tree(tree: &Tree, id: NodeId) -> Result<Self, String> {
        let mut id = id;
        // A parameter wraps its tensor; a wrapped wrapper does not occur.
        if let Some(("torch._utils", "_rebuild_parameter", &[data, ..], _)) = tree.call(id) {
            id = data;
        }
        let args = match tree.call(id) {
            Some(("torch._utils", "_rebuild_tensor_v2", args, _)) => args,
            _ => {
                return Err(format!(
                    "expected a plain tensor, found {}; only tensors are read and nothing is ever executed",
                    tree.describe(id)
                ));
            }
        };
        let &[storage, offset, shape, strides, ..] = args else {
            return Err("its description has too few arguments".into());
        };
        let (key, element, storage_len) = storage_reference(tree, storage)?;
        let view = Self {
            key,
            element,
            storage_len,
            offset: tree
                .extent(offset)
                .ok_or("its storage offset is negative or no integer")?,
            shape: extents(tree, shape).ok_or("its shape is no tuple of non-negative integers")?,
            strides: extents(tree, strides)
                .ok_or("its strides are no tuple of non-negative integers")?,
        };
        view.check()?;
        Ok(view)
    }

    /// Bytes of the whole storage, `None` on overflow.
    pub(super) fn storage_bytes(&self) -> Option<u64> {
        let bytes = self.storage_len.checked_mul(self.element.size())?;
        u64::try_from(bytes).ok()
    }

    /// Bytes of the gathered tensor, `None` on overflow.
    pub(super) fn bytes(&self) -> Option<u64> {
        let count = element_count(&self.shape)?;
        u64::try_from(count.checked_mul(self.element.size())?).ok()
    }

    fn check(&self) -> Result<(), String> {
        if self.shape.len() != self.strides.len() {
            return Err(format!(
                "it has {} dimensions but {} strides",
                self.shape.len(),
                self.strides.len()
            ));
        }
        if self.shape.len() > MAX_RANK {
            return Err(format!("it has more than {MAX_RANK} dimensions"));
        }
        self.bytes()
            .ok_or_else(|| format!("its shape {:?} overflows", self.shape))?;
        if self.shape.contains(&0) {
            return Ok(());
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |at, (&dim, &stride)| {
                at.checked_add(dim.checked_sub(1)?.checked_mul(stride)?)
            })
            .ok_or_else(|| {
                format!(
                    "shape {:?} with strides {:?} overflows",
                    self.shape, self.strides
                )
            })?;
        if last >= self.storage_len {
            return Err(format!(
                "it reaches element {last} of a storage of {} elements",
                self.storage_len
            ));
        }
        Ok(())
    }

    /// Copies the view out of its storage, whose length the caller has compared with [`Self::storage_bytes`].
    pub(super) fn gather(&self, storage: &[u8]) -> Result<TensorData, String> {
        let size = self.element.size();
        let bytes = gather(storage, size, self.offset, &self.shape, &self.strides)?;
        if self.element == ElementType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err("a bool is neither 0 nor 1".into());
        }
        TensorData::new(self.element, self.shape.clone(), bytes)
            .ok_or_else(|| "its bytes do not fit its shape".into())
    }
}

/// Key, element type and length of the storage that a persistent id `("storage", type, key, device, length)` names.
fn storage_reference(tree: &Tree, id: NodeId) -> Result<(String, ElementType, usize), String> {
    let malformed = || {
        format!(
            "its storage should be an external reference, found {}",
            tree.describe(id)
        )
    };
    let Node::Persistent(reference) = tree.node(id) else {
        return Err(malformed());
    };
    let Some(&[tag, class, key, _device, length, ..]) = tree.tuple(*reference) else {
        return Err("its storage reference is malformed".into());
    };
    if tree.str(tag) != Some("storage") {
        return Err("its storage reference is malformed".into());
    }
    let element = match tree.global(class) {
        Some(("torch", "DoubleStorage")) => ElementType::F64,
        Some(("torch", "FloatStorage")) => ElementType::F32,
        Some(("torch", "HalfStorage")) => ElementType::F16,
        Some(("torch", "BFloat16Storage")) => ElementType::BF16,
        Some(("torch", "LongStorage")) => ElementType::I64,
        Some(("torch", "IntStorage")) => ElementType::I32,
        Some(("torch", "ShortStorage")) => ElementType::I16,
        Some(("torch", "CharStorage")) => ElementType::I8,
        Some(("torch", "ByteStorage")) => ElementType::U8,
        Some(("torch", "BoolStorage")) => ElementType::Bool,
        _ => {
            return Err(format!(
                "its storage type is {}, which is not supported (supported: real floats of 16 to 64 bits, \
                 signed integers, bytes and bools)",
                tree.describe(class)
            ));
        }
    };
    let key = tree.str(key).ok_or("its storage key is no text")?;
    let plain =
        !key.is_empty() && key.len() <= 64 && key.bytes().all(|b| b.is_ascii_alphanumeric());
    if !plain {
        return Err("its storage key is not a plain name".into());
    }
    let length = tree
        .extent(length)
        .ok_or("its storage length is negative or no integer")?;
    Ok((key.to_string(), element, length))
}

/// A tuple, list or `torch.Size` of non-negative integers.
fn extents(tree: &Tree, id: NodeId) -> Option<Vec<usize>> {
    // A longer one is refused for its rank before it is worth collecting.
    match tree.call(id) {
        Some(("torch", "Size", &[sizes], _)) => tree.extents(sizes, MAX_RANK),
        _ => tree.extents(id, MAX_RANK),
    }
}
