//! Edges in the order of their sources.

use std::sync::OnceLock;

use candle_core::{Device, Error, Result, Tensor};

use super::Offsets;

/// The edges that leave every node, in their order.
#[derive(Debug)]
pub(crate) struct BySource {
    ptr: Offsets,
    edges: Vec<u32>,
    tensor: OnceLock<Tensor>,
}

impl BySource {
    /// Of the edges with these sources, among `num_nodes` nodes that exist.
    pub(super) fn new(sources: &[u32], num_nodes: usize, device: &Device) -> Result<Self> {
        let mut out_degrees = vec![0usize; num_nodes];
        for &source in sources {
            out_degrees[source as usize] += 1;
        }
        let ptr = Offsets::from_lengths(out_degrees, device).map_err(Error::wrap)?;
        let mut next = ptr.as_slice().to_vec();
        let mut edges = vec![0u32; sources.len()];
        for (edge, &source) in sources.iter().enumerate() {
            let slot = &mut next[source as usize];
            edges[*slot as usize] = edge as u32;
            *slot += 1;
        }
        Ok(Self {
            ptr,
            edges,
            tensor: OnceLock::new(),
        })
    }

    /// One segment of [`edges`](Self::edges) a node.
    pub(crate) fn ptr(&self) -> &Offsets {
        &self.ptr
    }

    /// Numbers of the edges.
    pub(crate) fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// The numbers on the device, u32 `[edges]`.
    pub(crate) fn tensor(&self) -> Result<&Tensor> {
        if let Some(tensor) = self.tensor.get() {
            return Ok(tensor);
        }
        let made = Tensor::from_vec(self.edges.clone(), self.edges.len(), self.ptr.device())?;
        Ok(self.tensor.get_or_init(|| made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_a_source_keep_their_order() {
        let made = BySource::new(&[2, 0, 2, 2, 0], 4, &Device::Cpu).unwrap();
        assert_eq!(made.ptr().as_slice(), [0, 2, 2, 5, 5]);
        assert_eq!(made.edges(), [1, 4, 0, 2, 3]);
        assert_eq!(
            made.tensor().unwrap().to_vec1::<u32>().unwrap(),
            made.edges()
        );
    }
}
