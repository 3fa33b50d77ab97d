//! Kernels on Metal devices, compiled from source when they are first used. Checked by types and run
//! by the tests as C; nobody has run them on Apple hardware yet.

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};

use candle_core::{DType, Error, MetalDevice, MetalStorage, Result, Storage, Tensor, bail};
use candle_metal_kernels::metal::{ComputeCommandEncoder, ComputePipeline};
use objc2_metal::{MTLCompileOptions, MTLMathMode, MTLSize};

use super::source::{self, Compiler, Key};
use super::{Launch, Value, start};

/// Kernels by device (its registry number) and by what they were compiled for.
static COMPILED: LazyLock<RwLock<HashMap<(u64, Key), ComputePipeline>>> =
    LazyLock::new(RwLock::default);

fn compiled(launch: &Launch<'_>, device: &MetalDevice) -> Result<ComputePipeline> {
    let key = (device.metal_device().registry_id(), launch.key());
    let known = COMPILED
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(pipeline) = known.get(&key) {
        return Ok(pipeline.clone());
    }
    drop(known);
    let name = launch.kernel.name;
    let text = source::text(launch, Compiler::Metal)?;
    let options = MTLCompileOptions::new();
    // Infinities and values that are not numbers must mean what they mean elsewhere.
    options.setMathMode(MTLMathMode::Safe);
    let metal = device.metal_device();
    let pipeline = metal
        .new_library_with_source(&text, Some(&options))
        .and_then(|library| library.get_function(name, None))
        .and_then(|function| metal.new_compute_pipeline_state_with_function(&function))
        .map_err(|error| Error::Msg(format!("{name}: Metal refuses it: {error}")))?;
    let mut known = COMPILED
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    Ok(known.entry(key).or_insert(pipeline).clone())
}

pub(super) fn run(launch: &Launch<'_>, device: &MetalDevice) -> Result<Vec<Tensor>> {
    let name = launch.kernel.name;
    let pipeline = compiled(launch, device)?;
    let outputs = (launch.outputs.iter())
        .map(|(shape, dtype)| device.new_buffer(shape.elem_count().max(1), *dtype, name))
        .collect::<Result<Vec<_>>>()?;
    let locked: Vec<_> = launch
        .inputs
        .iter()
        .map(|input| input.storage_and_layout())
        .collect();
    let commands = device.command_encoder()?;
    let encoder: &ComputeCommandEncoder = commands.as_ref();
    encoder.set_compute_pipeline_state(&pipeline);
    // Declared as an output, so that later kernels wait for it.
    for (at, output) in outputs.iter().enumerate() {
        encoder.set_output_buffer(at, Some(output), 0);
    }
    for (at, (storage, layout)) in locked.iter().enumerate() {
        let Storage::Metal(storage) = &**storage else {
            bail!("{name}: an input that is not on the Metal device");
        };
        let offset = start(layout) * storage_size(storage);
        encoder.set_input_buffer(outputs.len() + at, Some(storage.buffer()), offset);
    }
    for (at, value) in launch.values.iter().enumerate() {
        let at = outputs.len() + locked.len() + at;
        match value {
            Value::U32(value) => encoder.set_bytes(at, value),
            Value::F32(value) => encoder.set_bytes(at, value),
        }
    }
    let groups = MTLSize {
        width: launch.groups[0],
        height: launch.groups[1],
        depth: 1,
    };
    let threads = MTLSize {
        width: launch.threads,
        height: 1,
        depth: 1,
    };
    encoder.dispatch_thread_groups(groups, threads);
    drop(commands);
    Ok((outputs.into_iter().zip(launch.outputs))
        .map(|(buffer, (shape, dtype))| {
            let storage = MetalStorage::new(buffer, device.clone(), shape.elem_count(), *dtype);
            let no_gradient = candle_core::op::BackpropOp::none();
            Tensor::from_storage(Storage::Metal(storage), shape.clone(), no_gradient, false)
        })
        .collect())
}

/// Bytes of an element.
fn storage_size(storage: &MetalStorage) -> usize {
    use candle_core::backend::BackendStorage;
    let dtype: DType = storage.dtype();
    dtype.size_in_bytes()
}
