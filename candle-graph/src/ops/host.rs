//! Reading CPU tensors as slices.

use std::ops::Deref;

use candle_core::{CpuStorage, Result, Storage, StorageRef, Tensor, bail};

/// The values of a contiguous f32 CPU tensor, locked for reading while this lives.
pub(super) struct HostF32<'a> {
    storage: StorageRef<'a>,
    start: usize,
    end: usize,
}

impl<'a> HostF32<'a> {
    /// Locks `tensor` for reading.
    pub(super) fn new(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!(
                "expected a contiguous tensor, found strides {:?}",
                layout.stride()
            );
        };
        match &*storage {
            Storage::Cpu(CpuStorage::F32(values)) if end <= values.len() => {}
            _ => bail!(
                "expected an f32 tensor on the CPU, found {:?}",
                tensor.dtype()
            ),
        }
        Ok(Self {
            storage,
            start,
            end,
        })
    }
}

impl Deref for HostF32<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(values)) => &values[self.start..self.end],
            // `new` has seen the variant and the lock keeps it.
            _ => &[],
        }
    }
}
