//! Hand-made Haiku checkpoints.

use candle_graph_weights::haiku::read_state_dict;
use candle_graph_weights::{Limits, Result, StateDict};

use super::{Pickle, file};

/// How a stream describes an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// jax from 0.4.
    Jax,
    /// jax before 0.4.
    DeviceArray,
    /// NumPy 1.
    Numpy,
    /// NumPy 2.
    Numpy2,
    /// NumPy with pickle protocol 5.
    FromBuffer,
}

impl Layout {
    pub const ALL: [Self; 5] = [
        Self::Jax,
        Self::DeviceArray,
        Self::Numpy,
        Self::Numpy2,
        Self::FromBuffer,
    ];

    /// An array with these bytes.
    pub fn array(
        self,
        pickle: Pickle,
        shape: &[i64],
        kind: &str,
        byte_order: &str,
        fortran: bool,
        data: &[u8],
    ) -> Pickle {
        let with_data = |p: Pickle| p.bytes(data);
        self.array_of(pickle, shape, kind, byte_order, fortran, with_data)
    }

    /// An array with whatever `data` pushes.
    pub fn array_of(
        self,
        pickle: Pickle,
        shape: &[i64],
        kind: &str,
        byte_order: &str,
        fortran: bool,
        data: impl Fn(Pickle) -> Pickle,
    ) -> Pickle {
        let state = |p: Pickle| {
            let p = p.raw(b"(").int(1).ints(shape).dtype(kind, byte_order);
            data(p.raw(if fortran { b"\x88" } else { b"\x89" })).raw(b"t")
        };
        let class_and_shape = |p: Pickle| {
            let p = p.raw(b"(").global("numpy", "ndarray").ints(&[0]);
            p.bytes(b"b").raw(b"t")
        };
        let jax = |module, name| {
            let p = (pickle.clone().global(module, name).raw(b"("))
                .global("numpy.core.multiarray", "_reconstruct");
            let p = state(class_and_shape(p)).raw(b"}(").str("weak_type");
            p.raw(b"\x89").str("named_shape").raw(b"}utR")
        };
        let numpy = |module| {
            let p = pickle.clone().global(module, "_reconstruct");
            state(class_and_shape(p).raw(b"R")).raw(b"b")
        };
        match self {
            Self::Jax => jax("jax._src.array", "_reconstruct_array"),
            Self::DeviceArray => jax("jax._src.device_array", "reconstruct_device_array"),
            Self::Numpy => numpy("numpy.core.multiarray"),
            Self::Numpy2 => numpy("numpy._core.multiarray"),
            Self::FromBuffer => {
                let p = pickle
                    .global("numpy._core.numeric", "_frombuffer")
                    .raw(b"(");
                let p = data(p).dtype(kind, byte_order).ints(shape);
                p.str(if fortran { "F" } else { "C" }).raw(b"tR")
            }
        }
    }
}

impl Pickle {
    /// `numpy.dtype(kind, False, True)` with its state.
    pub fn dtype(self, kind: &str, byte_order: &str) -> Self {
        self.dtype_of(|p| p.str(kind), byte_order)
    }

    /// The same, of whatever `kind` pushes.
    pub fn dtype_of(self, kind: impl Fn(Self) -> Self, byte_order: &str) -> Self {
        kind(self.global("numpy", "dtype").raw(b"("))
            .raw(b"\x89\x88tR(")
            .int(3)
            .str(byte_order)
            .raw(b"NNN")
            .int(-1)
            .int(-1)
            .int(0)
            .raw(b"tb")
    }
}

/// `{"params": {"module": {"w": w}}}`, open for more sections.
pub fn sections(w: &Pickle) -> Pickle {
    let p = Pickle::new()
        .raw(b"}")
        .str("params")
        .raw(b"}")
        .str("module");
    p.raw(b"}").str("w").raw(&w.0).raw(b"sss")
}

/// A whole checkpoint with this only parameter.
pub fn checkpoint(w: &Pickle) -> Vec<u8> {
    sections(w).stop()
}

/// Six floats as a 2 × 3 matrix.
pub fn matrix() -> Pickle {
    Layout::Jax.array(
        Pickle::new(),
        &[2, 3],
        "f4",
        "<",
        false,
        &super::counting(6),
    )
}

pub fn read(bytes: &[u8]) -> Result<StateDict> {
    let (_folder, path) = file("checkpoint.dill", bytes);
    read_state_dict(&path, &Limits::default())
}

/// The message with which these bytes are refused.
pub fn refusal(bytes: &[u8]) -> String {
    match read(bytes) {
        Ok(state) => panic!("read {} tensors instead of refusing", state.len()),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
pub fn assert_says(message: &str, parts: &[&str]) {
    super::assert_says_of("checkpoint.dill", message, parts);
}
