//! Linear attention among the nodes of every graph: a kernel of features instead of the softmax.

mod cpu;
mod gpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{RotaryPairs, RotationTable, work};
use crate::graph::Offsets;

/// What goes into [`linear_attention`]; with N nodes and H heads whose queries and keys have width
/// d, their values width v, and F features a head.
#[derive(Debug, Clone, Copy)]
pub struct LinearAttentionInput<'a> {
    /// Queries, `[N, H·d]`, head by head.
    pub query: &'a Tensor,
    /// Keys, `[N, H·d]`.
    pub key: &'a Tensor,
    /// Values, `[N, H·v]`.
    pub value: &'a Tensor,
    /// Nodes of every graph.
    pub node_ptr: &'a Offsets,
    /// Number of heads, H.
    pub heads: usize,
    /// The map φ from queries and keys to features.
    pub feature_map: FeatureMap<'a>,
    /// Rotation of the features in the numerator.
    pub rotation: Option<FeatureRotation<'a>>,
}

/// The map φ from a query or key x of width d to the features whose products are the weights of
/// [`linear_attention`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum FeatureMap<'a> {
    /// Positive random features of the softmax kernel (FAVOR+ of the Performer):
    /// `exp(P·x·d^-¼ − ‖x‖²/(2√d) − c) + 10⁻⁴`. The stabiliser c is the largest element of `P·x·d^-¼`:
    /// of the same node for a query, over all nodes of the graph for a key; head by head, or over all
    /// heads where a rotation has pairs of features of two heads. The factor 1/√features of the
    /// literature cancels and is left out.
    PositiveRandom {
        /// The random directions P, `[features, d]`, shared by the heads.
        projection: &'a Tensor,
    },
    /// `relu(x) + eps`, of d features (the ReLU-Performer). A node none of whose features meets one
    /// of a key, which only an `eps` of 0 allows, gets zeros.
    Relu {
        /// Added to every feature; finite and not negative.
        eps: f64,
    },
    /// SGFormer's simple attention: `x / ‖X‖` with the Frobenius norm of all queries, or all keys,
    /// of the graph, over nodes and heads, of d features (zeros where the norm is 0). Every node
    /// gives itself the additional weight n, the number of nodes of its graph. A graph of one node
    /// without a rotation keeps its value, which the formula has as its limit where its weights
    /// cancel.
    Simple,
}

/// Rotation of φ(Q) and φ(K) in the numerator alone, of which the denominator knows nothing.
#[derive(Debug, Clone, Copy)]
pub struct FeatureRotation<'a> {
    /// The angles of the queries, `[N, pairs.count(H, F)]`.
    pub query: &'a RotationTable,
    /// The angles of the keys, of the same shape.
    pub key: &'a RotationTable,
    /// Which of the H·F features of a node make pairs.
    pub pairs: RotaryPairs,
}

impl LinearAttentionInput<'_> {
    /// Whether a pair of features may lie in two heads, so that these have one scale.
    fn pairs_straddle(&self, widths: HeadWidths) -> bool {
        let pairs = self.rotation.as_ref().map(|rotation| rotation.pairs);
        pairs == Some(RotaryPairs::FullWidth) && !widths.features.is_multiple_of(2)
    }
}

/// Added to every positive random feature, as in the official Performer.
const FEATURE_EPS: f64 = 1e-4;

/// Widths of one head.
#[derive(Debug, Clone, Copy)]
struct HeadWidths {
    /// Of queries and keys.
    query: usize,
    /// Of values.
    value: usize,
    /// Of φ(x).
    features: usize,
}

/// Every node t attends to all nodes s of its graph, itself included, and to no other: for every
/// head the result is `φ(Q_t)·Σ φ(K_s)⊗V_s / φ(Q_t)·Σ φ(K_s)`, `[N, H·v]`, head by head; with a
/// rotation R, `R_t φ(Q_t)·Σ R_s φ(K_s)⊗V_s` is the numerator. Where the denominator is 0, the result
/// is zeros. Time and memory grow with the number of nodes, not of pairs.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn linear_attention(input: LinearAttentionInput<'_>) -> Result<Tensor> {
    let widths = check(&input)?;
    let _work = work::record(|| work::linear_attention(&input, widths.features));
    let projection = match input.feature_map {
        FeatureMap::PositiveRandom { projection } => Some(projection),
        FeatureMap::Relu { .. } | FeatureMap::Simple => None,
    };
    let tables = (input.rotation.iter())
        .flat_map(|rotation| [rotation.query, rotation.key])
        .flat_map(|table| [&table.cos, &table.sin]);
    let tensors = [input.query, input.key, input.value];
    let tensors = tensors.into_iter().chain(projection).chain(tables);
    if fused_on_cpu(tensors.clone()) {
        cpu::forward(&input, widths)
    } else if fused_on_gpu(tensors) {
        gpu::forward(&input, widths)
    } else {
        reference::forward(&input, widths)
    }
}

fn check(input: &LinearAttentionInput<'_>) -> Result<HeadWidths> {
    let (heads, nodes) = (input.heads, input.node_ptr.total());
    let head_width = |name: &str, tensor: &Tensor| {
        let (rows, width) = tensor.dims2()?;
        match width.checked_div(heads) {
            Some(one) if one > 0 && one * heads == width && rows == nodes => Ok(one),
            _ => bail!(
                "linear attention: {name} of shape {:?} for {nodes} nodes and {heads} heads",
                tensor.dims()
            ),
        }
    };
    let query = head_width("query", input.query)?;
    let value = head_width("value", input.value)?;
    if input.key.dims() != input.query.dims() {
        bail!(
            "linear attention: key of shape {:?} for a query of {:?}",
            input.key.dims(),
            input.query.dims()
        );
    }
    let features = match input.feature_map {
        FeatureMap::PositiveRandom { projection } => match projection.dims2()? {
            (features, width) if features > 0 && width == query => features,
            _ => bail!(
                "linear attention: projection of shape {:?}, expected [features, {query}]",
                projection.dims()
            ),
        },
        FeatureMap::Relu { eps } if !(eps.is_finite() && eps >= 0.0) => {
            bail!(
                "linear attention: {eps} is added to features; it must be finite and not negative"
            )
        }
        FeatureMap::Relu { .. } | FeatureMap::Simple => query,
    };
    if let Some(rotation) = &input.rotation {
        let pairs = rotation.pairs.count(heads, features);
        for (name, table) in [("queries", rotation.query), ("keys", rotation.key)] {
            for angles in [&table.cos, &table.sin] {
                if pairs == 0 || angles.dims() != [nodes, pairs] {
                    bail!(
                        "linear attention: a rotation of {name} of shape {:?}, expected \
                         [{nodes}, {pairs}] for {heads} heads with {features} features",
                        angles.dims()
                    );
                }
            }
        }
    }
    Ok(HeadWidths {
        query,
        value,
        features,
    })
}
