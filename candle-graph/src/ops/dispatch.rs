//! Which implementation of an operation runs.

use std::cell::Cell;

use candle_core::{DType, Tensor};

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
        && tensors
            .into_iter()
            .all(|t| t.device().is_cpu() && t.dtype() == DType::F32 && !t.track_op())
}
