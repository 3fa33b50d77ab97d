//! Which implementation of an operation runs.

use std::cell::Cell;

use candle_core::{DType, Device, Tensor};

thread_local! {
    static REFERENCE_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with every operation of this thread on its reference implementation.
pub fn force_reference<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            REFERENCE_ONLY.set(self.0);
        }
    }
    let _restore = Restore(REFERENCE_ONLY.replace(true));
    body()
}

/// Whether [`force_reference`] is at work on this thread. Work that is handed to other threads does
/// not inherit it.
pub fn reference_is_forced() -> bool {
    REFERENCE_ONLY.get()
}

/// Whether the fused CPU path may take these tensors: f32, on the CPU, without gradients to track.
pub(super) fn fused_on_cpu<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    !REFERENCE_ONLY.get()
        && !kernels_take_cpu_tensors()
        && tensors
            .into_iter()
            .all(|t| t.device().is_cpu() && t.dtype() == DType::F32 && !t.track_op())
}

/// Whether the kernels of GPUs may take these tensors: on one GPU, all f32, all f16 or all bf16,
/// without gradients to track.
pub(super) fn fused_on_gpu<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> bool {
    if REFERENCE_ONLY.get() {
        return false;
    }
    let mut tensors = tensors.into_iter();
    let Some(first) = tensors.next() else {
        return false;
    };
    let device = match first.device() {
        Device::Cuda(_) => cfg!(feature = "cuda"),
        Device::Metal(_) => cfg!(feature = "metal"),
        Device::Cpu => kernels_take_cpu_tensors(),
    };
    device
        && matches!(first.dtype(), DType::F32 | DType::F16 | DType::BF16)
        && !first.track_op()
        && tensors.all(|t| {
            t.device().same_device(first.device()) && t.dtype() == first.dtype() && !t.track_op()
        })
}

/// Whether a test runs the kernels of GPUs on the CPU.
fn kernels_take_cpu_tensors() -> bool {
    #[cfg(test)]
    return super::kernels::host::is_active();
    #[cfg(not(test))]
    false
}
