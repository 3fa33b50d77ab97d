//! The first pass: sums over the keys and values of a graph.

use std::ops::Range;

use super::features::{self, Map};
use super::{BLOCK, Scratch, Shared, add, blocks, part, scale};
use crate::ops::host::HostRows;
use crate::ops::matmul::{Into, View, matmul_views};
use crate::ops::simd;

/// Sums over keys of one head: of a chunk, or of a graph.
pub(super) struct Sums {
    /// What the features are relative to; see [`Map::change`].
    pub(super) level: f32,
    /// Sum over the nodes of features ⊗ values, `[features, v]`.
    pub(super) context: Vec<f32>,
    /// Sum of the features over the nodes, `[stride]`, zeros in the filling.
    pub(super) features: Vec<f32>,
    /// Sum of the values over the nodes, `[v]`, where [`Shared::adds_eps_at_the_end`].
    pub(super) values: Vec<f32>,
}

impl Sums {
    fn new(level: f32, shared: &Shared<'_>) -> Self {
        let widths = shared.widths;
        Self {
            level,
            context: vec![0.0; widths.features * widths.value],
            features: vec![0.0; shared.stride],
            values: vec![0.0; widths.value],
        }
    }

    /// Makes the sums relative to `level`.
    #[inline(always)]
    pub(super) fn raise(&mut self, level: f32, map: &Map<'_>) {
        if level != self.level {
            let change = map.change(self.level, level);
            scale(&mut self.context, change);
            scale(&mut self.features, change);
            self.level = level;
        }
    }

    /// The sums of a graph of `nodes` nodes from those of its chunks, in their order.
    pub(super) fn join(parts: Vec<Self>, nodes: usize, shared: &Shared<'_>) -> Self {
        let level = parts.iter().map(|part| part.level);
        let level = level.fold(f32::NEG_INFINITY, f32::max);
        let mut parts = parts.into_iter();
        let mut all = match parts.next() {
            Some(first) => first,
            None => Self::new(level, shared),
        };
        let widths = shared.widths;
        simd::vectorize(
            pulp::Arch::new(),
            #[inline(always)]
            || {
                all.raise(level, &shared.map);
                for mut part in parts.by_ref() {
                    part.raise(level, &shared.map);
                    add(&mut all.context, &part.context);
                    add(&mut all.features, &part.features);
                    add(&mut all.values, &part.values);
                }
                if shared.adds_eps_at_the_end() {
                    let of_features = features::EPS * nodes as f32;
                    let sums = all.features[..widths.features].iter_mut();
                    sums.for_each(|sum| *sum += of_features);
                    scale(&mut all.values, features::EPS);
                    for row in all.context.chunks_exact_mut(widths.value) {
                        add(row, &all.values);
                    }
                }
            },
        );
        all
    }
}

impl Shared<'_> {
    /// Whether what is added to every positive random feature is added to the sums over all nodes,
    /// which are relative to levels that are not known before.
    pub(super) fn adds_eps_at_the_end(&self) -> bool {
        matches!(self.map, Map::PositiveRandom { .. }) && self.rotation.is_none()
    }
}

/// The sums over the nodes of `chunk` for every one of `heads`.
pub(super) fn collect(
    chunk: &Range<usize>,
    heads: Range<usize>,
    graph: &GraphScale,
    shared: &Shared<'_>,
    scratch: &mut Scratch,
) -> Vec<Sums> {
    let (widths, stride) = (shared.widths, shared.stride);
    let level = |head: usize| match graph.levels.get(head) {
        Some(&known) => known,
        None => shared.map.lowest_level(),
    };
    let mut sums: Vec<Sums> = (heads.clone())
        .map(|head| Sums::new(level(head), shared))
        .collect();
    for block in blocks(chunk, BLOCK) {
        let rows = block.len();
        for (place, (head, sums)) in heads.clone().zip(&mut sums).enumerate() {
            let into = &mut scratch.features[place * BLOCK * stride..][..rows * stride];
            features::of_keys(
                &block,
                (head, &heads),
                graph,
                shared,
                sums,
                into,
                &mut scratch.block_sums,
            );
            if shared.adds_eps_at_the_end() {
                let values = part(&shared.value, &block, head, widths.value);
                let rows = values.chunks(shared.value.stride()).take(rows);
                add_rows(rows, &mut scratch.block_values, &mut sums.values);
            }
        }
        let keys = match &shared.rotation {
            Some(tables) => {
                let (from, to) = (&scratch.features, &mut scratch.rotated);
                tables.key.rotate(&block, heads.clone(), shared, from, to);
                &scratch.rotated
            }
            None => &scratch.features,
        };
        for (place, (head, sums)) in heads.clone().zip(&mut sums).enumerate() {
            let keys = &keys[place * BLOCK * stride..];
            let values = part(&shared.value, &block, head, widths.value);
            matmul_views(
                View::new(keys, rows, widths.features, stride).transposed(),
                View::new(values, rows, widths.value, shared.value.stride()),
                1.0,
                &mut sums.context,
                widths.value,
                Into::Add,
            );
        }
    }
    sums
}

