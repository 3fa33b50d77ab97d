//! A degree-normalised graph convolution along and against the edges.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::{DirectedMessagePassingConfig, States};
use crate::graph::Adjacency;
use crate::nn::linear;
use crate::ops::{
    self, Activation, EdgeUpdateInput, LinearWeights, edge_update, sum_by_source, sum_by_target,
};

/// With `y = W·x + b`, degrees d and the activation φ: `x' = φ(Σ_in n·φ(y_s + e) + Σ_out n·φ(y_t +
/// e_back) + φ(y + root) / (d_in + 1))`, `n = 1/√((d_out(s) + 1)·(d_in(t) + 1))`, where e and e_back
/// are affine maps of the edge states; the second sum with `bidirectional` only.
///
/// The official code reads the forward map of nodes in both directions; the backward one, which its
/// checkpoints hold as well, has no effect.
#[derive(Debug, Clone)]
pub(super) struct ConvolutionStep {
    nodes: LinearWeights,
    edges: LinearWeights,
    backward_edges: Option<LinearWeights>,
    root: Tensor,
    activation: Activation,
}

impl ConvolutionStep {
    /// Loads the maps `node`, `edge` and, where they are wanted, `backward_edge`, and `root`
    /// `[1, out]`.
    pub(super) fn new(
        config: &DirectedMessagePassingConfig,
        [nodes, edges, out]: [usize; 3],
        activation: Activation,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        Ok(Self {
            nodes: linear(nodes, out, vb.pp("node"))?,
            edges: linear(edges, out, vb.pp("edge"))?,
            backward_edges: match config.bidirectional {
                true => Some(linear(edges, out, vb.pp("backward_edge"))?),
                false => None,
            },
            root: vb.get((1, out), "root")?,
            activation,
        })
    }

    /// One step; edge states stay as they are.
    pub(super) fn forward(&self, states: &States, edges: &Adjacency) -> Result<States> {
        let nodes = ops::linear(&states.nodes, &self.nodes, Activation::Identity)?;
        let own = self.activation.forward(&nodes.broadcast_add(&self.root)?)?;
        let degrees = Degrees::new(edges, &nodes)?;
        let mut sum = own.broadcast_mul(&degrees.in_inverse)?;
        if let (Some(of_edges), false) = (&states.edges, edges.is_empty()) {
            let zeros = nodes.zeros_like()?;
            let messages = |map: &LinearWeights, ends: [&Tensor; 2]| -> Result<Tensor> {
                let messages = edge_update(EdgeUpdateInput {
                    edge_states: Some(&ops::linear(of_edges, map, Activation::Identity)?),
                    from_sources: ends[0],
                    from_targets: ends[1],
                    adjacency: edges,
                    activation: self.activation,
                })?;
                messages.broadcast_mul(&degrees.of_edges)
            };
            let forward = messages(&self.edges, [&nodes, &zeros])?;
            sum = (sum + sum_by_target(&forward, edges)?)?;
            if let Some(map) = &self.backward_edges {
                let backward = messages(map, [&zeros, &nodes])?;
                sum = (sum + sum_by_source(&backward, edges)?)?;
            }
        }
        Ok(States {
            nodes: self.activation.forward(&sum)?,
            edges: states.edges.clone(),
            channels: states.channels,
        })
    }
}

/// Factors from the degrees of the nodes.
struct Degrees {
    /// 1/(in-degree + 1), `[N, 1]`.
    in_inverse: Tensor,
    /// The factor of every edge, `[E, 1]`.
    of_edges: Tensor,
}

impl Degrees {
    fn new(edges: &Adjacency, like: &Tensor) -> Result<Self> {
        let mut out_degrees = vec![1.0f64; edges.num_nodes()];
        for &source in edges.sources() {
            if let Some(degree) = out_degrees.get_mut(source as usize) {
                *degree += 1.0;
            }
        }
        let in_degrees: Vec<f64> = (edges.ptr().lengths())
            .map(|degree| degree as f64 + 1.0)
            .collect();
        let degree =
            |degrees: &[f64], node: u32| degrees.get(node as usize).copied().unwrap_or(1.0);
        let of_edges: Vec<f64> = (edges.sources().iter().zip(edges.targets()))
            .map(|(&s, &t)| 1.0 / (degree(&out_degrees, s) * degree(&in_degrees, t)).sqrt())
            .collect();
        let column = |values: Vec<f64>| -> Result<Tensor> {
            let rows = values.len();
            Tensor::from_vec(values, (rows, 1), like.device())?.to_dtype(like.dtype())
        };
        Ok(Self {
            in_inverse: column(in_degrees.iter().map(|degree| 1.0 / degree).collect())?,
            of_edges: column(of_edges)?,
        })
    }
}
