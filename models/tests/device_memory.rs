//! What a predictor does when a device has not enough memory: the batch is cut into two once. A model
//! that holds so many nodes and no more stands for the device.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};

use candle_core::{Device, Tensor};
use candle_graph::Error;
use candle_graph::encodings::EncodingPlan;
use candle_graph::graph::{
    BatchBudget, BatchFeatures, FeatureSchema, Features, Graph, GraphBatch, InputSchema,
};
use candle_graph::nn::PredictionLevel;
use candle_graph_models::{GraphModel, NodeStates, Output, Predictor, Trace, Want};

/// What the driver says, as candle prints it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Status {
    #[error("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")")]
    Memory,
    #[error("DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")")]
    Launch,
}

/// Runs that a model was asked for: the first and the last node of each.
type Runs = Arc<Mutex<Vec<[f32; 2]>>>;

/// Gives every node its feature back, for batches of at most `most_nodes` nodes.
#[derive(Debug, Clone)]
struct Holds {
    most_nodes: usize,
    status: Status,
    /// Whether memory runs out in the head, after the layers.
    in_head: bool,
    pair_state: bool,
    depends_on_batch: bool,
    level: PredictionLevel,
    schema: InputSchema,
    plan: EncodingPlan,
    runs: Runs,
}

impl Holds {
    fn nodes(most_nodes: usize) -> Self {
        let schema = InputSchema {
            node: FeatureSchema::Float { width: 1 },
            edge: FeatureSchema::default(),
        };
        Self {
            most_nodes,
            status: Status::Memory,
            in_head: false,
            pair_state: false,
            depends_on_batch: false,
            level: PredictionLevel::Node,
            schema,
            plan: EncodingPlan::default(),
            runs: Runs::default(),
        }
    }

    fn take(&self, batch: &GraphBatch) -> candle_graph::Result<()> {
        match batch.num_nodes() > self.most_nodes {
            true => Err(candle_core::Error::Cuda(Box::new(self.status)).into()),
            false => Ok(()),
        }
    }
}

impl GraphModel for Holds {
    fn input_schema(&self) -> &InputSchema {
        &self.schema
    }

    fn encoding_plan(&self) -> &EncodingPlan {
        &self.plan
    }

    fn has_pair_state(&self) -> bool {
        self.pair_state
    }

    fn depends_on_batch(&self) -> bool {
        self.depends_on_batch
    }

    fn prediction_level(&self) -> PredictionLevel {
        self.level
    }

    fn output_dim(&self) -> usize {
        1
    }

    fn embedding_dim(&self) -> usize {
        1
    }

    fn node_states(&self, batch: &GraphBatch, _: &mut Trace) -> candle_graph::Result<NodeStates> {
        let Some(BatchFeatures::Float(x)) = batch.node_features() else {
            panic!("the schema asks for node features");
        };
        let nodes = x.flatten_all()?.to_vec1::<f32>()?;
        let run = [nodes[0], nodes[nodes.len() - 1]];
        self.runs.lock().unwrap().push(run);
        if !self.in_head {
            self.take(batch)?;
        }
        Ok(NodeStates::new(x.clone()))
    }

    fn pool(&self, states: &NodeStates, batch: &GraphBatch) -> candle_graph::Result<Tensor> {
        let firsts: Vec<u32> = (batch.node_ptr().ranges())
            .map(|nodes| nodes.start as u32)
            .collect();
        let firsts = Tensor::new(firsts.as_slice(), states.all().device())?;
        Ok(states.all().index_select(&firsts, 0)?)
    }

    fn head(
        &self,
        states: &NodeStates,
        batch: &GraphBatch,
        _: &mut Trace,
    ) -> candle_graph::Result<Tensor> {
        self.take(batch)?;
        match self.level {
            PredictionLevel::Graph => self.pool(states, batch),
            _ => states.nodes(),
        }
    }
}

/// Graphs of these sizes; node after node has the numbers from 0 as its feature.
fn graphs(sizes: &[usize]) -> Vec<Graph> {
    let mut number = 0.0;
    let mut next = || {
        number += 1.0;
        number - 1.0
    };
    sizes
        .iter()
        .map(|&size| {
            let x = (0..size).map(|_| next()).collect();
            let graph = Graph::builder(size).node_features(Features::float(1, x));
            graph.build().unwrap()
        })
        .collect()
}

fn predict(model: &Holds, sizes: &[usize]) -> candle_graph::Result<Vec<Output>> {
    Predictor::new(Arc::new(model.clone()) as Arc<dyn GraphModel>, Device::Cpu)
        .with_budget(BatchBudget::UNLIMITED)
        .predict(&graphs(sizes))
}

/// Every node's number, graph after graph, as [`graphs`] gave them.
fn assert_in_order(outputs: &[Output], sizes: &[usize]) {
    let rows: Vec<usize> = outputs.iter().map(|output| output.data.len()).collect();
    assert_eq!(rows, sizes);
    let numbers: Vec<f32> = outputs
        .iter()
        .flat_map(|output| output.data.clone())
        .collect();
    let expected: Vec<f32> = (0..sizes.iter().sum())
        .map(|number| number as f32)
        .collect();
    assert_eq!(numbers, expected);
}

fn runs(model: &Holds) -> Vec<[f32; 2]> {
    std::mem::take(&mut model.runs.lock().unwrap())
}

