//! Encodings that the device of a batch computes itself.

use candle_core::Tensor;

use super::random_walk::{Repeated, Transitions};
use super::{EncodingPlan, EncodingRecipe, RRWP_NODE, RRWP_PAIR, RWSE, Rrwp};
use crate::error::{Error, Result};
use crate::graph::{Adjacency, Graph, GraphBatch};
use crate::ops::{WalkInput, pair_walks, return_probabilities};

impl EncodingPlan {
    /// Computes the encodings of `graphs`, which are those of `batch`, and attaches them: random
    /// walks (RRWP without shortest paths, RWSE) on the device of the batch, everything else on the
    /// host as [`compute_all`](Self::compute_all) does. `first` is the position of `graphs[0]` in the
    /// whole input, for messages.
    ///
    /// # Errors
    /// As [`compute`](Self::compute) for every graph, and graphs that are not those of the batch.
    pub fn compute_on_device<G: AsRef<Graph> + Sync>(
        &self,
        batch: &mut GraphBatch,
        graphs: &[G],
        first: usize,
    ) -> Result<()> {
        let sizes = graphs.iter().map(|graph| graph.as_ref().num_nodes());
        if !sizes.eq(batch.node_ptr().lengths()) {
            return Err(Error::Encoding(
                "the graphs are not those of the batch".to_string(),
            ));
        }
        let walks = |recipe: &&EncodingRecipe| match recipe {
            EncodingRecipe::Rrwp(rrwp) => !rrwp.shortest_path,
            recipe => matches!(recipe, EncodingRecipe::Rwse(_)),
        };
        let (walks, others): (Vec<_>, Vec<_>) = self.recipes().iter().partition(walks);
        for (at, graph) in graphs.iter().enumerate() {
            self.check_bytes(graph.as_ref(), first.saturating_add(at))?;
        }
        for recipe in walks {
            match recipe {
                EncodingRecipe::Rrwp(rrwp) => attach_rrwp(rrwp, batch, graphs)?,
                EncodingRecipe::Rwse(rwse) => {
                    let walk = Walk::new(batch, graphs, Repeated::Counted)?;
                    let returns = return_probabilities(walk.input(batch), &rwse.times)?;
                    batch.attach_encoding(RWSE, returns);
                }
                _ => {}
            }
        }
        let others = Self::new(others.into_iter().cloned().collect())?;
        let computed = others.compute_all(graphs, first)?;
        others.attach(batch, &computed)
    }
}

fn attach_rrwp<G: AsRef<Graph>>(rrwp: &Rrwp, batch: &mut GraphBatch, graphs: &[G]) -> Result<()> {
    let walk = Walk::new(batch, graphs, Repeated::MergedButInDegree)?;
    let pairs = pair_walks(walk.input(batch), rrwp.channels())?;
    let pair_ptr = batch.pair_ptr()?.as_slice();
    let mut own = Vec::with_capacity(batch.num_nodes());
    for (&start, n) in pair_ptr.iter().zip(batch.node_ptr().lengths()) {
        own.extend((0..n as u32).map(|node| start + node * (n as u32 + 1)));
    }
    let own = Tensor::from_vec(own, batch.num_nodes(), batch.device())?;
    let nodes = pairs.index_select(&own, 0)?;
    batch.attach_encoding(RRWP_NODE, nodes);
    batch.attach_encoding(RRWP_PAIR, pairs);
    Ok(())
}

/// The simple random walk on all graphs of a batch.
struct Walk {
    adjacency: Adjacency,
    probabilities: Tensor,
}

impl Walk {
    fn new<G: AsRef<Graph>>(batch: &GraphBatch, graphs: &[G], repeated: Repeated) -> Result<Self> {
        let (mut sources, mut targets) = (Vec::new(), Vec::new());
        let mut probabilities = Vec::new();
        for (graph, &first) in graphs.iter().zip(batch.node_ptr().as_slice()) {
            for (source, target, probability) in Transitions::new(graph.as_ref(), repeated).steps()
            {
                sources.push(first + source);
                targets.push(first + target);
                probabilities.push(probability);
            }
        }
        let (device, edges) = (batch.device(), sources.len());
        Ok(Self {
            adjacency: Adjacency::from_sorted(sources, targets, batch.num_nodes(), device)?,
            probabilities: Tensor::from_vec(probabilities, edges, device)?,
        })
    }

    fn input<'a>(&'a self, batch: &'a GraphBatch) -> WalkInput<'a> {
        WalkInput {
            adjacency: &self.adjacency,
            probabilities: &self.probabilities,
            node_ptr: batch.node_ptr(),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::encodings::Rwse;
    use crate::graph::InputSchema;
    use crate::ops::test_data::assert_close;

    fn graphs() -> Vec<Graph> {
        let path = Graph::builder(4).edges([[0, 1], [1, 2], [2, 3]]);
        let directed = Graph::builder(5).edges([[0, 1], [0, 1], [1, 2], [2, 0], [4, 4], [3, 0]]);
        let made = [path.undirected(true), Graph::builder(1), directed];
        made.into_iter()
            .map(|builder| builder.build().unwrap())
            .collect()
    }

    #[test]
    fn walks_on_the_device_are_those_of_the_host() {
        let graphs = graphs();
        let plan = EncodingPlan::new(vec![
            EncodingRecipe::Rrwp(Rrwp {
                steps: 6,
                shortest_path: false,
            }),
            EncodingRecipe::Rwse(Rwse {
                times: vec![1, 4, 2],
            }),
        ])
        .unwrap();
        let schema = InputSchema::default();
        let batch = || GraphBatch::new(&graphs, &schema, 0, &Device::Cpu).unwrap();
        let (mut host, mut device) = (batch(), batch());
        plan.attach(&mut host, &plan.compute_all(&graphs, 0).unwrap())
            .unwrap();
        plan.compute_on_device(&mut device, &graphs, 0).unwrap();
        for name in [RRWP_NODE, RRWP_PAIR, RWSE] {
            let [found, expected] = [&device, &host].map(|batch| batch.encoding(name).unwrap());
            assert_close(found, expected, 1e-6);
        }
        let error = plan
            .compute_on_device(&mut device, &graphs[1..], 0)
            .unwrap_err();
        assert!(error.to_string().contains("not those of the batch"));
    }
}
