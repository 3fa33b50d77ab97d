//! Which positional and structural encodings a model reads, and through what.

use serde::{Deserialize, Serialize};

use crate::encodings::{Electrostatic, EncodingRecipe, Graphormer, HeatKernel, LapPe, Rwse};

/// How LapPE's set of (eigenvector value, eigenvalue) pairs of a node becomes one vector
/// (`posenc_LapPE.model`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EigenvectorSet {
    /// A perceptron on every pair, then the sum.
    DeepSet {
        /// Number of affine maps (`layers`).
        layers: usize,
    },
    /// A transformer encoder among the pairs of a node, then the sum.
    Transformer {
        /// Number of transformer layers (`layers`).
        layers: usize,
        /// Number of attention heads (`n_heads`).
        heads: usize,
    },
}

/// How a row of kernel values is encoded (`posenc_RWSE.model` and its likes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum KernelEncoder {
    /// One affine map.
    Linear,
    /// A perceptron that ends with ReLU.
    Mlp {
        /// Number of affine maps (`layers`).
        layers: usize,
    },
}

/// How SignNet joins the invariant values of the eigenvectors (`posenc_SignNet.model`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SignInvariantPooling {
    /// Side by side (`MLP`).
    Concatenate,
    /// Their sum (`DeepSet`).
    Sum,
}

/// The encoder of Laplacian eigenvectors and eigenvalues: LapPE, and LapRoPE where it makes
/// coordinates for rotary encodings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LapPeEncoderConfig {
    /// The eigenvectors.
    pub recipe: LapPe,
    /// Columns that it makes (`dim_pe`).
    pub dim: usize,
    /// From pairs to a vector.
    pub set: EigenvectorSet,
    /// Affine maps after the sum, each followed by ReLU (`post_layers`).
    pub post_layers: usize,
    /// Whether the raw values are normalised (`raw_norm_type: batchnorm`).
    pub raw_norm: bool,
}

impl LapPeEncoderConfig {
    /// The first count that must not be 0 but is, or attention heads that do not divide the width.
    pub(crate) fn problem(&self) -> Option<String> {
        let (name, dim) = ("LapPE", self.dim);
        match self.set {
            EigenvectorSet::DeepSet { layers } => zero(name, &[("dim", dim), ("layers", layers)]),
            EigenvectorSet::Transformer { heads, .. } => {
                let uneven = || {
                    let uneven = !dim.is_multiple_of(heads);
                    uneven.then(|| format!("{name}: a width of {dim} for {heads} heads"))
                };
                zero(name, &[("dim", dim), ("heads", heads)]).or_else(uneven)
            }
        }
    }
}

/// The first of `counts`, options of the encoder `name`, that is 0.
fn zero(name: &str, counts: &[(&str, usize)]) -> Option<String> {
    let found = counts.iter().find(|(_, count)| *count == 0);
    found.map(|(what, _)| format!("{name}: {what} is 0"))
}

/// A positional or structural encoder. Those with a `dim` append that many columns to the node
/// states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PositionalEncoderConfig {
    /// Laplacian eigenvectors and eigenvalues (`posenc_LapPE`).
    LapPe(LapPeEncoderConfig),
    /// Random walk landing probabilities (`posenc_RWSE`).
    Rwse {
        /// The walks.
        recipe: Rwse,
        /// Columns (`dim_pe`).
        dim: usize,
        /// The encoder.
        encoder: KernelEncoder,
        /// Whether the raw values are normalised (`raw_norm_type: batchnorm`).
        raw_norm: bool,
    },
    /// Diagonals of heat kernels (`posenc_HKdiagSE`).
    HeatKernel {
        /// The kernels.
        recipe: HeatKernel,
        /// Columns (`dim_pe`).
        dim: usize,
        /// The encoder.
        encoder: KernelEncoder,
        /// Whether the raw values are normalised (`raw_norm_type: batchnorm`).
        raw_norm: bool,
    },
    /// Electrostatic interaction between nodes (`posenc_ElstaticSE`).
    Electrostatic {
        /// The statistics.
        recipe: Electrostatic,
        /// Columns (`dim_pe`).
        dim: usize,
        /// The encoder.
        encoder: KernelEncoder,
        /// Whether the raw values are normalised (`raw_norm_type: batchnorm`).
        raw_norm: bool,
    },
    /// Sign-invariant network on Laplacian eigenvectors (`posenc_SignNet`).
    SignNet {
        /// The eigenvectors.
        recipe: LapPe,
        /// Columns (`dim_pe`).
        dim: usize,
        /// Layers of the graph isomorphism network on every eigenvector (`layers`).
        layers: usize,
        /// Its hidden width (`phi_hidden_dim`).
        hidden_dim: usize,
        /// Its output width (`phi_out_dim`).
        output_dim: usize,
        /// How eigenvectors are joined (`model`).
        pooling: SignInvariantPooling,
        /// Affine maps after joining (`post_layers`).
        post_layers: usize,
    },
    /// An affine map of Laplacian eigenvectors whose distances scale the messages of the local
    /// model; it appends nothing to the node states (`posenc_EquivStableLapPE`).
    EquivStable {
        /// The eigenvectors.
        recipe: LapPe,
        /// Whether the raw values are normalised (`raw_norm_type: batchnorm`).
        raw_norm: bool,
    },
    /// Degree embeddings that are added to the node states, and a bias of the attention logits
    /// from shortest paths (`posenc_GraphormerBias`).
    Graphormer {
        /// Distances, edge types and degrees.
        recipe: Graphormer,
        /// Heads of the biased attention (`graphormer.num_heads`).
        heads: usize,
        /// Number of edge categories (`dataset.edge_encoder_num_types`).
        edge_types: usize,
        /// Whether every graph gets a learned node of its own, connected to nobody but seen by
        /// the attention (`graphormer.use_graph_token`).
        graph_token: bool,
    },
}

