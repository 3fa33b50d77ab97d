//! MagLapNet: from eigenvectors of the Magnetic Laplacian to positional encodings of nodes.

mod config;
#[cfg(test)]
mod tests;

use candle_core::{DType, Result, Tensor, bail};
use candle_nn::VarBuilder;

pub use config::MagLapNetConfig;

use super::directed_message_passing::MessageWidths;
use super::{
    DirectedMessageKind, DirectedMessagePassing, DirectedMessagePassingConfig, NORM_EPS,
    QueryKeyStates, StructureAwareAttention, StructureAwareAttentionConfig, layer_norm, linear,
};
use crate::graph::{Adjacency, Offsets};
use crate::ops::{self, Activation, LayerNorm, LinearWeights};

/// Sizes of a [`MagLapNet`].
#[derive(Debug, Clone, Copy)]
pub struct MagLapNetSizes {
    /// Number of eigenvectors, k.
    pub eigenvectors: usize,
    /// Whether they are complex.
    pub complex: bool,
    /// Width of the encodings, D.
    pub width: usize,
    /// Whether the encodings are complex.
    pub complex_output: bool,
}

/// What a [`MagLapNet`] reads of a batch of N nodes, in the number type of its weights.
#[derive(Debug, Clone, Copy)]
pub struct EigenvectorInput<'a> {
    /// Eigenvalues of every graph, `[graphs, k]`, 0 where a graph has fewer.
    pub eigenvalues: &'a Tensor,
    /// Real parts of the eigenvectors, `[N, k]`, 0 where a graph has fewer.
    pub real: &'a Tensor,
    /// Imaginary parts, `[N, k]`, of complex eigenvectors.
    pub imaginary: Option<&'a Tensor>,
    /// Nodes of every graph.
    pub node_ptr: &'a Offsets,
    /// The edges.
    pub edges: &'a Adjacency,
}

/// Encodings of nodes, `[N, D]`.
#[derive(Debug, Clone)]
pub struct NodeEncodings {
    /// The encodings, or their real part.
    pub real: Tensor,
    /// The imaginary part of complex encodings.
    pub imaginary: Option<Tensor>,
}

/// The network.
///
/// An eigenvector with an eigenvalue that is not positive counts as one that the graph does not
/// have, save the first, as in the official code: the eigenvalues of a Magnetic Laplacian are not
/// negative, and zeros fill up what small graphs lack.
#[derive(Debug, Clone)]
pub struct MagLapNet {
    sizes: MagLapNetSizes,
    network: Network,
}

#[derive(Debug, Clone)]
enum Network {
    Elementwise(Box<Elementwise>),
    Naive([LinearWeights; 2]),
}

#[derive(Debug, Clone)]
struct Elementwise {
    element: Element,
    sign_invariant: bool,
    eigenvalues: bool,
    values: usize,
    attention: Option<(LayerNorm, StructureAwareAttention)>,
    aggregate: LinearWeights,
    aggregate_imaginary: Option<LinearWeights>,
    activation: Activation,
}

#[derive(Debug, Clone)]
enum Element {
    Perceptron(LinearWeights),
    MessagePassing(DirectedMessagePassing),
}

impl MagLapNet {
    /// Loads, with c = 2 for complex eigenvectors, e values of an element (doubled by c) and f = e,
    /// or e + 1 with eigenvalues: the map `element` `[e, c]`, or with message passing `element.…` as
    /// [`DirectedMessagePassing`] does; the LayerNorm `norm` `[f]` and `attention.…` where there is
    /// one; the maps `aggregate` `[D, k·f]` and, for complex encodings, `aggregate_imaginary`. The
    /// naive network has the maps `real` and `imaginary` `[D, k]`.
    ///
    /// # Errors
    /// Options that [`MagLapNetConfig::check`] refuses, missing or mis-shaped tensors.
    pub fn new(
        config: &MagLapNetConfig,
        sizes: MagLapNetSizes,
        activation: Activation,
        vb: VarBuilder<'_>,
    ) -> Result<Self> {
        if let Err(invalid) = config.check(sizes.complex) {
            bail!("MagLapNet: {invalid}");
        }
        let network = match config {
            MagLapNetConfig::Elementwise {
                message_passing,
                sign_invariant,
                eigenvalues,
                attention_heads,
                ..
            } => {
                let values = config.values(sizes.complex);
                let element_dim = values - usize::from(*eigenvalues);
                let parts = if sizes.complex { 2 } else { 1 };
                let aggregate =
                    |name: &str| linear(sizes.eigenvectors * values, sizes.width, vb.pp(name));
                Network::Elementwise(Box::new(Elementwise {
                    element: match message_passing {
                        false => Element::Perceptron(linear(parts, element_dim, vb.pp("element"))?),
                        true => Element::MessagePassing(DirectedMessagePassing::new(
                            &ELEMENT_MESSAGES,
                            MessageWidths {
                                nodes: parts,
                                edges: None,
                                out: element_dim,
                            },
                            activation,
                            vb.pp("element"),
                        )?),
                    },
                    sign_invariant: *sign_invariant,
                    eigenvalues: *eigenvalues,
                    values,
                    attention: match attention_heads {
                        Some(heads) => Some((
                            layer_norm(values, NORM_EPS, vb.pp("norm"))?,
                            StructureAwareAttention::new(
                                StructureAwareAttentionConfig {
                                    width: values,
                                    heads: *heads,
                                    head_dim: values / heads,
                                    bias: false,
                                    complex: false,
                                    separate_imaginary: false,
                                    pair_encoding: None,
                                },
                                vb.pp("attention"),
                            )?,
                        )),
                        None => None,
                    },
                    aggregate: aggregate("aggregate")?,
                    aggregate_imaginary: match sizes.complex_output && sizes.complex {
                        true => Some(aggregate("aggregate_imaginary")?),
                        false => None,
                    },
                    activation,
                }))
            }
            MagLapNetConfig::Naive => {
                let map = |name: &str| linear(sizes.eigenvectors, sizes.width, vb.pp(name));
                Network::Naive([map("real")?, map("imaginary")?])
            }
        };
        Ok(Self { sizes, network })
    }

