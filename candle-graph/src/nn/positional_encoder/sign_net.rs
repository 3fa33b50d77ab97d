//! Sign-invariant network on Laplacian eigenvectors (SignNet, Lim et al., ICLR 2023).

use candle_core::{DType, Result, Tensor};
use candle_nn::VarBuilder;

use super::SignInvariantPooling;
use super::frequencies::Frequencies;
use crate::encodings::SIGN_NET_EIGENVECTORS;
use crate::error::Result as EngineResult;
use crate::graph::GraphBatch;
use crate::nn::linear::ExactLinear;
use crate::nn::{NORM_EPS, norm::ExactBatchNorm};
use crate::ops::{
    self, Activation, Affine, LinearWeights, NeighbourSumInput, Reduction, neighbour_sum,
    segment_reduce,
};

/// Sizes of a SignNet, as [`PositionalEncoderConfig`](super::PositionalEncoderConfig) names them.
pub(super) struct SignNetShape {
    pub(super) frequencies: usize,
    pub(super) layers: usize,
    pub(super) hidden_dim: usize,
    pub(super) output_dim: usize,
    pub(super) pooling: SignInvariantPooling,
    pub(super) post_layers: usize,
}

/// A layer of the graph isomorphism network: `MLP((1 + ε)·x_t + Σ x_s)` over the edges s → t, the
/// perceptron being affine → ReLU → BatchNorm → affine, with all of the norm but its mean folded into
/// its neighbour.
#[derive(Debug, Clone)]
struct GinLayer {
    /// 1 + ε, `[1]`.
    own: Tensor,
    input: LinearWeights,
    centre: Affine,
    output: LinearWeights,
}

/// `ρ(φ(v₁) + φ(−v₁), …)` with a graph isomorphism network φ on every eigenvector.
#[derive(Debug, Clone)]
pub(super) struct SignNet {
    frequencies: usize,
    pooling: SignInvariantPooling,
    layers: Vec<GinLayer>,
    post: Vec<(Option<Affine>, LinearWeights)>,
}

impl SignNet {
    /// Loads, BatchNorm being `{weight,bias,running_mean,running_var}`: for every layer of φ
    /// `layers.{l}.eps` `[1]`, `layers.{l}.input.{weight,bias}`, `layers.{l}.norm.…`,
    /// `layers.{l}.output.{weight,bias}`; between them `norms.{l}.…` before layer l + 1; for ρ
    /// `post.{j}.{weight,bias}` and after all but the last `post_norms.{j}.…`.
    pub(super) fn new(shape: &SignNetShape, dim: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        let hidden = shape.hidden_dim;
        let norm = |vb: VarBuilder<'_>| ExactBatchNorm::new(hidden, NORM_EPS, &vb);
        let mut layers = Vec::with_capacity(shape.layers);
        for l in 0..shape.layers {
            let vb_layer = vb.pp("layers").pp(l);
            let width = if l == 0 { 1 } else { hidden };
            let last = l + 1 == shape.layers;
            let out = if last { shape.output_dim } else { hidden };
            let output = ExactLinear::new(hidden, out, &vb_layer.pp("output"))?;
            let (centre, rest) = norm(vb_layer.pp("norm"))?.centred()?;
            let mut output = output.after(&rest)?;
            if !last {
                output = output.before(&norm(vb.pp("norms").pp(l))?.affine()?)?;
            }
            let eps = vb_layer.get(1, "eps")?.to_dtype(DType::F64)?;
            let own = (eps + 1.0)?.to_dtype(vb.dtype())?;
            layers.push(GinLayer {
                own,
                input: ExactLinear::new(width, hidden, &vb_layer.pp("input"))?.finish()?,
                centre,
                output: output.finish()?,
            });
        }
        let joined = match shape.pooling {
            SignInvariantPooling::Concatenate => shape.output_dim.saturating_mul(shape.frequencies),
            SignInvariantPooling::Sum => shape.output_dim,
        };
        let mut post = Vec::with_capacity(shape.post_layers);
        for j in 0..shape.post_layers {
            let width = if j == 0 { joined } else { hidden };
            let last = j + 1 == shape.post_layers;
            let out = if last { dim } else { hidden };
            let mut map = ExactLinear::new(width, out, &vb.pp("post").pp(j))?;
            let mut centre = None;
            if let Some(before) = j.checked_sub(1) {
                let (of_mean, rest) = norm(vb.pp("post_norms").pp(before))?.centred()?;
                map = map.after(&rest)?;
                centre = Some(of_mean);
            }
            post.push((centre, map.finish()?));
        }
        Ok(Self {
            frequencies: shape.frequencies,
            pooling: shape.pooling,
            layers,
            post,
        })
    }

