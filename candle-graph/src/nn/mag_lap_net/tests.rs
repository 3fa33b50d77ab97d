use std::collections::HashMap;

use candle_core::Device;

use super::*;
use crate::ops::test_data::{assert_close, edges, randn};

const SIZES: MagLapNetSizes = MagLapNetSizes {
    eigenvectors: 3,
    complex: true,
    width: 5,
    complex_output: false,
};

fn network(sign_invariant: bool, attention_heads: Option<usize>) -> MagLapNet {
    let config = MagLapNetConfig::Elementwise {
        element_dim: 2,
        message_passing: false,
        sign_invariant,
        eigenvalues: true,
        attention_heads,
    };
    let shapes: [(&str, &[usize]); 12] = [
        ("element.weight", &[4, 2]),
        ("element.bias", &[4]),
        ("norm.weight", &[5]),
        ("norm.bias", &[5]),
        ("attention.query.weight", &[4, 5]),
        ("attention.key.weight", &[4, 5]),
        ("attention.value.weight", &[4, 5]),
        ("attention.output.weight", &[5, 4]),
        ("attention.output.bias", &[5]),
        ("aggregate.weight", &[5, 15]),
        ("aggregate.bias", &[5]),
        ("unused", &[1]),
    ];
    let tensors: HashMap<String, Tensor> = shapes
        .iter()
        .map(|(name, shape)| (name.to_string(), randn(shape, 0.7)))
        .collect();
    let vb = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    MagLapNet::new(&config, SIZES, Activation::GeluTanh, vb).unwrap()
}

/// Two graphs of 2 and 4 nodes: the first has two eigenvectors.
struct Batch {
    eigenvalues: Tensor,
    real: Tensor,
    imaginary: Tensor,
    node_ptr: Offsets,
    edges: Adjacency,
}

impl Batch {
    fn new() -> Self {
        let eigenvalues = [[0.0f32, 0.5, 0.0], [0.1, 0.7, 1.2]];
        Self {
            eigenvalues: Tensor::new(&eigenvalues, &Device::Cpu).unwrap(),
            real: randn(&[6, 3], 0.5),
            imaginary: randn(&[6, 3], 0.5),
            node_ptr: Offsets::from_lengths([2, 4], &Device::Cpu).unwrap(),
            edges: edges(6, &[[0, 1], [2, 3], [3, 4], [4, 5]]),
        }
    }

    fn run(&self, network: &MagLapNet) -> Tensor {
        let input = EigenvectorInput {
            eigenvalues: &self.eigenvalues,
            real: &self.real,
            imaginary: Some(&self.imaginary),
            node_ptr: &self.node_ptr,
            edges: &self.edges,
        };
        network.forward(input).unwrap().real
    }

    /// With column `column` of the eigenvectors of the nodes `nodes` multiplied by `factor`.
    fn scaled(&self, nodes: std::ops::Range<usize>, column: usize, factor: f32) -> Self {
        let scale: Vec<f32> = (0..18)
            .map(|at| {
                let hit = nodes.contains(&(at / 3)) && at % 3 == column;
                if hit { factor } else { 1.0 }
            })
            .collect();
        let scale = Tensor::from_vec(scale, (6, 3), &Device::Cpu).unwrap();
        Self {
            eigenvalues: self.eigenvalues.clone(),
            real: (&self.real * &scale).unwrap(),
            imaginary: (&self.imaginary * &scale).unwrap(),
            node_ptr: self.node_ptr.clone(),
            edges: self.edges.clone(),
        }
    }
}

fn largest(a: &Tensor, b: &Tensor) -> f32 {
    let difference = (a - b).unwrap().abs().unwrap();
    difference.max_all().unwrap().to_scalar().unwrap()
}

#[test]
fn eigenvectors_that_a_graph_does_not_have_are_not_read() {
    let batch = Batch::new();
    for heads in [None, Some(2)] {
        let network = network(false, heads);
        let expected = batch.run(&network);
        // The third vector of the first graph has the eigenvalue 0.
        assert_close(&batch.scaled(0..2, 2, 100.0).run(&network), &expected, 0.0);
        // The first is there whatever its eigenvalue, and so are those of the second graph.
        assert!(largest(&batch.scaled(0..2, 0, -2.0).run(&network), &expected) > 1e-3);
        assert!(largest(&batch.scaled(2..6, 2, -2.0).run(&network), &expected) > 1e-3);
    }
}

#[test]
fn signs_do_not_matter_where_they_must_not() {
    let batch = Batch::new();
    for sign_invariant in [false, true] {
        let network = network(sign_invariant, Some(2));
        let turned = batch.scaled(2..6, 1, -1.0).run(&network);
        let difference = largest(&turned, &batch.run(&network));
        assert_eq!(difference < 1e-6, sign_invariant, "{difference}");
    }
}

#[test]
fn graphs_of_a_batch_do_not_see_each_other() {
    let batch = Batch::new();
    let network = network(true, Some(2));
    let expected = batch.run(&network);
    let changed = batch.scaled(0..2, 1, 3.0).run(&network);
    let second = |t: &Tensor| t.narrow(0, 2, 4).unwrap();
    assert_close(&second(&changed), &second(&expected), 0.0);
    assert!(largest(&changed, &expected) > 1e-3);
}

#[test]
fn shapes_and_kinds_that_do_not_fit_are_refused() {
    let batch = Batch::new();
    let network = network(false, None);
    let run = |eigenvalues: &Tensor, imaginary: Option<&Tensor>| {
        network.forward(EigenvectorInput {
            eigenvalues,
            real: &batch.real,
            imaginary,
            node_ptr: &batch.node_ptr,
            edges: &batch.edges,
        })
    };
    let message = run(&batch.real, Some(&batch.imaginary))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("expected 3 of 2 graphs and 6 nodes"),
        "{message}"
    );
    let message = run(&batch.eigenvalues, None).unwrap_err().to_string();
    assert!(message.contains("complex"), "{message}");
}