    /// Encodings of the nodes of a batch.
    ///
    /// # Errors
    /// Shapes that do not fit, real eigenvectors for a network of complex ones.
    pub fn forward(&self, input: EigenvectorInput<'_>) -> Result<NodeEncodings> {
        let nodes = input.node_ptr.total();
        let k = self.sizes.eigenvectors;
        let graphs = input.node_ptr.num_segments();
        let fits = |tensor: &Tensor, rows: usize| tensor.dims() == [rows, k];
        let parts = std::iter::once(input.real).chain(input.imaginary);
        if !fits(input.eigenvalues, graphs) || !parts.clone().all(|part| fits(part, nodes)) {
            bail!(
                "MagLapNet: eigenvalues of shape {:?} and eigenvectors of {:?}, expected {k} of \
                 {graphs} graphs and {nodes} nodes",
                input.eigenvalues.dims(),
                input.real.dims()
            );
        }
        if input.imaginary.is_some() != self.sizes.complex {
            bail!("MagLapNet: eigenvectors are complex for q other than 0, and only then");
        }
        match (&self.network, input.imaginary) {
            (Network::Naive([real, imaginary]), Some(part)) => Ok(NodeEncodings {
                real: (ops::linear(input.real, real, Activation::Identity)?
                    + ops::linear(part, imaginary, Activation::Identity)?)?,
                imaginary: None,
            }),
            (Network::Elementwise(network), _) => network.forward(input, k),
            (Network::Naive(_), None) => {
                bail!("MagLapNet: the naive network needs imaginary parts")
            }
        }
    }
}

/// The message passing of elements.
const ELEMENT_MESSAGES: DirectedMessagePassingConfig = DirectedMessagePassingConfig {
    messages: DirectedMessageKind::GraphNetwork,
    steps: 1,
    mlp_layers: 1,
    tightening_factor: 1,
    edge_features: false,
    concatenate: true,
    residual: false,
    bidirectional: true,
};

/// Which eigenvectors the graphs of a batch have.
struct Present {
    /// For every graph and eigenvector, `[graphs·k]`.
    of_graphs: Vec<bool>,
    all: bool,
}

impl Elementwise {
    fn forward(&self, input: EigenvectorInput<'_>, k: usize) -> Result<NodeEncodings> {
        let nodes = input.node_ptr.total();
        let present = Present::new(input.eigenvalues, k)?;
        let elements = self.elements(&input, k, nodes)?;
        let rows = present.rows(input.node_ptr, k);
        let mut own = match &rows {
            Some((rows, _)) => {
                let ids = Tensor::new(rows.as_slice(), elements.device())?;
                elements.index_select(&ids, 0)?
            }
            None => elements,
        };
        if let Some((norm, attention)) = &self.attention {
            own = norm.forward(&own)?;
            let of_nodes = match &rows {
                Some((_, of_nodes)) => of_nodes.clone(),
                None => vec![k; nodes],
            };
            let segments =
                Offsets::from_lengths(of_nodes, own.device()).map_err(candle_core::Error::wrap)?;
            let from_own = QueryKeyStates {
                real: None,
                imaginary: None,
            };
            let made = attention.forward(&own, from_own, &segments, None)?;
            own = (own + made)?;
        }
        let attended = match &rows {
            Some((rows, _)) => spread(&own, rows, nodes * k)?,
            None => own,
        };
        let all = attended.reshape((nodes, k * self.values))?;
        Ok(NodeEncodings {
            real: ops::linear(&all, &self.aggregate, self.activation)?,
            imaginary: match &self.aggregate_imaginary {
                Some(map) => Some(ops::linear(&all, map, self.activation)?),
                None => None,
            },
        })
    }

