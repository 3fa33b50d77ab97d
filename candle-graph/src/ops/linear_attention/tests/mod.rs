//! Fused and reference against sums written out in double precision, and what both must keep.

mod extremes;
mod kernels;
mod maps;
mod positive_random;
mod properties;
mod refusals;

use candle_core::{DType, Device, Tensor, Var};

use super::cpu::{BLOCK, CHUNK};
use super::*;
use crate::ops::force_reference;
use crate::ops::test_data::randn;

/// A feature map that owns what it reads.
#[derive(Debug, Clone)]
enum Map {
    PositiveRandom(Tensor),
    Relu(f64),
    Simple,
}

#[derive(Debug, Clone)]
struct Rotated {
    query: RotationTable,
    key: RotationTable,
    pairs: RotaryPairs,
}

#[derive(Debug, Clone)]
struct Case {
    sizes: Vec<usize>,
    heads: usize,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    map: Map,
    rotation: Option<Rotated>,
    node_ptr: Offsets,
}

/// Cosines and sines of random angles.
fn angles(rows: usize, pairs: usize) -> RotationTable {
    let angles = randn(&[rows, pairs], 2.0);
    RotationTable {
        cos: angles.cos().unwrap(),
        sin: angles.sin().unwrap(),
    }
}

impl Case {
    /// Positive random features, with widths of queries, values and features.
    fn new(sizes: &[usize], heads: usize, (d, v, features): (usize, usize, usize)) -> Self {
        let map = Map::PositiveRandom(randn(&[features, d], 1.0));
        Self::with_map(sizes, heads, (d, v), map)
    }

    fn with_map(sizes: &[usize], heads: usize, (d, v): (usize, usize), map: Map) -> Self {
        let nodes = sizes.iter().sum();
        Self {
            sizes: sizes.to_vec(),
            heads,
            query: randn(&[nodes, heads * d], 1.0),
            key: randn(&[nodes, heads * d], 1.0),
            value: randn(&[nodes, heads * v], 1.0),
            map,
            rotation: None,
            node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
        }
    }

    /// The same with a rotation by random angles.
    fn rotated(mut self, pairs: RotaryPairs) -> Self {
        let (nodes, width) = self.query.dims2().unwrap();
        let features = match &self.map {
            Map::PositiveRandom(projection) => projection.dims()[0],
            _ => width / self.heads,
        };
        let count = pairs.count(self.heads, features);
        self.rotation = Some(Rotated {
            query: angles(nodes, count),
            key: angles(nodes, count),
            pairs,
        });
        self
    }