    /// `[nodes, dim]`.
    pub(super) fn forward(&self, batch: &GraphBatch) -> EngineResult<Tensor> {
        let vectors = batch.encoding(SIGN_NET_EIGENVECTORS)?;
        let nodes = batch.num_nodes();
        let largest = batch.node_ptr().lengths().max().unwrap_or(0);
        let used = match self.pooling {
            // A slot that no graph fills comes to nothing in the sum.
            SignInvariantPooling::Sum => largest.min(self.frequencies),
            // Slots that no graph fills hold the same zeros: one stands for all.
            SignInvariantPooling::Concatenate => (largest + 1).min(self.frequencies),
        };
        let vectors = vectors.narrow(1, 0, used)?;
        let invariant = self.phi(&vectors, batch)?;
        let mut states = match self.pooling {
            SignInvariantPooling::Sum => {
                let frequencies = Frequencies::new(batch, used)?;
                let rows = frequencies.select(invariant.reshape((nodes * used, ()))?)?;
                segment_reduce(&rows, &frequencies.ptr, Reduction::Sum)?
            }
            SignInvariantPooling::Concatenate if used < self.frequencies => {
                let width = invariant.dim(1)? / used.max(1);
                let spare = invariant.narrow(1, width * (used - 1), width)?;
                let mut slots = vec![invariant];
                slots.resize(1 + self.frequencies - used, spare);
                Tensor::cat(&slots, 1)?
            }
            SignInvariantPooling::Concatenate => invariant,
        };
        for (j, (centre, map)) in self.post.iter().enumerate() {
            if let Some(centre) = centre {
                states = centre.forward(&states)?;
            }
            let activation = match j + 1 == self.post.len() {
                true => Activation::Identity,
                false => Activation::Relu,
            };
            states = ops::linear(&states, map, activation)?;
        }
        Ok(states)
    }

    /// `φ(v) + φ(−v)` for the columns of `vectors` `[nodes, slots]`: `[nodes, slots · width]`.
    /// Both signs go through the layers side by side, as 2 · slots channels of a node.
    fn phi(&self, vectors: &Tensor, batch: &GraphBatch) -> Result<Tensor> {
        let (nodes, slots) = vectors.dims2()?;
        let dtype = match self.layers.first() {
            Some(layer) => layer.input.weight().dtype(),
            None => vectors.dtype(),
        };
        let vectors = vectors.to_dtype(dtype)?;
        let mut states = Tensor::cat(&[&vectors, &vectors.neg()?], 1)?;
        for layer in &self.layers {
            let gathered = neighbour_sum(NeighbourSumInput {
                nodes: &states,
                adjacency: batch.edges().adjacency(),
                edge_states: None,
                weights: None,
                self_weight: Some(&layer.own),
            })?;
            let rows = gathered.reshape((nodes * 2 * slots, layer.input.in_dim()))?;
            let rows = ops::linear(&rows, &layer.input, Activation::Relu)?;
            let rows = layer.centre.forward(&rows)?;
            let rows = ops::linear(&rows, &layer.output, Activation::Identity)?;
            states = rows.reshape((nodes, 2 * slots * layer.output.out_dim()))?;
        }
        let half = states.dim(1)? / 2;
        states.narrow(1, 0, half)? + states.narrow(1, half, half)?
    }
}
