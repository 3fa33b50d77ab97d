//! Strided views of flat buffers, gathered row by row.

/// Number of elements of `shape`; `None` on overflow.
pub(crate) fn element_count(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// Strides, in elements, of a buffer of `shape` whose first index runs fastest (Fortran's order);
/// `None` on overflow.
pub(crate) fn fortran_strides(shape: &[usize]) -> Option<Vec<usize>> {
    let mut next = Some(1usize);
    shape
        .iter()
        .map(|&dim| {
            let stride = next?;
            next = stride.checked_mul(dim);
            Some(stride)
        })
        .collect()
}

/// The elements of `size` bytes at `offset + Σ index · stride` (counted in elements) of `buffer`, in
/// row-major order of the indices below `shape`.
///
/// # Errors
/// A shape that overflows, no memory, or a view that reaches beyond the buffer.
pub(crate) fn gather(
    buffer: &[u8],
    size: usize,
    offset: usize,
    shape: &[usize],
    strides: &[usize],
) -> Result<Vec<u8>, String> {
    let count = element_count(shape).ok_or("its shape overflows")?;
    let length = count.checked_mul(size).ok_or("its shape overflows")?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| format!("there is no memory for its {length} bytes"))?;
    let slice = |first: usize, elements: usize| {
        let from = first.checked_mul(size)?;
        buffer.get(from..from.checked_add(elements.checked_mul(size)?)?)
    };
    let outside = "it reaches beyond its storage";
    if count == 0 {
        // Nothing to copy, wherever the view points.
    } else if is_contiguous(shape, strides) {
        bytes.extend_from_slice(slice(offset, count).ok_or(outside)?);
    } else {
        let mut index = vec![0usize; shape.len()];
        let mut at = offset;
        for _ in 0..count {
            bytes.extend_from_slice(slice(at, 1).ok_or(outside)?);
            // Odometer, innermost dimension first. A sum that saturates is outside of any buffer.
            for ((position, &dim), &stride) in index.iter_mut().zip(shape).zip(strides).rev() {
                *position += 1;
                if *position < dim {
                    at = at.saturating_add(stride);
                    break;
                }
                at = at.saturating_sub(stride.saturating_mul(dim.saturating_sub(1)));
                *position = 0;
            }
        }
    }
    Ok(bytes)
}

fn is_contiguous(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1usize;
    for (&dim, &stride) in shape.iter().zip(strides).rev() {
        if dim != 1 && stride != expected {
            return false;
        }
        expected = expected.saturating_mul(dim);
    }
    true
}
