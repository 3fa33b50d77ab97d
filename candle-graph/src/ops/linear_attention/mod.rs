//! Linear attention among the nodes of every graph: a kernel of features instead of the softmax.

mod cpu;
mod reference;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor, bail};

use super::dispatch::fused_on_cpu;
use crate::graph::Offsets;

/// What goes into [`linear_attention`]; with N nodes and H heads whose queries and keys have width
/// d, their values width v.
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
}

/// The map φ from a query or key x of width d to the features whose products are the weights of
/// [`linear_attention`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum FeatureMap<'a> {
    /// Positive random features of the softmax kernel (FAVOR+ of the Performer):
    /// `exp(P·x·d^-¼ − ‖x‖²/(2√d) − c) + 10⁻⁴`. The stabiliser c is the largest element of `P·x·d^-¼`:
    /// of the same node for a query, over all nodes of the graph for a key, head by head. The factor
    /// 1/√features of the literature cancels and is left out.
    PositiveRandom {
        /// The random directions P, `[features, d]`, shared by the heads.
        projection: &'a Tensor,
    },
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
/// head the result is `φ(Q_t)·Σ φ(K_s)⊗V_s / φ(Q_t)·Σ φ(K_s)`, `[N, H·v]`, head by head. Time and
/// memory grow with the number of nodes, not of pairs.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn linear_attention(input: LinearAttentionInput<'_>) -> Result<Tensor> {
    let widths = check(&input)?;
    let FeatureMap::PositiveRandom { projection } = input.feature_map;
    if fused_on_cpu([input.query, input.key, input.value, projection]) {
        cpu::forward(&input, widths)
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
    };
    Ok(HeadWidths {
        query,
        value,
        features,
    })
}
