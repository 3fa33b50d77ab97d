//! Encodings of direction, in node states or in the attention.

use candle_core::Tensor;
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
    activation: Activation,
    relative: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Magnetic {
        network: MagLapNet,
        complex: bool,
    },
    /// The maps of absolute encodings.
    Walk(Option<[LinearWeights; 2]>),
    Svd(LinearWeights),
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
        let (kind, relative) = match config {
            DirectedPositionalConfig::Magnetic {
                eigenvectors,
                network,
                relative,
            } => {
                let complex = eigenvectors.is_complex();
                let sizes = MagLapNetSizes {
                    eigenvectors: eigenvectors.k,
                    complex,
                    width,
                    complex_output: *relative,
                };
                let network = MagLapNet::new(network, sizes, activation, vb.pp("network"))?;
                (Kind::Magnetic { network, complex }, *relative)
            }
            DirectedPositionalConfig::Walk { walks, relative } => {
                let channels = walks.channels();
                let maps = match relative {
                    true => None,
                    false => Some([
                        linear(channels, channels, vb.pp("pair"))?,
                        linear(channels, width, vb.pp("node"))?,
                    ]),
                };
                (Kind::Walk(maps), *relative)
            }
            DirectedPositionalConfig::Svd(svd) => (
                Kind::Svd(linear(2 * svd.rank, width, vb.pp("node"))?),
                false,
            ),
        };
        Ok(Self {
            kind,
            activation,
            relative,
        })
    }

    /// Whether the encodings are read by attention instead of being added to the states.
    pub(super) fn is_relative(&self) -> bool {
        self.relative
    }

    /// What is added to the states of the nodes, `[nodes, D]`.
    pub(super) fn absolute(&self, batch: &GraphBatch, trace: &mut Trace) -> Result<Tensor> {
        match &self.kind {
            Kind::Magnetic { network, complex } => {
                let encodings = magnetic(network, *complex, batch, None)?;
                trace.record(|| "positional.network".to_string(), &encodings.real);
                Ok(encodings.real)
            }
            Kind::Walk(maps) => {
                let walks = batch.encoding(DIRECTED_WALK)?;
                let Some([pair, node]) = maps else {
                    return Ok(walks.clone());
                };
                let walks = walks.to_dtype(pair.weight().dtype())?;
                let states = ops::linear(&walks, pair, self.activation)?;
                let sums = segment_reduce(&states, batch.pairs().by_target()?, Reduction::Sum)?;
                Ok(ops::linear(&sums, node, self.activation)?)
            }
            Kind::Svd(map) => {
                let vectors = batch.encoding(SVD)?.to_dtype(map.weight().dtype())?;
                Ok(ops::linear(&vectors, map, self.activation)?)
            }
        }
    }

    /// What attention reads, for the nodes of `tokens` where there are any.
    pub(super) fn relative(
        &self,
        batch: &GraphBatch,
        tokens: Option<&GraphBatch>,
        trace: &mut Trace,
    ) -> Result<Relative> {
        match &self.kind {
            Kind::Magnetic { network, complex } => {
                let encodings = magnetic(network, *complex, batch, tokens)?;
                trace.record(|| "positional.network".to_string(), &encodings.real);
                if let Some(imaginary) = &encodings.imaginary {
                    trace.record(|| "positional.network_imaginary".to_string(), imaginary);
                }
                Ok(Relative::Complex(encodings))
            }
            Kind::Walk(_) | Kind::Svd(_) => {
                let walks = batch.encoding(DIRECTED_WALK)?;
                // Attention goes from its targets to its sources, walks the other way.
                let walks = batch.pairs().transposed(walks)?;
                Ok(Relative::Pairs(match tokens {
                    Some(tokens) => {
                        // A token is a node without edges: a walk stays there.
                        let mixed = walks.narrow(0, 0, 1)?.zeros_like()?;
                        tokens.with_token_pairs(&mixed, &mixed.ones_like()?, &walks)?
                    }
                    None => walks,
                }))
            }
        }
    }
}

/// The encodings of eigenvectors, with rows of tokens where there are any: those of a node at which
/// all eigenvectors are 0.
fn magnetic(
    network: &MagLapNet,
    complex: bool,
    batch: &GraphBatch,
    tokens: Option<&GraphBatch>,
) -> Result<NodeEncodings> {
    let vectors = |name: &str| -> Result<Tensor> {
        let vectors = batch.encoding(name)?;
        match tokens {
            Some(tokens) => {
                let zeros = Tensor::zeros((1, vectors.dim(1)?), vectors.dtype(), batch.device())?;
                Ok(tokens.with_token_rows(&zeros, vectors)?)
            }
            None => Ok(vectors.clone()),
        }
    };
    let real = vectors(MAGNETIC_EIGENVECTORS_REAL)?;
    let imaginary = match complex {
        true => Some(vectors(MAGNETIC_EIGENVECTORS_IMAG)?),
        false => None,
    };
    let all = tokens.unwrap_or(batch);
    Ok(network.forward(EigenvectorInput {
        eigenvalues: batch.encoding(MAGNETIC_EIGENVALUES)?,
        real: &real,
        imaginary: imaginary.as_ref(),
        node_ptr: all.node_ptr(),
        edges: all.edges().adjacency(),
    })?)
}
