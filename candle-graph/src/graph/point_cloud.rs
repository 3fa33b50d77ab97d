//! Graphs of near points.

use rstar::RTree;
use rstar::primitives::GeomWithData;

use super::{Features, Graph};
use crate::error::{Error, GraphProblem, Result};

/// Points in space, `[points, dim]`, to be joined to a graph whose node features `x` are their
/// coordinates.
///
/// ```
/// use candle_graph::graph::PointCloud;
///
/// let corners = PointCloud::new(2, vec![0.0, 0.0, 1.0, 0.0, 0.0, 2.0])?;
/// let graph = corners.nearest_neighbours(1)?;
/// assert_eq!(graph.edges(), [[0, 1], [1, 0], [0, 2], [2, 0]]);
/// # Ok::<(), candle_graph::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PointCloud {
    dim: usize,
    coordinates: Vec<f64>,
}

/// A place where one or more points are.
type Place<const D: usize> = GeomWithData<[f64; D], Vec<u32>>;

impl PointCloud {
    /// The largest number of coordinates of a point: beyond it, an index of space is no faster than
    /// comparing all points.
    pub const MAX_DIM: usize = 16;

    /// Points of `dim` coordinates each, point after point; f32 and f64 are both taken.
    ///
    /// # Errors
    /// No points, a point that is not complete, no coordinates or more than
    /// [`MAX_DIM`](Self::MAX_DIM), or one that is not finite as a 32-bit number.
    pub fn new<T: Into<f64>>(dim: usize, coordinates: impl IntoIterator<Item = T>) -> Result<Self> {
        let coordinates: Vec<f64> = coordinates.into_iter().map(Into::into).collect();
        let refuse = |message: String| {
            let field = "points".to_string();
            Err(problem(GraphProblem::Field { field, message }))
        };
        if dim == 0 || dim > Self::MAX_DIM {
            return refuse(format!(
                "{dim} coordinates a point; 1 to {} are supported",
                Self::MAX_DIM
            ));
        }
        if coordinates.is_empty() {
            return Err(problem(GraphProblem::Empty));
        }
        if !coordinates.len().is_multiple_of(dim) {
            return refuse(format!(
                "{} numbers do not form rows of {dim}",
                coordinates.len()
            ));
        }
        if let Some(at) = coordinates.iter().position(|&x| !(x as f32).is_finite()) {
            return Err(problem(GraphProblem::NonFinite {
                field: "points",
                row: at / dim,
                column: at % dim,
                value: coordinates[at],
            }));
        }
        Ok(Self { dim, coordinates })
    }

    /// The coordinates, point after point.
    pub fn coordinates(&self) -> &[f64] {
        &self.coordinates
    }

    /// Number of points, at least one.
    pub fn len(&self) -> usize {
        self.coordinates.len() / self.dim
    }