#[test]
fn a_batch_that_does_not_fit_runs_as_two_halves_in_order() {
    let model = Holds::nodes(20);
    let sizes = [4, 8, 3, 9, 6];
    assert_in_order(&predict(&model, &sizes).unwrap(), &sizes);
    assert_eq!(runs(&model), [[0.0, 29.0], [0.0, 14.0], [15.0, 29.0]]);

    // What is too much for the head is cut the same, for what is asked for.
    let model = Holds {
        in_head: true,
        level: PredictionLevel::Graph,
        ..model
    };
    let outputs = predict(&model, &sizes).unwrap();
    let firsts: Vec<f32> = outputs.iter().map(|output| output.data[0]).collect();
    assert_eq!(firsts, [0.0, 4.0, 12.0, 15.0, 24.0]);
    assert_eq!(runs(&model).len(), 3);
}

#[test]
fn what_fits_runs_once() {
    let model = Holds::nodes(30);
    let sizes = [4, 8, 3, 9, 6];
    assert_in_order(&predict(&model, &sizes).unwrap(), &sizes);
    assert_eq!(runs(&model), [[0.0, 29.0]]);
}

#[test]
fn the_cut_weighs_what_the_model_keeps() {
    let sizes = [2, 12, 5, 5, 5, 5];
    let model = Holds::nodes(20);
    assert_in_order(&predict(&model, &sizes).unwrap(), &sizes);
    assert_eq!(runs(&model)[1..], [[0.0, 18.0], [19.0, 33.0]]);
    let model = Holds {
        pair_state: true,
        ..model
    };
    assert_in_order(&predict(&model, &sizes).unwrap(), &sizes);
    assert_eq!(runs(&model)[1..], [[0.0, 13.0], [14.0, 33.0]]);
}

/// The end of a message about what does not fit.
const SMALLER: &str = ": use a smaller budget for batches";

#[test]
fn a_half_that_does_not_fit_either_is_named_and_not_cut_again() {
    let model = Holds::nodes(12);
    let message = |sizes: &[usize]| predict(&model, sizes).unwrap_err().to_string();
    let memory = "cpu has not enough memory for";
    // The left half fails, and nothing runs in vain after it.
    let found = message(&[5, 5, 7, 7, 5]);
    assert_eq!(
        found,
        format!("{memory} 3 graphs (#0 to #2) of 17 nodes{SMALLER}")
    );
    assert_eq!(runs(&model).len(), 2);
    // The right half fails.
    let found = message(&[6, 6, 4, 4, 5]);
    assert_eq!(
        found,
        format!("{memory} 3 graphs (#2 to #4) of 13 nodes{SMALLER}")
    );
    assert_eq!(runs(&model).len(), 3);
    // A half of one graph, and a batch of one.
    let alone = "of 13 nodes: it does not fit alone; run it on the CPU or leave it out";
    assert_eq!(message(&[3, 13]), format!("{memory} graph #1 {alone}"));
    assert_eq!(runs(&model).len(), 3);
    assert_eq!(message(&[13]), format!("{memory} graph #0 {alone}"));
    assert_eq!(runs(&model).len(), 1);

    let pairs = Holds {
        pair_state: true,
        ..Holds::nodes(2)
    };
    let error = predict(&pairs, &[3]).unwrap_err();
    let Error::OutOfDeviceMemory { batch, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((batch.nodes, batch.pairs), (3, Some(9)));
}

#[test]
fn graphs_are_named_by_id_and_by_their_place_in_the_whole_input() {
    let model = Holds::nodes(6);
    let mut graphs = graphs(&[6, 3, 4]);
    let named = Graph::builder(4).id("ring");
    let x = Features::float(1, vec![0.0; 4]);
    graphs[2] = named.node_features(x).build().unwrap();
    let encodings = model.plan.compute_all(&graphs, 0).unwrap();
    let predictor = Predictor::new(Arc::new(model) as Arc<dyn GraphModel>, Device::Cpu);
    let run = |want| predictor.run_batch(&graphs, &encodings, 70, want);
    for want in [Want::Prediction, Want::GraphEmbedding, Want::NodeEmbedding] {
        let message = run(want).unwrap_err().to_string();
        assert!(
            message.contains("2 graphs (#71 to \"ring\") of 7"),
            "{message}"
        );
    }
}

#[test]
fn models_that_read_the_whole_batch_are_not_cut() {
    let model = Holds {
        depends_on_batch: true,
        ..Holds::nodes(20)
    };
    let message = predict(&model, &[15, 15]).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("cpu has not enough memory for 2 graphs (#0 to #1) of 30 nodes{SMALLER}")
    );
    assert_eq!(runs(&model).len(), 1);
}

#[test]
fn other_failures_are_not_tried_again() {
    let model = Holds {
        status: Status::Launch,
        ..Holds::nodes(20)
    };
    let error = predict(&model, &[15, 15]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cpu failed at 2 graphs (#0 to #1) of 30 nodes: {}",
            Status::Launch
        )
    );
    assert_eq!(runs(&model).len(), 1);
}

#[test]
fn of_parts_that_run_side_by_side_only_the_one_that_does_not_fit_runs_again() {
    // Four parts, the third of 149 and 100 nodes.
    let sizes = [100, 100, 150, 149, 100, 60, 100, 41];
    let model = Holds::nodes(240);
    assert_in_order(&predict(&model, &sizes).unwrap(), &sizes);
    let mut found = runs(&model);
    found.sort_by(|a, b| (a[0], b[1]).partial_cmp(&(b[0], a[1])).unwrap());
    assert_eq!(
        found,
        [
            [0.0, 199.0],
            [200.0, 349.0],
            [350.0, 598.0],
            [350.0, 498.0],
            [499.0, 598.0],
            [599.0, 799.0],
        ]
    );
}
