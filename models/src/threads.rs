//! When threads pay.

/// Whether one affine map of `rows` states of `width` is enough work to call another thread for.
pub(crate) fn is_worth_threads(rows: u64, width: usize) -> bool {
    const MULTIPLICATIONS: u64 = 500_000;
    let width = width as u64;
    rows.saturating_mul(width.saturating_mul(width)) >= MULTIPLICATIONS
}
