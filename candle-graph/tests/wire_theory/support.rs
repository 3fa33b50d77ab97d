//! Graphs, coordinates, rotations and random numbers.

use candle_core::{DType, Device, Tensor};
use candle_graph::encodings::{
    EigenvectorScale, EncodingPlan, EncodingRecipe, ROTATIONAL, Rotational,
};
use candle_graph::graph::{Features, Graph};
use candle_graph::ops::{RotaryPairs, rotate, rotation_table};
use candle_graph::spectral::LaplacianNorm;
use rand_mt::Mt;

/// One row a node.
pub(crate) type Rows = Vec<Vec<f32>>;

pub(crate) fn graph(n: usize, edges: impl IntoIterator<Item = [usize; 2]>) -> Graph {
    let edges = edges.into_iter().map(|[s, t]| [s as i64, t as i64]);
    let builder = Graph::builder(n).edges(edges).undirected(true);
    builder.build().unwrap()
}

/// Two complete graphs of four nodes, 0 to 3 and 6 to 9, joined by the path 3 - 4 - 5 - 6.
pub(crate) fn barbell() -> Graph {
    let complete = |first: usize| {
        let nodes = first..first + 4;
        nodes.flat_map(move |i| (first..i).map(move |j| [i, j]))
    };
    let path = [[3, 4], [4, 5], [5, 6]];
    graph(10, complete(0).chain(path).chain(complete(6)))
}

pub(crate) fn eigenvectors(count: usize, trivial: bool, scale: EigenvectorScale) -> Rotational {
    Rotational::Eigenvectors {
        count,
        trivial,
        laplacian_norm: LaplacianNorm::None,
        scale,
    }
}

/// The coordinates that `recipe` gives the nodes of `graph`.
pub(crate) fn coordinates(recipe: &Rotational, graph: &Graph) -> Rows {
    let recipe = EncodingRecipe::Rotational(recipe.clone());
    let plan = EncodingPlan::new(vec![recipe]).unwrap();
    let encoding = plan.compute(graph, 0).unwrap();
    let array = encoding.get(ROTATIONAL).unwrap();
    let rows = array.data.chunks_exact(array.width);
    rows.map(<[f32]>::to_vec).collect()
}

/// `rows` as a table of real values.
pub(crate) fn table(rows: &Rows) -> Features {
    Features::float(rows[0].len(), rows.concat())
}

/// The rows of `z` `[nodes, d]` rotated by the angles of the coordinates `t` and the `frequencies`
/// `[d/2, m]`.
pub(crate) fn rotated(z: &Rows, t: &Rows, frequencies: &Rows) -> Vec<Vec<f64>> {
    let tensor = |rows: &Rows| {
        let shape = (rows.len(), rows[0].len());
        Tensor::from_vec(rows.concat(), shape, &Device::Cpu).unwrap()
    };
    let angles = rotation_table(&tensor(t), &tensor(frequencies)).unwrap();
    let rotated = rotate(&tensor(z), &angles, RotaryPairs::FullWidth, 1).unwrap();
    let rotated = rotated.to_dtype(DType::F64).unwrap();
    rotated.to_vec2().unwrap()
}

/// The products of every rotated query with every rotated key, `[nodes][nodes]`.
pub(crate) fn scores(t: &Rows, frequencies: &Rows, q: &Rows, k: &Rows) -> Vec<Vec<f64>> {
    let [q, k] = [q, k].map(|z| rotated(z, t, frequencies));
    let row = |q: &Vec<f64>| k.iter().map(|k| dot(q, k)).collect();
    q.iter().map(row).collect()
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The largest difference.
pub(crate) fn worst(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let off = pairs.map(|(a, b)| (a - b).abs());
    off.fold(
        0.0,
        |worst, d| if d > worst || d.is_nan() { d } else { worst },
    )
}

/// Squared distances of all pairs of rows.
pub(crate) fn squared_distances(rows: &Rows) -> Vec<Vec<f64>> {
    let distance = |a: &[f32], b: &[f32]| -> f64 {
        let off = a.iter().zip(b).map(|(&a, &b)| f64::from(a) - f64::from(b));
        off.map(|d| d * d).sum()
    };
    let row = |a: &Vec<f32>| rows.iter().map(|b| distance(a, b)).collect();
    rows.iter().map(row).collect()
}

/// Seeded random numbers.
pub(crate) struct Random(Mt);

impl Random {
    pub(crate) fn new(seed: u32) -> Self {
        Self(Mt::new(seed))
    }

    /// Between 0 and 1, never either.
    pub(crate) fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / f64::from(u32::MAX).next_up()
    }

    /// Of mean 0 and variance 1 (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Rows of length 1.
    pub(crate) fn unit_rows(&mut self, rows: usize, width: usize) -> Rows {
        let mut row = || {
            let values: Vec<f64> = (0..width).map(|_| self.normal()).collect();
            let length = dot(&values, &values).sqrt();
            values.iter().map(|v| (v / length) as f32).collect()
        };
        (0..rows).map(|_| row()).collect()
    }
}
