//! Kernels on the CPU, for checks: compiled by the machine's C compiler, with the threads of a group
//! as fibers (`host.h`). Every launch runs with the threads in three orders, on copies of its inputs
//! that lie among values that are not numbers; results must not depend on the order, and nothing may
//! be written outside of the outputs.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::process::Command;
use std::sync::{LazyLock, Mutex};

use candle_core::{CpuStorage, DType, Device, Error, Result, Storage, Tensor, bail};
use libloading::Library;

use super::source::{self, Compiler, Parameter};
use super::{Launch, Value, nvrtc, row_stride, start};

thread_local! {
    static EDIT: Cell<Option<Edit>> = const { Cell::new(None) };
}

/// A change that breaks kernels on purpose.
#[derive(Debug, Clone, Copy)]
struct Edit {
    from: &'static str,
    to: &'static str,
    /// Whether a kernel had the text.
    used: bool,
}

#[cfg(test)]
pub(in crate::ops) use crate::ops::on_kernels;

/// Checks that tests notice a broken kernel: runs `body` with `from` replaced by `to` in the kernels
/// that hold it. `body` gives the largest relative error of a result, or an error.
///
/// # Panics
/// The broken kernel gives the same, or no kernel that was run holds `from`.
#[cfg(test)]
pub(in crate::ops) fn assert_caught(
    from: &'static str,
    to: &'static str,
    body: impl FnOnce() -> Result<f64>,
) {
    EDIT.set(Some(Edit {
        from,
        to,
        used: false,
    }));
    let found = on_kernels(body);
    let used = EDIT.take().is_some_and(|edit| edit.used);
    assert!(used, "no kernel that was run holds {from:?}");
    // Not a number is an error too.
    if let Ok(error) = found {
        assert!(
            error.is_nan() || error > 1e-3,
            "{from:?} -> {to:?} goes unnoticed: {error:e}"
        );
    }
}

type HostLaunch = unsafe extern "C" fn(*mut *mut c_void, *const u32, u32, *const u32) -> i32;

/// Values beside every tensor that are no numbers and must stay.
const GUARD: usize = 1024;

/// Compiled kernels by their text.
static LIBRARIES: LazyLock<Mutex<HashMap<String, &'static Library>>> =
    LazyLock::new(Mutex::default);

pub(super) fn run(launch: &Launch<'_>) -> Result<Vec<Tensor>> {
    let mut text = source::text(launch, Compiler::Host)?;
    if let Some(mut edit) = EDIT.get() {
        let body = text.find(launch.kernel.source).unwrap_or(0);
        let (head, kernel) = text.split_at(body);
        if kernel.contains(edit.from) {
            text = format!("{head}{}", kernel.replace(edit.from, edit.to));
            edit.used = true;
            EDIT.set(Some(edit));
        }
    }
    text += &entry(launch)?;
    // Broken on purpose, a kernel need not be one for CUDA.
    let for_cuda = match nvrtc::is_there() && EDIT.get().is_none() {
        true => Some(source::text(launch, Compiler::Cuda)?),
        false => None,
    };
    let library = library(launch.kernel.name, text, for_cuda)?;
    // SAFETY: every library is compiled from `host.h`, which defines the function with this type.
    let function = unsafe { library.get::<HostLaunch>(b"host_launch") }.map_err(Error::wrap)?;
    let mut first: Option<Vec<Vec<u8>>> = None;
    for order in orders(launch.threads) {
        let made = run_once(launch, *function, &order)?;
        match &first {
            None => first = Some(made),
            Some(first) if *first == made => {}
            Some(_) => bail!(
                "{}: the result depends on the order of threads",
                launch.kernel.name
            ),
        }
    }
    (launch.outputs.iter().zip(first.unwrap_or_default()))
        .map(|((shape, dtype), bytes)| {
            Tensor::from_raw_buffer(&bytes, *dtype, shape.dims(), &Device::Cpu)
        })
        .collect()
}

/// The threads in ascending order, in descending order, and shuffled.
fn orders(threads: usize) -> [Vec<u32>; 3] {
    let ascending: Vec<u32> = (0..threads as u32).collect();
    let descending = ascending.iter().rev().copied().collect();
    let mut shuffled = ascending.clone();
    let mut state = 1u64;
    for at in (1..shuffled.len()).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        shuffled.swap(at, (state >> 33) as usize % (at + 1));
    }
    [ascending, descending, shuffled]
}

/// The function that calls the kernel with arguments from a list of pointers.
fn entry(launch: &Launch<'_>) -> Result<String> {
    let name = launch.kernel.name;
    let parameters = source::parameters(launch.kernel.source, name)?;
    let arguments = parameters
        .iter()
        .enumerate()
        .map(|(i, parameter)| match parameter {
            Parameter::Out(_) | Parameter::In(_) => format!("arguments[{i}]"),
            Parameter::Value(of) => format!("*({of} *)arguments[{i}]"),
        });
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    Ok(format!(
        "static void host_entry(void **arguments) {{ {name}({arguments}); }}\n"
    ))
}

