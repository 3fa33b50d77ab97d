//! The kernel's loops over one block. All are inlined into a SIMD dispatch.

use super::prepared::{PreparedNorm, PreparedUpdate};
use crate::ops::segment::SUM_BLOCK;

/// `ρ((K_s + Q_t) ⊙ E_w) + E_b` of consecutive pairs, of which the first is the graph's pair
/// number `first`.
#[inline(always)]
pub(super) fn combine(
    edge: &[f32],
    query: &[f32],
    key: &[f32],
    first: usize,
    n: usize,
    state: &mut [f32],
) {
    let width = query.len() / n;
    let (mut target, mut source) = (first / n, first % n);
    for (edge, out) in edge
        .chunks_exact(2 * width)
        .zip(state.chunks_exact_mut(width))
    {
        let (factor, offset) = edge.split_at(width);
        let q = &query[target * width..(target + 1) * width];
        let k = &key[source * width..(source + 1) * width];
        for ((((o, &w), &b), &q), &k) in out.iter_mut().zip(factor).zip(offset).zip(q).zip(k) {
            let score = (k + q) * w;
            *o = score.abs().sqrt().copysign(score) + b;
        }
        source += 1;
        if source == n {
            (target, source) = (target + 1, 0);
        }
    }
}

/// `out[t] += Σ_s alpha[t, s] · rows[s]` per head, for every target that `alpha`
/// `[targets, n, heads]` holds.
#[inline(always)]
pub(super) fn aggregate(head_dim: usize, alpha: &[f32], rows: &[f32], out: &mut [f32]) {
    match head_dim {
        4 => aggregate_fixed::<4>(alpha, rows, out),
        6 => aggregate_fixed::<6>(alpha, rows, out),
        8 => aggregate_fixed::<8>(alpha, rows, out),
        12 => aggregate_fixed::<12>(alpha, rows, out),
        13 => aggregate_fixed::<13>(alpha, rows, out),
        16 => aggregate_fixed::<16>(alpha, rows, out),
        24 => aggregate_fixed::<24>(alpha, rows, out),
        32 => aggregate_fixed::<32>(alpha, rows, out),
        64 => aggregate_fixed::<64>(alpha, rows, out),
        d => {
            let width = width_of(alpha, rows, out, d);
            let heads = width / d;
            let per_target = alpha.len() / (out.len() / width);
            let mut sum = vec![0.0; width];
            for (alpha, out) in alpha
                .chunks_exact(per_target)
                .zip(out.chunks_exact_mut(width))
            {
                let blocks = alpha.chunks(SUM_BLOCK * heads);
                for (alpha, rows) in blocks.zip(rows.chunks(SUM_BLOCK * width)) {
                    sum.fill(0.0);
                    for (alpha, row) in alpha.chunks_exact(heads).zip(rows.chunks_exact(width)) {
                        let by_head = sum.chunks_exact_mut(d).zip(row.chunks_exact(d));
                        for (&a, (sum, row)) in alpha.iter().zip(by_head) {
                            sum.iter_mut().zip(row).for_each(|(o, &v)| *o += a * v);
                        }
                    }
                    out.iter_mut().zip(&sum).for_each(|(o, &s)| *o += s);
                }
            }
        }
    }
}

/// The row width H·d from the sizes: with T targets and n sources, `rows · out / alpha` is
/// (n·H·d)(T·H·d)/(T·n·H) = H·d².
#[inline(always)]
fn width_of(alpha: &[f32], rows: &[f32], out: &[f32], d: usize) -> usize {
    rows.len() * out.len() / alpha.len() / d
}

#[inline(always)]
fn aggregate_fixed<const D: usize>(alpha: &[f32], rows: &[f32], out: &mut [f32]) {
    let heads = width_of(alpha, rows, out, D) / D;
    let (rows, _) = rows.as_chunks::<D>();
    let (out, _) = out.as_chunks_mut::<D>();
    let per_target = alpha.len() / (out.len() / heads);
    for (alpha, out) in alpha
        .chunks_exact(per_target)
        .zip(out.chunks_exact_mut(heads))
    {
        let blocks = alpha.chunks(SUM_BLOCK * heads);
        for (alpha, rows) in blocks.zip(rows.chunks(SUM_BLOCK * heads)) {
            for (head, out) in out.iter_mut().enumerate() {
                let mut sum = [0.0f32; D];
                let weights = alpha.iter().skip(head).step_by(heads);
                for (&a, row) in weights.zip(rows.iter().skip(head).step_by(heads)) {
                    for i in 0..D {
                        sum[i] += a * row[i];
                    }
                }
                for i in 0..D {
                    out[i] += sum[i];
                }
            }
        }
    }
}

/// The old state scaled and shifted, ready for ê's part to be added; adds it where no map does.
#[inline(always)]
pub(super) fn keep_rows(update: &PreparedUpdate, rows: &mut [f32], state: &[f32]) {
    let width = update.keep.len();
    for row in rows.chunks_exact_mut(width) {
        for ((r, &k), &s) in row.iter_mut().zip(&update.keep).zip(&update.shift) {
            *r = *r * k + s;
        }
    }
    if update.output.is_none() {
        for (row, state) in rows.chunks_exact_mut(width).zip(state.chunks_exact(width)) {
            for ((r, &e), &k) in row.iter_mut().zip(state).zip(&update.keep_state) {
                *r += e * k;
            }
        }
    }
}

/// Layer norm of every row, in place.
#[inline(always)]
pub(super) fn normalise(norm: &PreparedNorm, rows: &mut [f32]) {
    let width = norm.weight.len();
    for row in rows.chunks_exact_mut(width) {
        let mean = row.iter().sum::<f32>() / width as f32;
        row.iter_mut().for_each(|v| *v -= mean);
        let variance = row.iter().map(|v| v * v).sum::<f32>() / width as f32;
        let inverse = 1.0 / (variance + norm.eps).sqrt();
        for ((v, &w), &b) in row.iter_mut().zip(&norm.weight).zip(&norm.bias) {
            *v = *v * inverse * w + b;
        }
    }
}
