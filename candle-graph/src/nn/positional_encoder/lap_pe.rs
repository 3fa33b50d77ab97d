//! Encoders of Laplacian eigenvectors and eigenvalues (LapPE).

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::frequencies::Frequencies;
use super::perceptron::{Perceptron, widths};
use super::{EigenvectorSet, LapPeEncoderConfig};
use crate::encodings::{LAP_PE_EIGENVALUES, LAP_PE_EIGENVECTORS};
use crate::error::Result as EngineResult;
use crate::graph::{GraphBatch, Offsets};
use crate::nn::{MultiHeadAttention, NORM_EPS, batch_norm, layer_norm, linear};
use crate::ops::{
    self, Activation, Affine, LayerNorm, LinearWeights, Reduction, feed_forward, segment_reduce,
};

/// Width of the feed-forward block of PyTorch's `TransformerEncoderLayer`.
const FEED_FORWARD: usize = 2048;

/// A layer of PyTorch's `TransformerEncoder` as it is by default: norms after the residual sums.
#[derive(Debug, Clone)]
struct TransformerLayer {
    attention: MultiHeadAttention,
    norm_attention: LayerNorm,
    feed_forward: [LinearWeights; 2],
    norm_feed_forward: LayerNorm,
}

impl TransformerLayer {
    fn new(width: usize, heads: usize, vb: &VarBuilder<'_>) -> Result<Self> {
        let norm = |name| layer_norm(width, NORM_EPS, vb.pp(name));
        let block = vb.pp("feed_forward");
        Ok(Self {
            attention: MultiHeadAttention::new(width, heads, true, vb.pp("attention"))?,
            norm_attention: norm("norm_attention")?,
            feed_forward: [
                linear(width, FEED_FORWARD, block.pp("input"))?,
                linear(FEED_FORWARD, width, block.pp("output"))?,
            ],
            norm_feed_forward: norm("norm_feed_forward")?,
        })
    }

    fn forward(&self, x: &Tensor, sets: &Offsets) -> Result<Tensor> {
        let attended = self.attention.forward(x, sets, None, None)?;
        let x = self.norm_attention.forward(&(x + attended)?)?;
        let hidden = feed_forward(&x, self.feed_forward.each_ref(), Activation::Relu)?;
        self.norm_feed_forward.forward(&(x + hidden)?)
    }
}

#[derive(Debug, Clone)]
enum Set {
    DeepSet(Perceptron),
    Transformer(Vec<TransformerLayer>),
}

/// Maps the pairs (eigenvector value, eigenvalue) of a node to one vector.
#[derive(Debug, Clone)]
pub(in crate::nn) struct LapPeEncoder {
    frequencies: usize,
    raw_norm: Option<Affine>,
    input: LinearWeights,
    set: Set,
    post: Perceptron,
}

impl LapPeEncoder {
    /// Loads `raw_norm.{weight,bias,running_mean,running_var}` `[frequencies]`, where there is one;
    /// `input.{weight,bias}` from the pairs; for a deep set `layers.{j}.{weight,bias}`, for a
    /// transformer `layers.{l}.attention.…`, `layers.{l}.feed_forward.{input,output}.{weight,bias}`,
    /// `layers.{l}.{norm_attention,norm_feed_forward}.{weight,bias}`; `post.{j}.{weight,bias}`.
    pub(in crate::nn) fn new(config: &LapPeEncoderConfig, vb: &VarBuilder<'_>) -> Result<Self> {
        let (frequencies, dim) = (config.recipe.frequencies, config.dim);
        let layers = vb.pp("layers");
        let (input, set) = match &config.set {
            EigenvectorSet::DeepSet { layers: count } => {
                let widths = widths(2, dim, *count);
                let input = widths.get(1).copied().unwrap_or(dim);
                let rest = widths.get(1..).unwrap_or_default();
                (input, Set::DeepSet(Perceptron::new(rest, &layers)?))
            }
            EigenvectorSet::Transformer {
                layers: count,
                heads,
            } => {
                let made = (0..*count).map(|l| TransformerLayer::new(dim, *heads, &layers.pp(l)));
                (dim, Set::Transformer(made.collect::<Result<_>>()?))
            }
        };
        let post = match config.post_layers {
            0 => Vec::new(),
            layers => widths(dim, dim, layers),
        };
        Ok(Self {
            frequencies,
            raw_norm: match config.raw_norm {
                true => Some(batch_norm(frequencies, NORM_EPS, vb.pp("raw_norm"))?),
                false => None,
            },
            input: linear(2, input, vb.pp("input"))?,
            set,
            post: Perceptron::new(&post, &vb.pp("post"))?,
        })
    }

    /// `[nodes, dim]`. Frequencies that a graph does not have take no part.
    pub(in crate::nn) fn forward(&self, batch: &GraphBatch) -> EngineResult<Tensor> {
        let values = |name| -> EngineResult<Tensor> {
            let values = batch.encoding(name)?;
            let values = values.to_dtype(self.input.weight().dtype())?;
            Ok(match &self.raw_norm {
                Some(norm) => norm.forward(&values)?,
                None => values,
            })
        };
        let vectors = values(LAP_PE_EIGENVECTORS)?;
        let pairs = Tensor::stack(&[&vectors, &values(LAP_PE_EIGENVALUES)?], 2)?;
        let pairs = pairs.reshape(((), 2))?;
        let frequencies = Frequencies::new(batch, self.frequencies)?;
        let pairs = frequencies.select(pairs)?;
        let states = match &self.set {
            Set::DeepSet(perceptron) => {
                let states = ops::linear(&pairs, &self.input, Activation::Relu)?;
                perceptron.forward(states)?
            }
            Set::Transformer(layers) => {
                let states = ops::linear(&pairs, &self.input, Activation::Identity)?;
                let step =
                    |x: Tensor, layer: &TransformerLayer| layer.forward(&x, &frequencies.ptr);
                layers.iter().try_fold(states, step)?
            }
        };
        let sums = segment_reduce(&states, &frequencies.ptr, Reduction::Sum)?;
        Ok(self.post.forward(sums)?)
    }
}