/// The compiled text, which stays loaded; `for_cuda` is the same kernel for NVRTC to judge.
fn library(name: &str, text: String, for_cuda: Option<String>) -> Result<&'static Library> {
    let mut libraries = LIBRARIES
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(library) = libraries.get(&text) {
        return Ok(library);
    }
    if let Some(text) = for_cuda {
        nvrtc::accepts(name, &text)?;
    }
    let folder = tempfile::tempdir()?;
    let (file, made) = (
        folder.path().join("kernel.c"),
        folder.path().join("kernel.so"),
    );
    std::fs::write(&file, &text)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args([
            "-std=c11",
            "-O1",
            "-w",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            "-o",
        ])
        .args([&made, &file])
        .arg("-lm")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => bail!("{name}: the C compiler {compiler:?} cannot be run: {error}"),
    };
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: the C compiler refuses it:\n{told}");
    }
    // SAFETY: the library has no initialisers; it was compiled a moment ago from `host.h` and a
    // kernel of this crate.
    let library = unsafe { Library::new(&made) }.map_err(Error::wrap)?;
    let library = &*Box::leak(Box::new(library));
    libraries.insert(text, library);
    Ok(library)
}

/// Bytes of a tensor among guards, aligned for every type.
struct Guarded {
    words: Vec<u64>,
    guard: Vec<u8>,
    length: usize,
}

impl Guarded {
    /// `bytes`, or so many bytes that are no numbers, of `dtype`.
    fn new(dtype: DType, length: usize, bytes: Option<&[u8]>) -> Self {
        let fill = match (dtype, bytes) {
            // As indices these do no harm beyond a wrong result.
            (DType::U32, _) => 0,
            (_, Some(_)) => 0x7f,
            // Not those of inputs: what is copied from beyond the one to beyond the other shows.
            (_, None) => 0x7d,
        };
        let guard: Vec<u8> = vec![fill; GUARD * 4];
        let total = length + 2 * guard.len();
        let mut made = Self {
            words: vec![0; total.div_ceil(8)],
            guard,
            length,
        };
        let (front, back) = (made.guard.len(), made.guard.len() + length);
        let guard = made.guard.clone();
        let all = made.bytes_mut();
        all[..front].copy_from_slice(&guard);
        match bytes {
            Some(bytes) => all[front..back].copy_from_slice(bytes),
            None => all[front..back].fill(fill),
        }
        all[back..back + front].copy_from_slice(&guard);
        made
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.words.len() * 8;
        // SAFETY: u64 values are plain bytes, `length` of them, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), length) }
    }

    fn pointer(&mut self) -> *mut c_void {
        let front = self.guard.len();
        self.bytes_mut()[front..].as_mut_ptr().cast()
    }

    /// The bytes between the guards, if these are as they were.
    fn finish(mut self) -> Option<Vec<u8>> {
        let (front, back) = (self.guard.len(), self.guard.len() + self.length);
        let guard = self.guard.clone();
        let all = self.bytes_mut();
        let intact = all[..front] == guard && all[back..back + front] == guard;
        intact.then(|| all[front..back].to_vec())
    }
}

/// Bytes of a CPU tensor from its first value to its last.
fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        bail!("a tensor that is not on the CPU");
    };
    let start = start(layout);
    let range = match (layout.is_contiguous(), layout.dims()) {
        (false, &[rows, columns]) if rows > 0 => {
            start..start + (rows - 1) * row_stride(tensor) + columns
        }
        _ => start..start + layout.shape().elem_count(),
    };
    Ok(match storage {
        CpuStorage::F32(values) => values[range].iter().flat_map(|v| v.to_le_bytes()).collect(),
        CpuStorage::U32(values) => values[range].iter().flat_map(|v| v.to_le_bytes()).collect(),
        CpuStorage::F16(values) => values[range].iter().flat_map(|v| v.to_le_bytes()).collect(),
        CpuStorage::BF16(values) => values[range].iter().flat_map(|v| v.to_le_bytes()).collect(),
        _ => bail!("a tensor of {:?}", tensor.dtype()),
    })
}

fn run_once(launch: &Launch<'_>, function: HostLaunch, order: &[u32]) -> Result<Vec<Vec<u8>>> {
    let name = launch.kernel.name;
    let outputs = launch.outputs.iter().map(|(shape, dtype)| {
        Ok(Guarded::new(
            *dtype,
            shape.elem_count() * dtype.size_in_bytes(),
            None,
        ))
    });
    let inputs = launch.inputs.iter().map(|input| {
        let bytes = bytes(input)?;
        Ok(Guarded::new(input.dtype(), bytes.len(), Some(&bytes)))
    });
    let mut tensors = outputs.chain(inputs).collect::<Result<Vec<_>>>()?;
    let mut values: Vec<u32> = (launch.values.iter())
        .map(|value| match value {
            Value::U32(value) => *value,
            Value::F32(value) => value.to_bits(),
        })
        .collect();
    let mut arguments: Vec<*mut c_void> = tensors.iter_mut().map(Guarded::pointer).collect();
    arguments.extend(
        values
            .iter_mut()
            .map(|value| std::ptr::from_mut(value).cast()),
    );
    let groups = launch.groups.map(|groups| groups as u32);
    // SAFETY: the arguments are those of the kernel, as `source::text` has checked, and point to
    // buffers that live until after the call; `order` has one entry a thread.
    let line = unsafe {
        function(
            arguments.as_mut_ptr(),
            groups.as_ptr(),
            launch.threads as u32,
            order.as_ptr(),
        )
    };
    match line {
        0 => {}
        -1 => bail!("{name}: no memory for {} threads", launch.threads),
        line => bail!("{name}: not all threads reach the barrier or shuffle of line {line}"),
    }
    let made = tensors
        .into_iter()
        .map(Guarded::finish)
        .collect::<Option<Vec<_>>>();
    match made {
        Some(mut made) => {
            made.truncate(launch.outputs.len());
            Ok(made)
        }
        None => bail!("{name}: something was written outside of a tensor"),
    }
}
