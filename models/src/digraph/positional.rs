//! Encodings of direction, in node states or in the attention.

use candle_core::{DType, Tensor};
use candle_graph::Result;
use candle_graph::encodings::{
    DIRECTED_WALK, MAGNETIC_EIGENVALUES, MAGNETIC_EIGENVECTORS_IMAG, MAGNETIC_EIGENVECTORS_REAL,
    SVD,
};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{EigenvectorInput, MagLapNet, MagLapNetSizes, NodeEncodings, linear};
use candle_graph::ops::{self, Activation, LinearWeights, Reduction, segment_reduce};
use candle_nn::VarBuilder;

use super::DirectedPositionalConfig;
use crate::Trace;

/// The built encoder of direction.
#[derive(Debug, Clone)]
pub(super) struct DirectedPositional {
    kind: Kind,
    dtype: DType,
    activation: Activation,
}

#[derive(Debug, Clone)]
enum Kind {
    Magnetic {
        network: MagLapNet,
        complex: bool,
        relative: bool,
    },
    Walk {
        pair: LinearWeights,
        node: LinearWeights,
    },
    RelativeWalk,
    Svd(LinearWeights),
}

/// How direction enters a model.
pub(super) enum Direction {
    /// Added to the states of the nodes, `[nodes, D]`, without tokens.
    Added(Tensor),
    /// Read by attention in every layer.
    Relative(Relative),
}

/// What attention reads in every layer.
pub(super) enum Relative {
    /// Parts of queries and keys, `[nodes, D]`, tokens included.
    Complex(NodeEncodings),
    /// Walks of the pairs, `[pairs, channels]`, tokens included: from the attending node to the one
    /// that is attended to.
    Pairs(Tensor),
}

impl DirectedPositional {
    /// Loads `network.…` of MagLapNet; of absolute walks the maps `pair` `[channels, channels]` and
    /// `node` `[D, channels]`; of singular vectors the map `node` `[D, 2·rank]`.
    pub(super) fn new(
        config: &DirectedPositionalConfig,
        width: usize,
        activation: Activation,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        let kind = match config {
            DirectedPositionalConfig::Magnetic {
                eigenvectors,
                network,
                relative,
            } => {
                let (complex, relative) = (eigenvectors.is_complex(), *relative);
                let sizes = MagLapNetSizes {
                    eigenvectors: eigenvectors.k,
                    complex,
                    width,
                    complex_output: relative,
                };
                Kind::Magnetic {
                    network: MagLapNet::new(network, sizes, activation, vb.pp("network"))?,
                    complex,
                    relative,
                }
            }
            DirectedPositionalConfig::Walk { relative: true, .. } => Kind::RelativeWalk,
            DirectedPositionalConfig::Walk { walks, .. } => Kind::Walk {
                pair: linear(walks.channels(), walks.channels(), vb.pp("pair"))?,
                node: linear(walks.channels(), width, vb.pp("node"))?,
            },
            DirectedPositionalConfig::Svd(svd) => {
                Kind::Svd(linear(2 * svd.rank, width, vb.pp("node"))?)
            }
        };
        Ok(Self {
            kind,
            dtype: vb.dtype(),
            activation,
        })
    }

    /// What the layers need of the direction of the edges of `batch`; `tokens` is the batch with
    /// tokens where there are any.
    pub(super) fn forward(
        &self,
        batch: &GraphBatch,
        tokens: Option<&GraphBatch>,
        trace: &mut Trace,
    ) -> Result<Direction> {
        match &self.kind {
            Kind::Magnetic {
                network,
                complex,
                relative,
            } => {
                let tokens = tokens.filter(|_| *relative);
                let encodings = self.magnetic(network, *complex, batch, tokens)?;
                trace.record(|| "positional.network".to_string(), &encodings.real);
                if let Some(imaginary) = &encodings.imaginary {
                    trace.record(|| "positional.network_imaginary".to_string(), imaginary);
                }
                Ok(match relative {
                    true => Direction::Relative(Relative::Complex(encodings)),
                    false => Direction::Added(encodings.real),
                })
            }
            Kind::Walk { pair, node } => {
                let walks = self.encoding(batch, DIRECTED_WALK)?;
                let states = ops::linear(&walks, pair, self.activation)?;
                let sums = segment_reduce(&states, batch.pairs().by_target()?, Reduction::Sum)?;
                Ok(Direction::Added(ops::linear(&sums, node, self.activation)?))
            }
            Kind::RelativeWalk => {
                let walks = self.encoding(batch, DIRECTED_WALK)?;
                // Attention goes from its targets to its sources, walks the other way.
                let walks = batch.pairs().transposed(&walks)?;
                Ok(Direction::Relative(Relative::Pairs(match tokens {
                    Some(tokens) => {
                        // A token is a node without edges: a walk stays there.
                        let mixed = walks.narrow(0, 0, 1)?.zeros_like()?;
                        tokens.with_token_pairs(&mixed, &mixed.ones_like()?, &walks)?
                    }
                    None => walks,
                })))
            }
            Kind::Svd(map) => {
                let vectors = self.encoding(batch, SVD)?;
                Ok(Direction::Added(ops::linear(
                    &vectors,
                    map,
                    self.activation,
                )?))
            }
        }
    }

    /// The encoding `name` in the model's number type.
    fn encoding(&self, batch: &GraphBatch, name: &str) -> Result<Tensor> {
        Ok(batch.encoding(name)?.to_dtype(self.dtype)?)
    }

    /// The encodings of eigenvectors, with rows of tokens where there are any: those of a node at
    /// which all eigenvectors are 0.
    fn magnetic(
        &self,
        network: &MagLapNet,
        complex: bool,
        batch: &GraphBatch,
        tokens: Option<&GraphBatch>,
    ) -> Result<NodeEncodings> {
        let vectors = |name: &str| -> Result<Tensor> {
            let vectors = self.encoding(batch, name)?;
            match tokens {
                Some(tokens) => {
                    let shape = (1, vectors.dim(1)?);
                    let zeros = Tensor::zeros(shape, self.dtype, batch.device())?;
                    Ok(tokens.with_token_rows(&zeros, &vectors)?)
                }
                None => Ok(vectors),
            }
        };
        let real = vectors(MAGNETIC_EIGENVECTORS_REAL)?;
        let imaginary = match complex {
            true => Some(vectors(MAGNETIC_EIGENVECTORS_IMAG)?),
            false => None,
        };
        let all = tokens.unwrap_or(batch);
        Ok(network.forward(EigenvectorInput {
            eigenvalues: &self.encoding(batch, MAGNETIC_EIGENVALUES)?,
            real: &real,
            imaginary: imaginary.as_ref(),
            node_ptr: all.node_ptr(),
            edges: all.edges().adjacency(),
        })?)
    }
}
