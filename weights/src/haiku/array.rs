//! NumPy and jax arrays as their `__reduce__` describes them.

use crate::pickle::{Node, NodeId, Tree};
use crate::state_dict::{ElementType, TensorData};
use crate::strided::{element_count, fortran_strides, gather};

/// Most dimensions that an array may have; NumPy itself allows 64.
const MAX_RANK: usize = 64;

/// An array whose bytes are still those of the stream.
#[derive(Debug)]
pub(super) struct Array<'a> {
    element: ElementType,
    big_endian: bool,
    shape: Vec<usize>,
    /// Whether the first index runs fastest.
    fortran: bool,
    data: &'a [u8],
}

impl<'a> Array<'a> {
    /// Reads the description of an array; the error says what in it cannot be used.
    pub(super) fn from_tree(tree: &'a Tree, id: NodeId) -> Result<Self, String> {
        let refuse = || {
            format!(
                "expected an array, found {}; only NumPy and jax arrays are read and nothing is \
                 ever executed",
                tree.describe(id)
            )
        };
        let (module, name, args, call) = tree.call(id).ok_or_else(refuse)?;
        let array = match (module, name, args) {
            // jax keeps the parts of NumPy's own description; the last part is its type.
            ("jax._src.array", "_reconstruct_array", &[function, args, state, _])
            | ("jax._src.device_array", "reconstruct_device_array", &[function, args, state, _]) => {
                let args = tree.tuple(args).ok_or("its description is malformed")?;
                match tree.global(function) {
                    Some((module, "_reconstruct")) if is_multiarray(module) => {
                        Self::reconstructed(tree, args, Some(state))
                    }
                    _ => Err(format!(
                        "its description names {}, which is no array constructor",
                        tree.describe(function)
                    )),
                }
            }
            (module, "_reconstruct", args) if is_multiarray(module) => {
                Self::reconstructed(tree, args, call.state)
            }
            (module, "scalar", &[dtype, data]) if is_multiarray(module) => {
                let (element, big_endian) = element_type(tree, dtype)?;
                Self::new(tree, element, big_endian, Vec::new(), false, data)
            }
            // Protocol 5.
            (
                "numpy.core.numeric" | "numpy._core.numeric",
                "_frombuffer",
                &[data, dtype, shape, order],
            ) => {
                let (element, big_endian) = element_type(tree, dtype)?;
                let fortran = match tree.str(order) {
                    Some("C") => false,
                    Some("F") => true,
                    _ => return Err("its order is neither C nor F".into()),
                };
                let shape = shape_of(tree, shape)?;
                Self::new(tree, element, big_endian, shape, fortran, data)
            }
            _ => Err(refuse()),
        }?;
        Ok(array)
    }

    /// `_reconstruct(numpy.ndarray, (0,), b"b")` with the state
    /// `(version, shape, dtype, is_fortran, data)`.
    fn reconstructed(
        tree: &'a Tree,
        args: &[NodeId],
        state: Option<NodeId>,
    ) -> Result<Self, String> {
        let class = args.first().and_then(|&class| tree.global(class));
        if class != Some(("numpy", "ndarray")) {
            let found = args
                .first()
                .map_or("nothing".into(), |&id| tree.describe(id));
            return Err(format!(
                "its class should be `numpy.ndarray`, found {found}"
            ));
        }
        let state = state.and_then(|state| tree.tuple(state));
        let Some(&[_version, shape, dtype, fortran, data]) = state else {
            return Err("its description has no shape, type and data".into());
        };
        let (element, big_endian) = element_type(tree, dtype)?;
        let fortran = match tree.node(fortran) {
            Node::Bool(fortran) => *fortran,
            Node::Int(0) => false,
            Node::Int(1) => true,
            _ => return Err("its order is neither true nor false".into()),
        };
        Self::new(
            tree,
            element,
            big_endian,
            shape_of(tree, shape)?,
            fortran,
            data,
        )
    }