    fn input(&self) -> LinearAttentionInput<'_> {
        LinearAttentionInput {
            query: &self.query,
            key: &self.key,
            value: &self.value,
            node_ptr: &self.node_ptr,
            heads: self.heads,
            feature_map: match &self.map {
                Map::PositiveRandom(projection) => FeatureMap::PositiveRandom { projection },
                Map::Relu(eps) => FeatureMap::Relu { eps: *eps },
                Map::Simple => FeatureMap::Simple,
            },
            rotation: self.rotation.as_ref().map(|rotation| FeatureRotation {
                query: &rotation.query,
                key: &rotation.key,
                pairs: rotation.pairs,
            }),
        }
    }

    fn run(&self) -> Vec<Vec<f32>> {
        linear_attention(self.input()).unwrap().to_vec2().unwrap()
    }

    /// The same with another form of queries, keys and values.
    fn map(&self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        Self {
            query: f(&self.query),
            key: f(&self.key),
            value: f(&self.value),
            ..self.clone()
        }
    }

    /// The same with another form of everything that has a row a node, for graphs of `sizes`.
    fn map_rows(&self, sizes: &[usize], f: impl Fn(&Tensor) -> Tensor) -> Self {
        let table = |table: &RotationTable| RotationTable {
            cos: f(&table.cos),
            sin: f(&table.sin),
        };
        Self {
            sizes: sizes.to_vec(),
            node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
            rotation: self.rotation.as_ref().map(|rotation| Rotated {
                query: table(&rotation.query),
                key: table(&rotation.key),
                pairs: rotation.pairs,
            }),
            ..self.map(&f)
        }
    }

    /// The formula over all pairs, as loops in double precision.
    fn exact(&self) -> Vec<Vec<f64>> {
        let [query, key, value] = [&self.query, &self.key, &self.value].map(wide);
        let mut result: Vec<Vec<f64>> = value.iter().map(|row| vec![0.0; row.len()]).collect();
        for nodes in self.node_ptr.ranges() {
            let (query, key) = (&query[nodes.clone()], &key[nodes.clone()]);
            let (query, key) = (self.features(query, false), self.features(key, true));
            let tables = self.rotation.as_ref().map(|r| (&r.query, &r.key));
            let numerator = (
                self.rotate(&query, tables.map(|t| t.0), nodes.start),
                self.rotate(&key, tables.map(|t| t.1), nodes.start),
            );
            for head in 0..self.heads {
                let of_head = |row: &Vec<f64>| {
                    let width = row.len() / self.heads;
                    head * width..(head + 1) * width
                };
                let product = |x: &Vec<f64>, y: &Vec<f64>| -> f64 {
                    let pairs = x[of_head(x)].iter().zip(&y[of_head(y)]);
                    pairs.map(|(x, y)| x * y).sum()
                };
                for (at, target) in nodes.clone().enumerate() {
                    let own = |s: usize| match self.map {
                        Map::Simple if s == at => nodes.len() as f64,
                        _ => 0.0,
                    };
                    if matches!(self.map, Map::Simple) && nodes.len() == 1 && tables.is_none() {
                        result[target] = value[target].clone();
                        continue;
                    }
                    let sum: f64 = (key.iter().enumerate())
                        .map(|(s, key)| product(&query[at], key) + own(s))
                        .sum();
                    for column in of_head(&value[target]) {
                        let weighted = numerator.1.iter().enumerate().map(|(s, key)| {
                            let weight = product(&numerator.0[at], key) + own(s);
                            weight * value[nodes.start + s][column]
                        });
                        let weighted: f64 = weighted.sum();
                        result[target][column] = if sum == 0.0 { 0.0 } else { weighted / sum };
                    }
                }
            }
        }
        result
    }

    /// The features of the rows of a graph, head by head; positive random ones with the factor
    /// 1/√features that cancels.
    fn features(&self, rows: &[Vec<f64>], of_keys: bool) -> Vec<Vec<f64>> {
        match &self.map {
            Map::PositiveRandom(projection) => {
                let pairs = self.rotation.as_ref().map(|rotation| rotation.pairs);
                let projection = wide(projection);
                let straddling =
                    pairs == Some(RotaryPairs::FullWidth) && !projection.len().is_multiple_of(2);
                positive_random(rows, &projection, self.heads, of_keys, straddling)
            }
            Map::Relu(eps) => {
                let relu = |row: &Vec<f64>| row.iter().map(|x| x.max(0.0) + eps).collect();
                rows.iter().map(relu).collect()
            }
            Map::Simple => {
                let squares = rows.iter().flatten().map(|x| x * x);
                let norm = squares.sum::<f64>().sqrt();
                let factor = if norm == 0.0 { 0.0 } else { 1.0 / norm };
                let scaled = |row: &Vec<f64>| row.iter().map(|x| x * factor).collect();
                rows.iter().map(scaled).collect()
            }
        }
    }

    /// Rows of features, from node `first`, with their pairs turned.
    fn rotate(
        &self,
        rows: &[Vec<f64>],
        table: Option<&RotationTable>,
        first: usize,
    ) -> Vec<Vec<f64>> {
        let (Some(table), Some(rotation)) = (table, &self.rotation) else {
            return rows.to_vec();
        };
        let (cos, sin) = (wide(&table.cos), wide(&table.sin));
        let turned = rows.iter().enumerate().map(|(at, row)| {
            let (node, features) = (first + at, row.len() / self.heads);
            let mut turned = row.clone();
            let mut turn = |column: usize, angle: usize| {
                let (c, s) = (cos[node][angle], sin[node][angle]);
                let (x, y) = (row[column], row[column + 1]);
                (turned[column], turned[column + 1]) = (x * c - y * s, x * s + y * c);
            };
            for pair in 0..row.len() / 2 {
                if rotation.pairs == RotaryPairs::FullWidth {
                    turn(2 * pair, pair);
                }
            }
            for (head, pair) in (0..self.heads).flat_map(|h| (0..features / 2).map(move |p| (h, p)))
            {
                let column = head * features + 2 * pair;
                match rotation.pairs {
                    RotaryPairs::FullWidth => {}
                    RotaryPairs::SharedByHeads => turn(column, pair),
                    RotaryPairs::PerHead => turn(column, head * (features / 2) + pair),
                }
            }
            turned
        });
        turned.collect()
    }
}

