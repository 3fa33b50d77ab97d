//! Which implementation of an operation runs.

use std::cell::Cell;

use candle_core::{DType, Device, Tensor};

/// What this thread runs instead of the fastest implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    Reference,
    #[cfg(any(test, feature = "host-kernels"))]
    KernelsOnHost,
}

thread_local! {
    static FORCED: Cell<Option<Forced>> = const { Cell::new(None) };
}

fn force<R>(forced: Forced, body: impl FnOnce() -> R) -> R {
    struct Restore(Option<Forced>);
    impl Drop for Restore {
        fn drop(&mut self) {
            FORCED.set(self.0);
        }
    }
    let _restore = Restore(FORCED.replace(Some(forced)));
    body()
}

/// Runs `body` with every operation of this thread on its reference implementation.
pub fn force_reference<R>(body: impl FnOnce() -> R) -> R {
    force(Forced::Reference, body)
}

/// Runs `body` with the kernels of GPUs on this thread's CPU tensors: compiled by the machine's C
/// compiler, every group of threads in three orders, among guards that notice what is read or written
/// outside of a tensor. Thousands of times slower than a GPU; for checks.
#[cfg(any(test, feature = "host-kernels"))]
pub fn on_kernels<R>(body: impl FnOnce() -> R) -> R {
    force(Forced::KernelsOnHost, body)
}

/// Whether this thread is told what to run, by [`force_reference`] for example. Work that is handed
/// to other threads does not inherit it.
pub fn implementation_is_forced() -> bool {
    FORCED.get().is_some()
}

/// Whether the fused CPU path may take these tensors: f32, on the CPU, without gradients to track.
pub(super) fn fused_on_cpu<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    !implementation_is_forced()
        && tensors
            .into_iter()
            .all(|t| t.device().is_cpu() && t.dtype() == DType::F32 && !t.track_op())
}

/// Whether tensors of `device` are worked on by the kernels of GPUs: it is one, and nothing else is
/// forced; or a check runs them on the CPU.
pub fn runs_kernels(device: &Device) -> bool {
    match device {
        Device::Cuda(_) => cfg!(feature = "cuda") && !implementation_is_forced(),
        Device::Metal(_) => cfg!(feature = "metal") && !implementation_is_forced(),
        #[cfg(any(test, feature = "host-kernels"))]
        Device::Cpu => FORCED.get() == Some(Forced::KernelsOnHost),
        #[cfg(not(any(test, feature = "host-kernels")))]
        Device::Cpu => false,
    }
}

/// Whether the kernels of GPUs may take these tensors: on one GPU, all f32, all f16 or all bf16,
/// without gradients to track.
pub(super) fn fused_on_gpu<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    let mut tensors = tensors.into_iter();
    let Some(first) = tensors.next() else {
        return false;
    };
    runs_kernels(first.device())
        && matches!(first.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && !first.track_op()
        && tensors.all(|t| {
            t.device().same_device(first.device()) && t.dtype() == first.dtype() && !t.track_op()
        })
}
