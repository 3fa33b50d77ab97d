//! Initial node and pair states from RRWP.

use candle_core::{Result, Tensor};
use candle_nn::VarBuilder;

use super::linear_no_bias;
use crate::encodings::{RRWP_NODE, RRWP_PAIR, Rrwp};
use crate::error::{Error, Result as EngineResult};
use crate::graph::GraphBatch;
use crate::ops::{Activation, LinearWeights, add_rows_at, linear};

/// Adds the random walk probabilities to node states and to edge states, the latter spread over
/// all ordered pairs of every graph: pairs that are no edge start from their probabilities alone,
/// the states of repeated edges add up.
#[derive(Debug, Clone)]
pub struct RrwpEncoder {
    node: LinearWeights,
    pair: LinearWeights,
}

impl RrwpEncoder {
    /// Loads `rrwp_node.weight` and `rrwp_pair.weight`, each `[width, channels]`.
    pub fn new(recipe: &Rrwp, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let channels = recipe.channels();
        Ok(Self {
            node: linear_no_bias(channels, width, vb.pp("rrwp_node"))?,
            pair: linear_no_bias(channels, width, vb.pp("rrwp_pair"))?,
        })
    }

    /// Node states `[nodes, width]` with their return probabilities added.
    ///
    /// # Errors
    /// The batch carries no RRWP.
    pub fn nodes(&self, nodes: &Tensor, batch: &GraphBatch) -> EngineResult<Tensor> {
        let encoding = batch.encoding(RRWP_NODE)?.to_dtype(nodes.dtype())?;
        Ok((nodes + linear(&encoding, &self.node, Activation::Identity)?)?)
    }

    /// Pair states `[pairs, width]` from edge states `[edges, width]` in the batch's edge order.
    ///
    /// # Errors
    /// The batch carries no RRWP, or one of another shape.
    pub fn pairs(&self, edges: Option<&Tensor>, batch: &GraphBatch) -> EngineResult<Tensor> {
        let encoding = batch.encoding(RRWP_PAIR)?;
        let expected = [batch.num_pairs()?, self.pair.in_dim()];
        if encoding.dims() != expected {
            return Err(Error::Encoding(format!(
                "`{RRWP_PAIR}` of shape {:?}, expected {expected:?}",
                encoding.dims()
            )));
        }
        let encoding = encoding.to_dtype(self.pair.weight().dtype())?;
        let pairs = linear(&encoding, &self.pair, Activation::Identity)?;
        Ok(match edges {
            Some(edges) => add_rows_at(pairs, edges, batch.edge_pairs()?)?,
            None => pairs,
        })
    }
}
