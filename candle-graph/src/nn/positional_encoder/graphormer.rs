//! Degree embeddings and attention bias of Graphormer (GraphormerBias).

use candle_core::{DType, Result, Tensor, bail};
use candle_nn::VarBuilder;

use crate::encodings::{
    GRAPHORMER_DISTANCES, GRAPHORMER_IN_DEGREES, GRAPHORMER_OUT_DEGREES, GRAPHORMER_PREDECESSORS,
    Graphormer,
};
use crate::error::{Error, Result as EngineResult};
use crate::graph::{BatchFeatures, GraphBatch, Offsets};
use crate::ops::{Reduction, segment_reduce};

/// Embeddings of in- and out-degrees, added to the node states.
#[derive(Debug, Clone)]
struct Degrees {
    into: Tensor,
    out: Tensor,
}

/// What the edges along shortest paths add to the bias.
#[derive(Debug, Clone)]
struct PathEdges {
    types: usize,
    /// Row `k · types + c`: what category `c` at place `k` of a path adds, less category 0, with
    /// which the official code fills the places behind the end of a path; `[places · types, heads]`.
    table: Tensor,
    /// What a path without edges adds, `[1, heads]`.
    empty: Tensor,
}

/// The bias of the attention logits.
#[derive(Debug, Clone)]
struct Bias {
    /// A row a distance, and one where there is no path.
    spatial: Tensor,
    edges: Option<PathEdges>,
    /// Of pairs with a graph token, `[1, heads]`.
    token: Option<Tensor>,
}

/// Degrees, bias and graph token of Graphormer.
#[derive(Debug, Clone)]
pub(super) struct GraphormerEncoder {
    spatial_types: usize,
    degrees: Degrees,
    bias: Option<Bias>,
    token: Option<Tensor>,
}

impl GraphormerEncoder {
    /// Loads `in_degrees.weight` `[in-degrees, width]` and `out_degrees.weight`; unless only
    /// degrees count `spatial.weight` `[spatial types + 1, heads]` and, with edge types,
    /// `edges.weight` `[edge types, heads]` and `edge_distances.weight`
    /// `[spatial types · heads², 1]`; with a graph token `graph_token` `[1, width]` and, unless
    /// only degrees count, `bias_token` `[1, heads, 1]`.
    pub(super) fn new(
        recipe: &Graphormer,
        width: usize,
        heads: usize,
        edge_types: usize,
        graph_token: bool,
        vb: &VarBuilder<'_>,
    ) -> Result<Self> {
        let bias = match recipe.degrees_only {
            true => None,
            false => Some(Bias {
                spatial: vb.get((recipe.spatial_types + 1, heads), "spatial.weight")?,
                edges: match recipe.edge_types {
                    true => Some(PathEdges::new(recipe.spatial_types, heads, edge_types, vb)?),
                    false => None,
                },
                token: match graph_token {
                    true => Some(vb.get((1, heads, 1), "bias_token")?.reshape((1, heads))?),
                    false => None,
                },
            }),
        };
        Ok(Self {
            spatial_types: recipe.spatial_types,
            degrees: Degrees {
                into: vb.get((recipe.in_degrees, width), "in_degrees.weight")?,
                out: vb.get((recipe.out_degrees, width), "out_degrees.weight")?,
            },
            bias,
            token: match graph_token {
                true => Some(vb.get((1, width), "graph_token")?),
                false => None,
            },
        })
    }

    /// Node states `[nodes, width]` with the degree embeddings added, or these alone.
    pub(super) fn nodes(&self, nodes: Option<Tensor>, batch: &GraphBatch) -> EngineResult<Tensor> {
        let embedding = |table: &Tensor, name| -> EngineResult<Tensor> {
            let degrees = batch.encoding(name)?.to_dtype(DType::U32)?;
            Ok(table.index_select(&degrees.flatten_all()?, 0)?)
        };
        let into = embedding(&self.degrees.into, GRAPHORMER_IN_DEGREES)?;
        let out = embedding(&self.degrees.out, GRAPHORMER_OUT_DEGREES)?;
        Ok(match nodes {
            Some(nodes) => ((nodes + into)? + out)?,
            None => (into + out)?,
        })
    }

    /// `nodes` with the token's state before the states of every graph, for the batch `tokens`.
    pub(super) fn with_tokens(&self, nodes: &Tensor, tokens: &GraphBatch) -> Result<Tensor> {
        let Some(token) = &self.token else {
            return Ok(nodes.clone());
        };
        tokens.with_token_rows(token, nodes)
    }

    /// The bias of `batch`, `[pairs, heads]`; with a graph token, of the pairs of `tokens`.
    pub(super) fn bias(
        &self,
        batch: &GraphBatch,
        tokens: Option<&GraphBatch>,
    ) -> EngineResult<Option<Tensor>> {
        let Some(bias) = &self.bias else {
            return Ok(None);
        };
        let distances = pair_array(batch, GRAPHORMER_DISTANCES)?;
        let ids = distances.to_dtype(DType::U32)?.flatten_all()?;
        let mut found = bias.spatial.index_select(&ids, 0)?;
        if let Some(edges) = &bias.edges {
            let sums = edges.sums(self.spatial_types, distances, batch)?;
            let divisors = distances.to_dtype(found.dtype())?.maximum(1.0)?;
            found = (found + sums.broadcast_div(&divisors)?)?;
        }
        Ok(Some(match (&bias.token, tokens) {
            (Some(token), Some(tokens)) => tokens.with_token_pairs(token, token, &found)?,
            _ => found,
        }))
    }
}