/// One stabiliser a head, or for all of them.
fn positive_random(
    rows: &[Vec<f64>],
    projection: &[Vec<f64>],
    heads: usize,
    of_keys: bool,
    straddling: bool,
) -> Vec<Vec<f64>> {
    let ratio = 1.0 / (projection.len() as f64).sqrt();
    let largest = |dots: &[f64]| dots.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Projections and half the square, node by node and head by head.
    let projected = rows.iter().map(|row| {
        let width = row.len() / heads;
        let of_heads = row.chunks_exact(width).map(|x| {
            let root = (width as f64).powf(-0.25);
            let dots = projection.iter().map(|direction| {
                let products = direction.iter().zip(x).map(|(p, x)| p * root * x);
                products.sum::<f64>()
            });
            let square: f64 = x.iter().map(|x| x * x).sum();
            (dots.collect(), square / 2.0 / (width as f64).sqrt())
        });
        of_heads.collect()
    });
    let projected: Vec<Vec<(Vec<f64>, f64)>> = projected.collect();
    let over = |node: usize, head: usize| {
        let nodes = if of_keys {
            0..rows.len()
        } else {
            node..node + 1
        };
        let heads = if straddling { 0..heads } else { head..head + 1 };
        let of_nodes = projected[nodes].iter();
        let all = of_nodes.flat_map(|of_heads| &of_heads[heads.clone()]);
        all.map(|(dots, _)| largest(dots))
            .fold(f64::NEG_INFINITY, f64::max)
    };
    let features = |node: usize, head: usize| -> Vec<f64> {
        let (dots, square) = &projected[node][head];
        let c = over(node, head);
        let one = |dot: &f64| ratio * ((dot - square - c).exp() + 1e-4);
        dots.iter().map(one).collect()
    };
    let of_node = |node: usize| (0..heads).flat_map(|head| features(node, head)).collect();
    (0..rows.len()).map(of_node).collect()
}

fn wide(t: &Tensor) -> Vec<Vec<f64>> {
    t.to_dtype(DType::F64).unwrap().to_vec2().unwrap()
}

fn assert_close(found: &[Vec<f32>], exact: &[Vec<f64>], tolerance: f64, what: &str) {
    assert_eq!(found.len(), exact.len());
    for (row, (found, exact)) in found.iter().zip(exact).enumerate() {
        assert_eq!(found.len(), exact.len());
        for (column, (&x, &y)) in found.iter().zip(exact).enumerate() {
            assert!(
                (f64::from(x) - y).abs() <= tolerance * y.abs().max(1.0),
                "{what}: {x} {y} at {row}, {column}"
            );
        }
    }
}

fn widen(rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let wide = |row: &Vec<f32>| row.iter().map(|&v| f64::from(v)).collect();
    rows.iter().map(wide).collect()
}

/// Every map, with one number of features for `d`.
fn maps(d: usize) -> [Map; 4] {
    let projection = randn(&[2 * d + 1, d], 1.0);
    let random = Map::PositiveRandom(projection);
    [random, Map::Relu(1e-3), Map::Relu(0.0), Map::Simple]
}

const PAIRS: [RotaryPairs; 3] = [
    RotaryPairs::FullWidth,
    RotaryPairs::SharedByHeads,
    RotaryPairs::PerHead,
];