    /// The values of every element, `[N·k, values]`, the eigenvectors of a node one after the other.
    fn elements(&self, input: &EigenvectorInput<'_>, k: usize, nodes: usize) -> Result<Tensor> {
        let column = |part: &Tensor| part.reshape((nodes * k, 1));
        let vectors = match input.imaginary {
            Some(imaginary) => Tensor::cat(&[column(input.real)?, column(imaginary)?], 1)?,
            // The sign of the first real eigenvector, which has no zeros on a connected graph, is
            // told by rounding errors elsewhere.
            None => column(&first_column(input.real, |first| first.abs())?)?,
        };
        let mut values = self
            .element
            .forward(&vectors, input.edges, k, self.activation)?;
        if self.sign_invariant {
            let negative = vectors.neg()?;
            let negative = self
                .element
                .forward(&negative, input.edges, k, self.activation)?;
            let negative = match input.imaginary {
                // As the official code has it, for complex eigenvectors only.
                Some(_) => {
                    let width = negative.dim(1)?;
                    let rows = negative.reshape((nodes, k * width))?;
                    let first = rows.narrow(1, 0, width)?.zeros_like()?;
                    let rest = rows.narrow(1, width, (k - 1) * width)?;
                    Tensor::cat(&[first, rest], 1)?.reshape((nodes * k, width))?
                }
                None => negative,
            };
            values = (values + negative)?;
        }
        if self.eigenvalues {
            let eigenvalues = match input.imaginary {
                Some(_) => input.eigenvalues.clone(),
                None => first_column(input.eigenvalues, Tensor::zeros_like)?,
            };
            let of_nodes = of_graphs(&eigenvalues, input.node_ptr)?;
            let eigenvalues = column(&of_nodes)?;
            values = Tensor::cat(&[eigenvalues, values], 1)?;
        }
        Ok(values)
    }
}

impl Element {
    fn forward(
        &self,
        vectors: &Tensor,
        edges: &Adjacency,
        channels: usize,
        activation: Activation,
    ) -> Result<Tensor> {
        match self {
            Self::Perceptron(map) => ops::linear(vectors, map, activation),
            Self::MessagePassing(layers) => layers.forward_channels(vectors, edges, channels),
        }
    }
}

impl Present {
    /// From eigenvalues `[graphs, k]`.
    fn new(eigenvalues: &Tensor, k: usize) -> Result<Self> {
        let eigenvalues = eigenvalues.to_dtype(DType::F32)?.flatten_all()?;
        let of_graphs: Vec<bool> = (eigenvalues.to_vec1::<f32>()?.iter().enumerate())
            .map(|(at, &value)| value > 0.0 || at.checked_rem(k) == Some(0))
            .collect();
        Ok(Self {
            all: of_graphs.iter().all(|&present| present),
            of_graphs,
        })
    }

    /// The rows of `[N·k]` that are there, and how many of every node; `None` if all are.
    fn rows(&self, node_ptr: &Offsets, k: usize) -> Option<(Vec<u32>, Vec<usize>)> {
        if self.all || k == 0 {
            return None;
        }
        let (mut rows, mut lengths) = (Vec::new(), Vec::new());
        for (nodes, present) in node_ptr.ranges().zip(self.of_graphs.chunks_exact(k)) {
            let count = present.iter().filter(|&&present| present).count();
            for node in nodes {
                let own = present.iter().enumerate().filter(|&(_, &present)| present);
                rows.extend(own.map(|(at, _)| (node * k + at) as u32));
                lengths.push(count);
            }
        }
        Some((rows, lengths))
    }
}

/// `values` in the rows `rows` of a matrix of `count` rows that is 0 elsewhere.
fn spread(values: &Tensor, rows: &[u32], count: usize) -> Result<Tensor> {
    // Row 0 is the one of zeros.
    let mut ids = vec![0u32; count];
    for (position, &row) in rows.iter().enumerate() {
        if let Some(id) = ids.get_mut(row as usize) {
            *id = position as u32 + 1;
        }
    }
    let zeros = Tensor::zeros((1, values.dim(1)?), values.dtype(), values.device())?;
    let ids = Tensor::from_vec(ids, count, values.device())?;
    Tensor::cat(&[&zeros, values], 0)?.index_select(&ids, 0)
}

/// `matrix` with its first column changed.
fn first_column(matrix: &Tensor, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let columns = matrix.dim(1)?;
    let first = change(&matrix.narrow(1, 0, 1)?)?;
    Tensor::cat(&[first, matrix.narrow(1, 1, columns - 1)?], 1)
}

/// The row of its graph for every node: `[graphs, width]` to `[N, width]`.
pub(super) fn of_graphs(rows: &Tensor, node_ptr: &Offsets) -> Result<Tensor> {
    let ids: Vec<u32> = (node_ptr.lengths().enumerate())
        .flat_map(|(graph, nodes)| std::iter::repeat_n(graph as u32, nodes))
        .collect();
    let count = ids.len();
    rows.index_select(&Tensor::from_vec(ids, count, rows.device())?, 0)
}