    /// Always false: there is at least one point.
    pub fn is_empty(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// The graph in which every point is joined to its `k` nearest other points, by Euclidean
    /// distance; of equally near ones the first count. Edges have no direction: two points are
    /// joined if either is near to the other, so that some have more than `k` neighbours. Points in
    /// the same place are neighbours at distance 0.
    ///
    /// # Errors
    /// `k` is 0, or not less than the number of points: then not every point has `k` others.
    pub fn nearest_neighbours(&self, k: usize) -> Result<Graph> {
        if k == 0 || k >= self.len() {
            return Err(problem(GraphProblem::Field {
                field: "k".to_string(),
                message: format!(
                    "{k} nearest neighbours among {} points; it takes 1 to one less than the points",
                    self.len()
                ),
            }));
        }
        self.graph(Reach::Neighbours(k))
    }

    /// The graph in which two points are joined if their Euclidean distance is at most `radius` (ε);
    /// points in the same place are.
    ///
    /// # Errors
    /// `radius` is negative, not finite, or there are more edges than a graph may have.
    pub fn within(&self, radius: f64) -> Result<Graph> {
        if !(radius.is_finite() && radius >= 0.0) {
            return Err(problem(GraphProblem::Field {
                field: "radius".to_string(),
                message: format!("{radius} is not a distance"),
            }));
        }
        self.graph(Reach::Radius(radius))
    }

    fn graph(&self, reach: Reach) -> Result<Graph> {
        let mut edges = match self.dim {
            1..=2 => self.edges::<2>(reach),
            3 => self.edges::<3>(reach),
            4..=8 => self.edges::<8>(reach),
            _ => self.edges::<{ Self::MAX_DIM }>(reach),
        };
        edges.sort_unstable();
        edges.dedup();
        let coordinates = self.coordinates.iter().map(|&x| x as f32).collect();
        let coordinates = Features::float(self.dim, coordinates);
        Graph::builder(self.len())
            .edges(edges)
            .undirected(true)
            .node_features(coordinates)
            .build()
    }

    /// Every edge at least once, as `[smaller, larger]`; `D` is at least the number of coordinates.
    fn edges<const D: usize>(&self, reach: Reach) -> Vec<[u32; 2]> {
        // The index holds every place once: many equal points would all have to be looked through
        // for each of them.
        let places = self.places::<D>();
        let tree = RTree::bulk_load(places.clone());
        let mut edges = Vec::new();
        let mut near = Vec::new();
        for place in &places {
            near.clear();
            match reach {
                Reach::Neighbours(k) => nearest(&tree, place, k, &mut near),
                Reach::Radius(radius) => {
                    let limit = radius * radius;
                    let found = tree.nearest_neighbor_iter_with_distance_2(*place.geom());
                    let found = found.take_while(|(_, square)| *square <= limit);
                    near.extend(found.flat_map(|(place, _)| place.data.iter().copied()));
                }
            }
            for &point in &place.data {
                let others = near.iter().filter(|&&other| other != point);
                let others = others.take(match reach {
                    Reach::Neighbours(k) => k,
                    Reach::Radius(_) => usize::MAX,
                });
                edges.extend(others.map(|&other| [point.min(other), point.max(other)]));
            }
        }
        edges
    }

    /// The places of the points, each with its points in order.
    fn places<const D: usize>(&self) -> Vec<Place<D>> {
        let mut points: Vec<([f64; D], u32)> = Vec::with_capacity(self.len());
        for (at, point) in self.coordinates.chunks_exact(self.dim).enumerate() {
            let mut place = [0.0; D];
            // Adding 0 makes −0 and 0 the same place.
            place
                .iter_mut()
                .zip(point)
                .for_each(|(to, x)| *to = x + 0.0);
            points.push((place, at as u32));
        }
        let order = |a: &[f64; D], b: &[f64; D]| {
            let unequal = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
            unequal.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        };
        points.sort_unstable_by(|(a, i), (b, j)| order(a, b).then(i.cmp(j)));
        let runs = points.chunk_by(|(a, _), (b, _)| a == b);
        runs.map(|run| Place::new(run[0].0, run.iter().map(|&(_, at)| at).collect()))
            .collect()
    }
}

/// Which points are joined.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// The nearest.
    Neighbours(usize),
    /// All within a distance.
    Radius(f64),
}

/// Writes the `k + 1` points nearest to `place`, those in it included, to `near`: by distance, and
/// equally near ones by number.
fn nearest<const D: usize>(
    tree: &RTree<Place<D>>,
    place: &Place<D>,
    k: usize,
    near: &mut Vec<u32>,
) {
    let mut places = tree
        .nearest_neighbor_iter_with_distance_2(*place.geom())
        .peekable();
    while near.len() <= k {
        let Some((first, distance)) = places.next() else {
            break;
        };
        let start = near.len();
        near.extend(first.data.iter().take(k + 1));
        while let Some((equal, _)) = places.next_if(|(_, next)| *next == distance) {
            near.extend(equal.data.iter().take(k + 1));
        }
        near[start..].sort_unstable();
    }
    near.truncate(k + 1);
}

fn problem(problem: GraphProblem) -> Error {
    Error::graph("of points", problem)
}
