//! Segment offsets of ragged data.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use candle_core::{Device, Tensor};

use crate::error::{Error, Result};

/// Cumulative offsets of consecutive segments: segment `s` covers rows `ptr[s]..ptr[s + 1]`.
///
/// The offsets live on the host, where kernels plan their work; the forms that devices want (the
/// cumulative tensor, the segment number of every row) are made on first use and kept. Cloning is
/// cheap.
#[derive(Debug, Clone)]
pub struct Offsets {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ptr: Vec<u32>,
    device: Device,
    cumulative: OnceLock<Tensor>,
    segment_ids: OnceLock<Tensor>,
    tiles: Mutex<Vec<Arc<Tiles>>>,
}

/// The rows of every segment in tiles, which groups of a kernel take one by one.
#[derive(Debug)]
pub(crate) struct Tiles {
    size: usize,
    table: Tensor,
    per_segment: Offsets,
}

impl Tiles {
    /// Segment and first row of every tile, u32 `[tiles, 2]`.
    pub(crate) fn table(&self) -> &Tensor {
        &self.table
    }

    /// Number of tiles.
    pub(crate) fn len(&self) -> usize {
        self.per_segment.total()
    }

    /// Which tiles belong to every segment.
    pub(crate) fn per_segment(&self) -> &Offsets {
        &self.per_segment
    }
}

impl Offsets {
    /// Offsets of segments with the given lengths.
    ///
    /// # Errors
    /// The total does not fit 32-bit indices.
    pub fn from_lengths(lengths: impl IntoIterator<Item = usize>, device: &Device) -> Result<Self> {
        let mut total = 0u64;
        let mut ptr = vec![0u32];
        for length in lengths {
            total = total.saturating_add(length as u64);
            let end = u32::try_from(total).ok().filter(|&t| t < u32::MAX);
            ptr.push(end.ok_or_else(|| {
                Error::Batch(format!(
                    "{total} rows exceed 32-bit indices: use smaller batches"
                ))
            })?);
        }
        Ok(Self::from_ptr(ptr, device))
    }

    /// Offsets from a non-empty, non-decreasing list that starts at 0.
    fn from_ptr(ptr: Vec<u32>, device: &Device) -> Self {
        Self {
            inner: Arc::new(Inner {
                ptr,
                device: device.clone(),
                cumulative: OnceLock::new(),
                segment_ids: OnceLock::new(),
                tiles: Mutex::default(),
            }),
        }
    }

    /// Number of segments.
    pub fn num_segments(&self) -> usize {
        self.inner.ptr.len() - 1
    }

    /// Number of rows over all segments.
    pub fn total(&self) -> usize {
        self.inner.ptr.last().map_or(0, |&t| t as usize)
    }

    /// The cumulative offsets, `num_segments + 1` values.
    pub fn as_slice(&self) -> &[u32] {
        &self.inner.ptr
    }

    /// Rows of segment `s`.
    ///
    /// # Panics
    /// `s` is not a segment.
    pub fn range(&self, s: usize) -> Range<usize> {
        self.inner.ptr[s] as usize..self.inner.ptr[s + 1] as usize
    }

    /// The rows of every segment, in order.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = Range<usize>> + '_ {
        self.inner
            .ptr
            .windows(2)
            .map(|w| w[0] as usize..w[1] as usize)
    }

    /// The length of every segment, in order.
    pub fn lengths(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.ranges().map(|r| r.len())
    }

    /// The length of the longest segment.
    pub fn max_length(&self) -> usize {
        self.lengths().max().unwrap_or(0)
    }

    /// The device that the tensor forms are made on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// The cumulative offsets as a tensor, u32 `[num_segments + 1]`.
    pub fn cumulative(&self) -> candle_core::Result<&Tensor> {
        once(&self.inner.cumulative, || {
            Tensor::new(self.inner.ptr.as_slice(), &self.inner.device)
        })
    }

    /// The rows of every segment cut into tiles of at most `size` rows.
    pub(crate) fn tiles(&self, size: usize) -> candle_core::Result<Arc<Tiles>> {
        let mut known = (self.inner.tiles.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(tiles) = known.iter().find(|tiles| tiles.size == size) {
            return Ok(tiles.clone());
        }
        let mut table = Vec::new();
        for (segment, rows) in self.ranges().enumerate() {
            for first in rows.step_by(size.max(1)) {
                table.extend([segment as u32, first as u32]);
            }
        }
        let lengths = self.lengths().map(|length| length.div_ceil(size.max(1)));
        let per_segment =
            Self::from_lengths(lengths, &self.inner.device).map_err(candle_core::Error::wrap)?;
        let table = Tensor::from_vec(table, (per_segment.total(), 2), &self.inner.device)?;
        let tiles = Arc::new(Tiles {
            size,
            table,
            per_segment,
        });
        known.push(tiles.clone());
        Ok(tiles)
    }

    /// The segment of every row as a tensor, u32 `[total]`.
    pub fn segment_ids(&self) -> candle_core::Result<&Tensor> {
        once(&self.inner.segment_ids, || {
            let mut ids = Vec::with_capacity(self.total());
            for (s, length) in self.lengths().enumerate() {
                ids.resize(ids.len() + length, s as u32);
            }
            Tensor::from_vec(ids, self.total(), &self.inner.device)
        })
    }
}

/// `OnceLock::get_or_try_init` for the stable library; a lost race only drops a duplicate.
fn once(
    cell: &OnceLock<Tensor>,
    make: impl FnOnce() -> candle_core::Result<Tensor>,
) -> candle_core::Result<&Tensor> {
    match cell.get() {
        Some(tensor) => Ok(tensor),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}