impl PathEdges {
    fn new(places: usize, heads: usize, types: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        let Some(rows) = heads.checked_mul(heads).and_then(|h| h.checked_mul(places)) else {
            bail!("a bias of {heads} heads for {places} distances is too large");
        };
        let edges = vb.get((types, heads), "edges.weight")?;
        let distances = vb.get((rows, 1), "edge_distances.weight")?;
        let edges = edges.to_dtype(DType::F64)?.unsqueeze(0)?;
        let maps = distances.to_dtype(DType::F64)?;
        let maps = maps.reshape((places, heads, heads))?;
        let table = edges.broadcast_matmul(&maps)?;
        let first = table.narrow(1, 0, 1)?;
        let empty = first.sum(0)?;
        let table = table.broadcast_sub(&first)?;
        Ok(Self {
            types,
            table: table
                .reshape((places * types, heads))?
                .to_dtype(vb.dtype())?,
            empty: empty.to_dtype(vb.dtype())?,
        })
    }

    /// What the edges of every pair's path add up to, `[pairs, heads]`.
    fn sums(
        &self,
        spatial_types: usize,
        distances: &Tensor,
        batch: &GraphBatch,
    ) -> EngineResult<Tensor> {
        let paths = Paths {
            distances: distances.flatten_all()?.to_vec1::<f32>()?,
            predecessors: pair_array(batch, GRAPHORMER_PREDECESSORS)?
                .flatten_all()?
                .to_vec1::<f32>()?,
            categories: self.categories(batch)?,
            unreachable: spatial_types as f32,
        };
        let mut lengths = Vec::with_capacity(batch.num_pairs()?);
        let mut rows = Vec::new();
        let graphs = batch.node_ptr().lengths().zip(batch.pair_ptr()?.ranges());
        for (n, pairs) in graphs {
            for pair in pairs.clone() {
                let before = rows.len();
                paths.walk(n, pairs.start, pair - pairs.start, |place, category| {
                    rows.push((place * self.types) as u32 + category);
                });
                lengths.push(rows.len() - before);
            }
        }
        let count = rows.len();
        if count == 0 {
            let (_, heads) = self.empty.dims2()?;
            let shape = (batch.num_pairs()?, heads);
            return Ok(self.empty.broadcast_as(shape)?.contiguous()?);
        }
        let rows = Tensor::from_vec(rows, count, batch.device())?;
        let ptr = Offsets::from_lengths(lengths, batch.device())?;
        let sums = segment_reduce(&self.table.index_select(&rows, 0)?, &ptr, Reduction::Sum)?;
        Ok(sums.broadcast_add(&self.empty)?)
    }

    /// The category of the edge on every pair, 0 where there is none; of repeated edges the last
    /// listed counts.
    fn categories(&self, batch: &GraphBatch) -> EngineResult<Vec<u32>> {
        let mut of_pairs = vec![0; batch.num_pairs()?];
        if batch.edges().is_empty() {
            return Ok(of_pairs);
        }
        let Some(BatchFeatures::Categorical(ids)) = batch.edge_features() else {
            return Err(Error::Encoding(
                "Graphormer's bias needs the categories of edges, but the batch was made with a \
                 schema without them"
                    .to_string(),
            ));
        };
        let ids = ids.narrow(1, 0, 1)?.flatten_all()?.to_vec1::<u32>()?;
        for (&pair, id) in batch.edge_pairs()?.iter().zip(ids) {
            if id as usize >= self.types {
                return Err(Error::Encoding(format!(
                    "Graphormer's bias has {} edge types, but an edge has the category {id}",
                    self.types
                )));
            }
            if let Some(slot) = of_pairs.get_mut(pair as usize) {
                *slot = id;
            }
        }
        Ok(of_pairs)
    }
}

/// The shortest paths of a batch.
struct Paths {
    distances: Vec<f32>,
    predecessors: Vec<f32>,
    categories: Vec<u32>,
    unreachable: f32,
}

impl Paths {
    /// Calls `edge` with place and category of every edge that counts on the path of `pair`, the
    /// number of a pair in its graph of `n` nodes, whose pairs start at `first`.
    fn walk(&self, n: usize, first: usize, pair: usize, mut edge: impl FnMut(usize, u32)) {
        let (start, mut node) = (pair / n, pair % n);
        let at = |node: usize| first + start * n + node;
        let distance = |node| self.distances.get(at(node)).copied().unwrap_or(0.0);
        let before = |node| {
            let found = self.predecessors.get(at(node)).copied().unwrap_or(-1.0);
            (found >= 0.0 && (found as usize) < n).then_some(found as usize)
        };
        let length = distance(node);
        if length == self.unreachable {
            return;
        }
        // Beyond the furthest distance the predecessor is the node that all have in common.
        if let Some(common) = before(node).filter(|&common| distance(common) == length) {
            node = common;
        }
        for place in (0..length as usize).rev() {
            let Some(previous) = before(node) else {
                return;
            };
            let on = first + node * n + previous;
            edge(place, self.categories.get(on).copied().unwrap_or(0));
            node = previous;
        }
    }
}

/// The pair array called `name`, `[pairs, 1]`.
fn pair_array<'a>(batch: &'a GraphBatch, name: &str) -> EngineResult<&'a Tensor> {
    let array = batch.encoding(name)?;
    let pairs = batch.num_pairs()?;
    match array.dims() == [pairs, 1] {
        true => Ok(array),
        false => Err(Error::Encoding(format!(
            "`{name}` of shape {:?}, expected [{pairs}, 1]",
            array.dims(),
        ))),
    }
}
