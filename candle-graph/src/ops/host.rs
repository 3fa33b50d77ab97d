//! CPU tensors as slices.

use std::ops::Deref;

use candle_core::{CpuStorage, Layout, Result, Storage, StorageRef, Tensor, bail};

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
        Self::of_range(tensor, storage, start, end)
    }

    /// The values `start..end` of `storage`, which is `tensor`'s.
    fn of_range(
        tensor: &Tensor,
        storage: StorageRef<'a>,
        start: usize,
        end: usize,
    ) -> Result<Self> {
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
            // `of_range` has seen the variant and the lock keeps it.
            _ => &[],
        }
    }
}

/// The values of a contiguous f32 CPU tensor for an operation that works in place; `operation`
/// names it in messages.
pub(super) fn values_mut<'a>(
    storage: &'a mut CpuStorage,
    layout: &Layout,
    operation: &str,
) -> Result<&'a mut [f32]> {
    let CpuStorage::F32(values) = storage else {
        bail!("{operation}: the tensor is not f32");
    };
    let range = layout.contiguous_offsets();
    match range.and_then(|(start, end)| values.get_mut(start..end)) {
        Some(values) => Ok(values),
        None => bail!("{operation}: the tensor is not contiguous"),
    }
}

/// The rows of an f32 CPU matrix whose columns are adjacent (a matrix, or some columns of a wider
/// one), locked for reading while this lives.
pub(super) struct HostRows<'a> {
    values: HostF32<'a>,
    stride: usize,
}

impl<'a> HostRows<'a> {
    /// Locks `tensor` for reading.
    pub(super) fn new(tensor: &'a Tensor) -> Result<Self> {
        let (rows, columns) = tensor.dims2()?;
        let (storage, layout) = tensor.storage_and_layout();
        let &[stride, 1] = layout.stride() else {
            bail!(
                "expected adjacent columns, found strides {:?}",
                layout.stride()
            );
        };
        // A view without rows may start behind the last value.
        let (start, end) = match rows.checked_sub(1) {
            Some(before) => {
                let start = layout.start_offset();
                (start, start + before * stride + columns)
            }
            None => (0, 0),
        };
        Ok(Self {
            values: HostF32::of_range(tensor, storage, start, end)?,
            stride,
        })
    }

    /// Distance of a row from the one before.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }
}

impl Deref for HostRows<'_> {
    type Target = [f32];

    /// From the first value of the first row to the last of the last.
    fn deref(&self) -> &[f32] {
        &self.values
    }
}
