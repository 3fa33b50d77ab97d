//! Groups of threads that hold some columns of some rows (`columns.h`).

/// Threads of a group.
pub(in crate::ops) const THREADS: usize = 128;

/// Columns of a group for tensors of this width.
pub(in crate::ops) fn columns(width: usize) -> usize {
    width.next_power_of_two().clamp(1, THREADS)
}

/// Groups that the columns of a tensor are cut into.
pub(in crate::ops) fn tiles(width: usize) -> usize {
    width.div_ceil(columns(width))
}

/// Groups of a matrix whose every row has a lane of its own.
pub(in crate::ops) fn groups_of_rows(rows: usize, width: usize) -> [usize; 2] {
    [rows.div_ceil(THREADS / columns(width)), tiles(width)]
}

/// A kernel of the calling module's `kernels.c`, behind `columns.h`.
macro_rules! kernel_of_columns {
    ($name:literal) => {
        $crate::ops::kernels::Kernel {
            name: $name,
            source: concat!(
                include_str!("../kernels/columns.h"),
                include_str!("kernels.c")
            ),
        }
    };
}
pub(in crate::ops) use kernel_of_columns;
