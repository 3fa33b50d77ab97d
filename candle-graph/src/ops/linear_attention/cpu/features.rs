//! The feature maps, a block of nodes and one head at a time.

use std::ops::Range;

use super::sums::{GraphScale, Sums};
use super::{LANES, Shared, add, part};
use crate::ops::host::{HostF32, HostRows};
use crate::ops::linear_attention::FEATURE_EPS;
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::simd;

/// Added to every positive random feature.
pub(super) const EPS: f32 = FEATURE_EPS as f32;

/// The exponents of powers of two that are normal numbers, as their inverses are.
const EXPONENTS: (i32, i32) = (-126, 126);

/// The map φ.
pub(super) enum Map<'a> {
    PositiveRandom {
        /// `[d, features]`.
        directions: HostF32<'a>,
    },
    Relu {
        eps: f32,
    },
    Simple,
}

impl Map<'_> {
    /// The level that sums start from.
    pub(super) fn lowest_level(&self) -> f32 {
        match self {
            Self::PositiveRandom { .. } => f32::NEG_INFINITY,
            Self::Relu { .. } => EXPONENTS.0 as f32,
            Self::Simple => 0.0,
        }
    }

    /// What features relative to the level `from` are multiplied by to be relative to `to`, which is
    /// not lower. A level is what is subtracted from exponents: of e, the largest element of the
    /// projections, or of 2, that of the largest feature, so that no feature leaves the range of
    /// numbers.
    #[inline(always)]
    pub(super) fn change(&self, from: f32, to: f32) -> f32 {
        match self {
            Self::PositiveRandom { .. } => simd::exp(from - to),
            // Below the smallest power, what is multiplied is too small to count.
            Self::Relu { .. } => power((from - to).max(EXPONENTS.0 as f32) as i32),
            Self::Simple => 1.0,
        }
    }
}

/// 2ⁿ for n in [`EXPONENTS`].
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// n of the largest 2ⁿ that is not above `x`, within [`EXPONENTS`].
#[inline(always)]
fn exponent(x: f32) -> i32 {
    let n = ((x.to_bits() >> 23) & 0xff) as i32 - 127;
    n.clamp(EXPONENTS.0, EXPONENTS.1)
}

/// `P·x·d^-¼` for the rows x of `block`, `[nodes, stride]`; the filling of the rows is −∞.
pub(super) fn project(
    rows: &HostRows<'_>,
    block: &Range<usize>,
    head: usize,
    directions: &[f32],
    shared: &Shared<'_>,
    out: &mut [f32],
) {
    let (width, features) = (shared.widths.query, shared.widths.features);
    let x = part(rows, block, head, width);
    matmul_views(
        View::new(x, block.len(), width, rows.stride()),
        View::new(directions, width, features, features),
        (width as f32).powf(-0.25),
        out,
        shared.stride,
        Into::Replace,
    );
    for row in out.chunks_exact_mut(shared.stride) {
        row[features..].fill(f32::NEG_INFINITY);
    }
}

/// Makes the features of the keys of `block`, `[nodes, stride]`, relative to the level of `sums`,
/// which rises with them, and adds them to its features. Heads that are worked on together, among
/// which `head` is, have one level.
pub(super) fn of_keys(
    block: &Range<usize>,
    (head, together): (usize, &Range<usize>),
    graph: &GraphScale,
    shared: &Shared<'_>,
    sums: &mut Sums,
    rows: &mut [f32],
    block_sums: &mut [f32],
) {
    let (width, stride) = (shared.widths.query, shared.stride);
    let keys = part(&shared.key, block, head, width);
    if let Map::PositiveRandom { directions } = &shared.map {
        project(&shared.key, block, head, directions, shared, rows);
    }
    let eps_now = match shared.adds_eps_at_the_end() {
        true => 0.0,
        false => EPS,
    };
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            block_sums.fill(0.0);
            let keys = || keys.chunks(shared.key.stride());
            match &shared.map {
                Map::PositiveRandom { .. } => {
                    let level = maximum(rows).max(sums.level);
                    sums.raise(level, &shared.map);
                    for (row, key) in rows.chunks_exact_mut(stride).zip(keys()) {
                        let offset = half_square(&key[..width]) + level;
                        for (feature, sum) in row.iter_mut().zip(block_sums.iter_mut()) {
                            *feature = simd::exp(*feature - offset) + eps_now;
                            *sum += *feature;
                        }
                    }
                    // The filling is not a feature.
                    block_sums[shared.widths.features..].fill(0.0);
                }
                Map::Relu { eps } => {
                    let of_group = part(&shared.key, block, together.start, width);
                    let of_group = of_group.chunks(shared.key.stride()).take(block.len());
                    let of_rows = of_group.map(|key| highest(&key[..together.len() * width]));
                    let largest = of_rows.fold(0.0, f32::max) + eps;
                    let level = (exponent(largest) as f32).max(sums.level);
                    sums.raise(level, &shared.map);
                    let factor = power(-level as i32);
                    for (row, key) in rows.chunks_exact_mut(stride).zip(keys()) {
                        rectify(&key[..width], *eps, factor, row);
                        add(block_sums, row);
                    }
                }
                Map::Simple => {
                    for (row, key) in rows.chunks_exact_mut(stride).zip(keys()) {
                        multiply(&key[..width], graph.factors[1], row);
                        add(block_sums, row);
                    }
                }
            }
            add(&mut sums.features, block_sums);
        },
    );
}

