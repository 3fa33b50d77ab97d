//! Kernels of GPUs. Every kernel is written once, in the subset of C that `common.h` describes, and
//! compiled by NVRTC for CUDA and by Metal's compiler for Apple devices when it is first used. The
//! tests compile the same source with the C compiler of the machine and run it on the CPU.
//!
//! A kernel is compiled for the numbers that shape its loops ([`Launch::constants`]) and for the
//! dtype of its tensors; sums are f32 whatever the dtype.

pub(super) mod columns;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(any(test, feature = "host-kernels"))]
pub(super) mod host;
#[cfg(feature = "metal")]
mod metal;
#[cfg(any(test, feature = "host-kernels"))]
mod nvrtc;
mod source;

use candle_core::{DType, Device, Layout, Result, Shape, Tensor, bail};

use super::strided_rows::has_strided_rows;
pub(super) use super::strided_rows::strided_rows;

/// Threads that run in step, on every device this is built for.
pub(super) const WARP: usize = 32;

/// Whether kernels can read a tensor: contiguous, or rows of adjacent columns that lie apart.
fn is_readable(tensor: &Tensor) -> bool {
    tensor.is_contiguous() || has_strided_rows(tensor)
}

/// [`strided_rows`] of `tensor`, or in its place a tensor that the kernel does not read.
pub(super) fn rows_or(tensor: Option<&Tensor>, unread: &Tensor) -> Result<Tensor> {
    match tensor {
        Some(tensor) => strided_rows(tensor),
        None => Ok(unread.clone()),
    }
}

/// Zeros, of no size too: devices need not give memory of no size.
pub(super) fn zeros(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    let shape = shape.into();
    let count = shape.elem_count();
    Tensor::zeros(count.max(1), dtype, device)?
        .narrow(0, 0, count)?
        .reshape(shape)
}

/// Where the elements of an input begin in its storage.
fn start(layout: &Layout) -> usize {
    // A view without elements may begin behind the last one.
    match layout.shape().elem_count() {
        0 => 0,
        _ => layout.start_offset(),
    }
}

/// Distance of a row of a matrix from the one before.
pub(super) fn row_stride(tensor: &Tensor) -> usize {
    tensor.stride().first().copied().unwrap_or(1)
}

/// A kernel: its function and the file that holds it.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Name of the function, and of the kernel in messages.
    pub(super) name: &'static str,
    /// Text of the file.
    pub(super) source: &'static str,
}

/// A number that is handed over at every launch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    U32(u32),
    F32(f32),
}

impl Value {
    /// A size or count as a value.
    ///
    /// # Errors
    /// It does not fit 32 bits.
    pub(super) fn count(count: usize) -> Result<Self> {
        match u32::try_from(count) {
            Ok(count) => Ok(Self::U32(count)),
            Err(_) => bail!("{count} is more than kernels can count"),
        }
    }
}

/// One run of a kernel. Its function has the outputs, the inputs and the values as parameters, in
/// this order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'a> {
    pub(super) kernel: &'static Kernel,
    /// What `scalar` is: f32, f16 or bf16.
    pub(super) dtype: DType,
    /// Macros that are numbers. Each combination is compiled once.
    pub(super) constants: &'a [(&'static str, usize)],
    /// Tensors that the kernel makes. It writes every element.
    pub(super) outputs: &'a [(Shape, DType)],
    /// Tensors that it reads, at least one: contiguous, or matrices of strided rows whose stride is
    /// among the values.
    pub(super) inputs: &'a [&'a Tensor],
    pub(super) values: &'a [Value],
    /// Number of groups in both directions.
    pub(super) groups: [usize; 2],
    /// Threads of a group, a multiple of [`WARP`] up to 1024.
    pub(super) threads: usize,
}

impl Launch<'_> {
    /// Runs the kernel on the device of its inputs and gives the outputs. Does not wait for it.
    ///
    /// # Errors
    /// Inputs of other layouts or on different devices, a kernel that does not compile, a
    /// device without memory.
    pub(super) fn run(&self) -> Result<Vec<Tensor>> {
        let name = self.kernel.name;
        let Some(first) = self.inputs.first() else {
            bail!("{name}: no inputs");
        };
        for input in self.inputs {
            if !is_readable(input) {
                bail!("{name}: an input of strides {:?}", input.stride());
            }
            if !input.device().same_device(first.device()) {
                bail!("{name}: inputs on different devices");
            }
        }
        // Kernels count elements in 32 bits.
        let of_inputs = (self.inputs.iter()).map(|input| match *input.dims() {
            [rows, columns] => rows.saturating_mul(row_stride(input).max(columns)),
            _ => input.elem_count(),
        });
        let of_outputs = self.outputs.iter().map(|(shape, _)| shape.elem_count());
        if let Some(count) = of_inputs.chain(of_outputs).find(|&n| n > u32::MAX as usize) {
            bail!("{name}: a tensor of {count} elements: use smaller batches");
        }
        if self.threads == 0 || !self.threads.is_multiple_of(WARP) || self.threads > 1024 {
            bail!("{name}: groups of {} threads", self.threads);
        }
        if self.groups[0] > i32::MAX as usize || self.groups[1] > u16::MAX as usize {
            bail!(
                "{name}: too many groups, {:?}: use smaller batches",
                self.groups
            );
        }
        if self.groups.contains(&0) {
            let empty =
                |(shape, dtype): &(Shape, DType)| zeros(shape.clone(), *dtype, first.device());
            return self.outputs.iter().map(empty).collect();
        }
        match first.device() {
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::run(self, device),
            #[cfg(feature = "metal")]
            Device::Metal(device) => metal::run(self, device),
            #[cfg(any(test, feature = "host-kernels"))]
            Device::Cpu => host::run(self),
            device => bail!("{name}: no kernels for {device:?}"),
        }
    }

    /// As [`run`](Self::run), of a kernel with so many outputs.
    ///
    /// # Errors
    /// As `run`.
    pub(super) fn run_for<const OUTPUTS: usize>(&self) -> Result<[Tensor; OUTPUTS]> {
        match self.run()?.try_into() {
            Ok(made) => Ok(made),
            Err(_) => bail!("{}: it does not make {OUTPUTS} tensors", self.kernel.name),
        }
    }

    /// As [`run`](Self::run), of a kernel with one output.
    ///
    /// # Errors
    /// As `run`.
    pub(super) fn run_for_one(&self) -> Result<Tensor> {
        let [made] = self.run_for()?;
        Ok(made)
    }

    /// What tells this compiled kernel from others.
    #[cfg(any(feature = "cuda", feature = "metal"))]
    fn key(&self) -> source::Key {
        source::Key {
            name: self.kernel.name,
            dtype: self.dtype,
            threads: self.threads,
            constants: self.constants.to_vec(),
        }
    }
}