impl PositionalEncoderConfig {
    /// Columns that the encoder appends to the node states.
    pub fn dim(&self) -> usize {
        match self {
            Self::LapPe(LapPeEncoderConfig { dim, .. })
            | Self::Rwse { dim, .. }
            | Self::HeatKernel { dim, .. }
            | Self::Electrostatic { dim, .. }
            | Self::SignNet { dim, .. } => *dim,
            Self::EquivStable { .. } | Self::Graphormer { .. } => 0,
        }
    }

    /// The encoding that the encoder reads.
    pub fn recipe(&self) -> EncodingRecipe {
        match self {
            Self::LapPe(LapPeEncoderConfig { recipe, .. }) | Self::EquivStable { recipe, .. } => {
                EncodingRecipe::LapPe(recipe.clone())
            }
            Self::Rwse { recipe, .. } => EncodingRecipe::Rwse(recipe.clone()),
            Self::HeatKernel { recipe, .. } => EncodingRecipe::HeatKernel(recipe.clone()),
            Self::Electrostatic { recipe, .. } => EncodingRecipe::Electrostatic(recipe.clone()),
            Self::SignNet { recipe, .. } => EncodingRecipe::SignNet(recipe.clone()),
            Self::Graphormer { recipe, .. } => EncodingRecipe::Graphormer(recipe.clone()),
        }
    }

    /// The official name, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::LapPe(_) => "LapPE",
            Self::Rwse { .. } => "RWSE",
            Self::HeatKernel { .. } => "HKdiagSE",
            Self::Electrostatic { .. } => "ElstaticSE",
            Self::SignNet { .. } => "SignNet",
            Self::EquivStable { .. } => "EquivStableLapPE",
            Self::Graphormer { .. } => "GraphormerBias",
        }
    }

    /// The first count that must not be 0 but is, or attention heads that do not divide the width.
    pub(crate) fn problem(&self) -> Option<String> {
        let zero = |counts: &[(&str, usize)]| zero(self.name(), counts);
        match self {
            Self::LapPe(config) => config.problem(),
            Self::Rwse { dim, encoder, .. }
            | Self::HeatKernel { dim, encoder, .. }
            | Self::Electrostatic { dim, encoder, .. } => match encoder {
                KernelEncoder::Linear => zero(&[("dim", *dim)]),
                KernelEncoder::Mlp { layers } => zero(&[("dim", *dim), ("layers", *layers)]),
            },
            Self::SignNet {
                dim,
                layers,
                hidden_dim,
                output_dim,
                post_layers,
                ..
            } => zero(&[
                ("dim", *dim),
                ("layers", *layers),
                ("hidden_dim", *hidden_dim),
                ("output_dim", *output_dim),
                ("post_layers", *post_layers),
            ]),
            Self::EquivStable { .. } => None,
            Self::Graphormer {
                recipe,
                heads,
                edge_types,
                ..
            } => match (recipe.degrees_only, recipe.edge_types) {
                (true, _) => None,
                (false, false) => zero(&[("heads", *heads)]),
                (false, true) => zero(&[("heads", *heads), ("edge_types", *edge_types)]),
            },
        }
    }
}