    fn new(
        tree: &'a Tree,
        element: ElementType,
        big_endian: bool,
        shape: Vec<usize>,
        fortran: bool,
        data: NodeId,
    ) -> Result<Self, String> {
        let data = tree
            .bytes(data)
            .ok_or_else(|| format!("its data should be bytes, found {}", tree.describe(data)))?;
        let expected = element_count(&shape)
            .and_then(|count| count.checked_mul(element.size()))
            .ok_or_else(|| format!("its shape {shape:?} overflows"))?;
        if expected != data.len() {
            return Err(format!(
                "its shape {shape:?} takes {expected} bytes, but {} are there",
                data.len()
            ));
        }
        Ok(Self {
            element,
            big_endian,
            shape,
            fortran,
            data,
        })
    }

    /// Bytes of the tensor, which the stream holds as they are.
    pub(super) fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Copies the array out of the stream: row-major and little-endian.
    pub(super) fn gather(&self) -> Result<TensorData, String> {
        let size = self.element.size();
        let mut bytes = if self.fortran {
            let strides = fortran_strides(&self.shape).ok_or("its shape overflows")?;
            gather(self.data, size, 0, &self.shape, &strides)?
        } else {
            let mut bytes = Vec::new();
            bytes
                .try_reserve_exact(self.data.len())
                .map_err(|_| format!("there is no memory for its {} bytes", self.data.len()))?;
            bytes.extend_from_slice(self.data);
            bytes
        };
        if self.big_endian {
            bytes.chunks_mut(size).for_each(<[u8]>::reverse);
        }
        if self.element == ElementType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err("a bool is neither 0 nor 1".into());
        }
        TensorData::new(self.element, self.shape.clone(), bytes)
            .ok_or_else(|| "its bytes do not fit its shape".into())
    }
}

/// NumPy 2 renamed its inner modules.
fn is_multiarray(module: &str) -> bool {
    ["numpy.core.multiarray", "numpy._core.multiarray"].contains(&module)
}

fn shape_of(tree: &Tree, id: NodeId) -> Result<Vec<usize>, String> {
    tree.extents(id, MAX_RANK)
        .ok_or_else(|| format!("its shape is no tuple of at most {MAX_RANK} non-negative integers"))
}

/// Element type, and whether its bytes are big-endian, of a call
/// `numpy.dtype(kind, align, copy)` with the state `(version, byte order, subarray, names, fields, …)`.
fn element_type(tree: &Tree, id: NodeId) -> Result<(ElementType, bool), String> {
    let Some(("numpy", "dtype", &[kind, ..], call)) = tree.call(id) else {
        return Err(format!(
            "its element type should be a `numpy.dtype`, found {}",
            tree.describe(id)
        ));
    };
    let element = match (tree.str(kind), tree.global(kind)) {
        (Some("f8"), _) => ElementType::F64,
        (Some("f4"), _) => ElementType::F32,
        (Some("f2"), _) => ElementType::F16,
        (_, Some(("ml_dtypes", "bfloat16"))) => ElementType::BF16,
        (Some("i8"), _) => ElementType::I64,
        (Some("i4"), _) => ElementType::I32,
        (Some("i2"), _) => ElementType::I16,
        (Some("i1"), _) => ElementType::I8,
        (Some("u4"), _) => ElementType::U32,
        (Some("u1"), _) => ElementType::U8,
        (Some("b1"), _) => ElementType::Bool,
        (kind_text, _) => {
            let found = match kind_text {
                Some(text) => format!("`{}`", text.chars().take(60).collect::<String>()),
                None => tree.describe(kind),
            };
            return Err(format!(
                "its element type is {found}, which is not supported (supported: real floats of 16 \
                 to 64 bits, signed integers, bytes, 32-bit unsigned integers and bools)"
            ));
        }
    };
    let state = call.state.and_then(|state| tree.tuple(state));
    let Some(&[_version, order, subarray, names, fields, ..]) = state else {
        return Err("its element type has no byte order".into());
    };
    let plain = |id| *tree.node(id) == Node::None;
    if !(plain(subarray) && plain(names) && plain(fields)) {
        return Err("its element type is a record or subarray, which is not supported".into());
    }
    match tree.str(order) {
        Some("<" | "|") => Ok((element, false)),
        Some(">") => Ok((element, true)),
        _ => Err("its byte order is neither `<` nor `>`".into()),
    }
}