/// Starts the features of the queries of `block`, `[nodes, stride]`, and raises the level of every
/// node to that of its features; for [`Map::Simple`] the level is the factor.
pub(super) fn prepare_queries(
    block: &Range<usize>,
    head: usize,
    graph: &GraphScale,
    shared: &Shared<'_>,
    rows: &mut [f32],
    levels: &mut [f32],
) {
    let width = shared.widths.query;
    match &shared.map {
        Map::PositiveRandom { directions } => {
            project(&shared.query, block, head, directions, shared, rows);
            simd::vectorize(
                pulp::Arch::new(),
                #[inline(always)]
                || {
                    let rows = rows.chunks_exact(shared.stride);
                    for (row, level) in rows.zip(levels.iter_mut()) {
                        *level = level.max(maximum(row));
                    }
                },
            );
        }
        Map::Relu { eps } => {
            let queries = part(&shared.query, block, head, width);
            simd::vectorize(
                pulp::Arch::new(),
                #[inline(always)]
                || {
                    let queries = queries.chunks(shared.query.stride()).take(block.len());
                    for (query, level) in queries.zip(levels.iter_mut()) {
                        let largest = highest(&query[..width]).max(0.0) + eps;
                        *level = level.max(exponent(largest) as f32);
                    }
                },
            );
        }
        Map::Simple => levels.fill(graph.factors[0]),
    }
}

/// Makes the features of the queries of `block` relative to `levels`, and so each row but for a
/// factor that cancels, from what [`prepare_queries`] left; and their products with `sums`, the
/// denominators.
pub(super) fn of_queries(
    block: &Range<usize>,
    head: usize,
    levels: &[f32],
    sums: &[f32],
    shared: &Shared<'_>,
    rows: &mut [f32],
    denominators: &mut [f32],
) {
    let (width, stride) = (shared.widths.query, shared.stride);
    let queries = part(&shared.query, block, head, width);
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            let queries = queries.chunks(shared.query.stride());
            let of_rows = rows.chunks_exact_mut(stride).zip(queries);
            let results = levels.iter().zip(denominators.iter_mut());
            for ((row, query), (&level, denominator)) in of_rows.zip(results) {
                let query = &query[..width];
                match &shared.map {
                    Map::PositiveRandom { .. } => {
                        let offset = half_square(query) + level;
                        for feature in row.iter_mut() {
                            *feature = simd::exp(*feature - offset) + EPS;
                        }
                    }
                    Map::Relu { eps } => rectify(query, *eps, power(-level as i32), row),
                    Map::Simple => multiply(query, level, row),
                }
                // The filling of the sums is zeros.
                *denominator = dot(row, sums);
            }
        },
    );
}

/// `(relu(x) + eps)·factor`.
#[inline(always)]
fn rectify(x: &[f32], eps: f32, factor: f32, out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x.max(0.0) + eps) * factor;
    }
}

#[inline(always)]
fn multiply(x: &[f32], factor: f32, out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x * factor;
    }
}

/// The product of two rows of whole groups.
#[inline(always)]
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for (x, y) in x.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    lanes.iter().sum()
}

/// The largest of whole groups of values.
pub(super) fn maximum_of(values: &[f32]) -> f32 {
    let mut found = f32::NEG_INFINITY;
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || found = maximum(values),
    );
    found
}

#[inline(always)]
fn maximum(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for group in values.chunks_exact(LANES) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].max(group[lane]);
        }
    }
    lanes.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// The largest of any number of values.
#[inline(always)]
fn highest(values: &[f32]) -> f32 {
    let (groups, rest) = values.as_chunks::<LANES>();
    let rest = rest.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    maximum(groups.as_flattened()).max(rest)
}

/// `‖x‖²/(2√d)`.
#[inline(always)]
fn half_square(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (groups, rest) = x.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            lanes[lane] += group[lane] * group[lane];
        }
    }
    let rest: f32 = rest.iter().map(|v| v * v).sum();
    (lanes.iter().sum::<f32>() + rest) * 0.5 / (x.len() as f32).sqrt()
}