/// Adds the rows of a block to one another, then to `sum`.
fn add_rows<'a>(
    rows: impl Iterator<Item = &'a [f32]> + Clone,
    of_block: &mut [f32],
    sum: &mut [f32],
) {
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            of_block.fill(0.0);
            for row in rows.clone() {
                add(of_block, row);
            }
            add(sum, of_block);
        },
    );
}

/// What must be known of all nodes of a graph before its features are made.
pub(super) struct Statistics {
    /// Sums of the squares of queries and keys over all heads, for [`Map::Simple`].
    squares: [f64; 2],
    /// The largest element of the keys' projections, head by head, for positive random features
    /// that are rotated.
    levels: Vec<f32>,
}

/// What brings the features of a graph into range.
pub(super) struct GraphScale {
    /// One over the norm of the queries, and of the keys; 0 for a norm of 0.
    pub(super) factors: [f32; 2],
    /// The level of the keys' features, head by head, where it is known before.
    levels: Vec<f32>,
}

impl Statistics {
    pub(super) fn new(shared: &Shared<'_>) -> Self {
        let levels = match shared.map {
            Map::PositiveRandom { .. } if shared.rotation.is_some() => shared.heads,
            _ => 0,
        };
        Self {
            squares: [0.0; 2],
            levels: vec![f32::NEG_INFINITY; levels],
        }
    }

    /// Whether they must be made at all.
    pub(super) fn needed(shared: &Shared<'_>) -> bool {
        match shared.map {
            Map::PositiveRandom { .. } => shared.rotation.is_some(),
            Map::Relu { .. } => false,
            Map::Simple => true,
        }
    }

    /// Joins those of another chunk of the same graph.
    pub(super) fn join(&mut self, other: &Self) {
        for (sum, square) in self.squares.iter_mut().zip(other.squares) {
            *sum += square;
        }
        for (level, other) in self.levels.iter_mut().zip(&other.levels) {
            *level = level.max(*other);
        }
    }

    /// What they say of a graph whose heads are worked on `together` at a time.
    pub(super) fn scale(mut self, together: usize) -> GraphScale {
        for levels in self.levels.chunks_mut(together) {
            let largest = levels.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            levels.fill(largest);
        }
        let factor = |square: f64| match square.sqrt() {
            norm if norm >= f64::from(f32::MIN_POSITIVE) => (1.0 / norm) as f32,
            _ => 0.0,
        };
        GraphScale {
            factors: self.squares.map(factor),
            levels: self.levels,
        }
    }
}

/// The statistics of the nodes of `chunk`.
pub(super) fn statistics(
    chunk: &Range<usize>,
    shared: &Shared<'_>,
    scratch: &mut Scratch,
) -> Statistics {
    let mut found = Statistics::new(shared);
    match &shared.map {
        Map::PositiveRandom { directions } => {
            for block in blocks(chunk, BLOCK) {
                for (head, level) in found.levels.iter_mut().enumerate() {
                    let rows = &mut scratch.features[..block.len() * shared.stride];
                    features::project(&shared.key, &block, head, directions, shared, rows);
                    *level = level.max(features::maximum_of(rows));
                }
            }
        }
        Map::Relu { .. } => {}
        Map::Simple => {
            let width = shared.heads * shared.widths.query;
            found.squares = [&shared.query, &shared.key].map(|rows| squares(rows, chunk, width));
        }
    }
    found
}

/// The sum of the squares of the rows of `chunk`.
fn squares(rows: &HostRows<'_>, chunk: &Range<usize>, width: usize) -> f64 {
    const LANES: usize = 8;
    let values = part(rows, chunk, 0, width);
    let mut lanes = [0.0f64; LANES];
    simd::vectorize(
        pulp::Arch::new(),
        #[inline(always)]
        || {
            for row in values.chunks(rows.stride()).take(chunk.len()) {
                let (groups, rest) = row[..width].as_chunks::<LANES>();
                for group in groups {
                    for lane in 0..LANES {
                        let x = f64::from(group[lane]);
                        lanes[lane] += x * x;
                    }
                }
                for (lane, &x) in lanes.iter_mut().zip(rest) {
                    *lane += f64::from(x) * f64::from(x);
                }
            }
        },
    );
    lanes.iter().sum()
}
