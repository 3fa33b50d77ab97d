//! Kernels on CUDA devices, compiled by NVRTC when they are first used.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, RwLock};

use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaView, LaunchConfig, PushKernelArg};
use candle_core::cuda_backend::cudarc::nvrtc;
use candle_core::cuda_backend::{CudaStorageSlice, WrapErr};
use candle_core::{CudaDevice, CudaStorage, DType, Error, Result, Storage, Tensor, bail};
use half::{bf16, f16};

use super::source::{self, Compiler, Key};
use super::{Launch, Value, start};

/// A kernel as PTX, and the name of its module on devices.
#[derive(Debug)]
struct Compiled {
    module: String,
    ptx: String,
}

/// Compiled kernels, of all devices: PTX is made for the oldest supported architecture and finished
/// by the driver.
static COMPILED: LazyLock<RwLock<HashMap<Key, Arc<Compiled>>>> = LazyLock::new(RwLock::default);

fn compiled(launch: &Launch<'_>) -> Result<Arc<Compiled>> {
    let key = launch.key();
    let known = COMPILED
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(compiled) = known.get(&key) {
        return Ok(compiled.clone());
    }
    drop(known);
    let text = source::text(launch, Compiler::Cuda)?;
    let options = nvrtc::CompileOptions {
        arch: Some("compute_80"),
        ..Default::default()
    };
    let ptx = match nvrtc::compile_ptx_with_opts(&text, options) {
        Ok(ptx) => ptx.to_src(),
        Err(error) => bail!("{}: NVRTC refuses it: {error:?}", key.name),
    };
    let module = format!("{}-{}", key.name, blake3::hash(text.as_bytes()).to_hex());
    let compiled = Arc::new(Compiled { module, ptx });
    let mut known = COMPILED
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(known.entry(key).or_insert(compiled).clone())
}

/// Memory of an output.
enum Made {
    F32(CudaSlice<f32>),
    F16(CudaSlice<f16>),
    BF16(CudaSlice<bf16>),
    U32(CudaSlice<u32>),
}

/// Memory of an input, from its first element on.
enum Read<'a> {
    F32(CudaView<'a, f32>),
    F16(CudaView<'a, f16>),
    BF16(CudaView<'a, bf16>),
    U32(CudaView<'a, u32>),
}

pub(super) fn run(launch: &Launch<'_>, device: &CudaDevice) -> Result<Vec<Tensor>> {
    let name = launch.kernel.name;
    let compiled = compiled(launch)?;
    let function = device.get_or_load_custom_func(name, &compiled.module, &compiled.ptx)?;
    let mut outputs = (launch.outputs.iter())
        .map(|(shape, dtype)| allocate(device, shape.elem_count().max(1), *dtype))
        .collect::<Result<Vec<_>>>()?;
    let locked: Vec<_> = launch
        .inputs
        .iter()
        .map(|input| input.storage_and_layout())
        .collect();
    let inputs = (locked.iter())
        .map(|(storage, layout)| match &**storage {
            Storage::Cuda(storage) => view(name, storage, start(layout)),
            _ => bail!("{name}: an input that is not on the CUDA device"),
        })
        .collect::<Result<Vec<_>>>()?;
    let mut arguments = function.builder();
    for output in &mut outputs {
        match output {
            Made::F32(slice) => arguments.arg(slice),
            Made::F16(slice) => arguments.arg(slice),
            Made::BF16(slice) => arguments.arg(slice),
            Made::U32(slice) => arguments.arg(slice),
        };
    }
    for input in &inputs {
        match input {
            Read::F32(view) => arguments.arg(view),
            Read::F16(view) => arguments.arg(view),
            Read::BF16(view) => arguments.arg(view),
            Read::U32(view) => arguments.arg(view),
        };
    }
    for value in launch.values {
        match value {
            Value::U32(value) => arguments.arg(value),
            Value::F32(value) => arguments.arg(value),
        };
    }
    let config = LaunchConfig {
        grid_dim: (launch.groups[0] as u32, launch.groups[1] as u32, 1),
        block_dim: (launch.threads as u32, 1, 1),
        shared_mem_bytes: 0,
    };
    // SAFETY: `source::text` has checked number and types of the arguments against the parameters
    // of the kernel, which the tests run with guards around every tensor.
    unsafe { arguments.launch(config) }.w()?;
    (outputs.into_iter().zip(launch.outputs))
        .map(|(made, (shape, _))| {
            let storage = match made {
                Made::F32(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
                Made::F16(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
                Made::BF16(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
                Made::U32(slice) => CudaStorage::wrap_cuda_slice(slice, device.clone()),
            };
            Ok(tensor(Storage::Cuda(storage), shape))
        })
        .collect()
}

fn tensor(storage: Storage, shape: &candle_core::Shape) -> Tensor {
    let no_gradient = candle_core::op::BackpropOp::none();
    Tensor::from_storage(storage, shape.clone(), no_gradient, false)
}

fn allocate(device: &CudaDevice, count: usize, dtype: DType) -> Result<Made> {
    // SAFETY: the kernel writes every element before anything reads it: the tests begin with
    // outputs that are not numbers.
    unsafe {
        Ok(match dtype {
            DType::F32 => Made::F32(device.alloc(count)?),
            DType::F16 => Made::F16(device.alloc(count)?),
            DType::BF16 => Made::BF16(device.alloc(count)?),
            DType::U32 => Made::U32(device.alloc(count)?),
            other => bail!("no kernels make {other:?}"),
        })
    }
}

fn view<'a>(name: &str, storage: &'a CudaStorage, start: usize) -> Result<Read<'a>> {
    Ok(match &storage.slice {
        CudaStorageSlice::F32(slice) => Read::F32(slice.slice(start..)),
        CudaStorageSlice::F16(slice) => Read::F16(slice.slice(start..)),
        CudaStorageSlice::BF16(slice) => Read::BF16(slice.slice(start..)),
        CudaStorageSlice::U32(slice) => Read::U32(slice.slice(start..)),
        _ => return Err(Error::Msg(format!("{name}: an input of another dtype"))),
    })
}
