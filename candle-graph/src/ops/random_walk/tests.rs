//! Hand-computed walks, and the kernels of GPUs against the reference.

use candle_core::Device;

use super::*;
use crate::ops::force_reference;
use crate::ops::kernels::host::assert_caught;
use crate::ops::test_data::{agrees, difference, edges};

struct Case {
    adjacency: Adjacency,
    probabilities: Tensor,
    node_ptr: Offsets,
}

impl Case {
    /// Graphs of these sizes, each a ring with a few more edges, and a node without edges at the end
    /// of the third.
    fn new(sizes: &[usize]) -> Self {
        let mut list = Vec::new();
        let mut first = 0u32;
        for (graph, &n) in sizes.iter().enumerate() {
            let n = n as u32;
            let walked = if graph == 2 { n.saturating_sub(1) } else { n };
            for i in 0..walked {
                list.push([first + i, first + (i + 1) % walked]);
                list.push([first + i, first + (i * i + 2) % walked]);
            }
            first += n;
        }
        let adjacency = edges(first as usize, &list);
        let mut degrees = vec![0f32; first as usize];
        for &source in adjacency.sources() {
            degrees[source as usize] += 1.0;
        }
        let of_edge = |&source: &u32| 1.0 / degrees[source as usize];
        let probabilities: Vec<f32> = adjacency.sources().iter().map(of_edge).collect();
        Self {
            probabilities: Tensor::new(probabilities, &Device::Cpu).unwrap(),
            adjacency,
            node_ptr: Offsets::from_lengths(sizes.iter().copied(), &Device::Cpu).unwrap(),
        }
    }

    fn input(&self) -> WalkInput<'_> {
        WalkInput {
            adjacency: &self.adjacency,
            probabilities: &self.probabilities,
            node_ptr: &self.node_ptr,
        }
    }
}

#[test]
fn a_hand_computed_walk() {
    // From node 0 to both others, from node 1 back to 0, from node 2 nowhere.
    let adjacency = edges(3, &[[0, 1], [0, 2], [1, 0]]);
    let probabilities = Tensor::new(&[1f32, 0.5, 0.5], &Device::Cpu).unwrap();
    let node_ptr = Offsets::from_lengths([3], &Device::Cpu).unwrap();
    let input = WalkInput {
        adjacency: &adjacency,
        probabilities: &probabilities,
        node_ptr: &node_ptr,
    };
    let expected = [
        [1f32, 0.0, 0.5],
        [0.0, 0.5, 0.0],
        [0.0, 0.5, 0.0],
        [0.0, 1.0, 0.0],
        [1.0, 0.0, 0.5],
        [0.0, 0.0, 0.5],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ];
    let walks = pair_walks(input, 3).unwrap();
    assert_eq!(walks.to_vec2::<f32>().unwrap(), expected);
    let returns = return_probabilities(input, &[2, 1, 4]).unwrap();
    let expected = [[0.5f32, 0.0, 0.25], [0.5, 0.0, 0.25], [0.0; 3]];
    assert_eq!(returns.to_vec2::<f32>().unwrap(), expected);
}

#[test]
fn kernels_walk_as_the_reference() {
    let case = Case::new(&[1, 40, 7, 0, 3]);
    agrees(1e-6, || pair_walks(case.input(), 9));
    for times in [[1, 2, 3, 7], [5, 2, 2, 9]] {
        agrees(1e-6, || return_probabilities(case.input(), &times));
    }
}

#[test]
fn broken_kernels_are_caught() {
    let case = Case::new(&[2, 70, 7]);
    let walks = || {
        let expected = force_reference(|| pair_walks(case.input(), 5)).unwrap();
        Ok(difference(&pair_walks(case.input(), 5)?, &expected))
    };
    let returns = || {
        let run = || return_probabilities(case.input(), &[1, 2, 5]);
        Ok(difference(&run()?, &force_reference(run).unwrap()))
    };
    assert_caught("        BARRIER_OF_TENSORS();\n", "", walks);
    assert_caught("        BARRIER();\n", "", returns);
    assert_caught("step < times", "step <= times", walks);
    assert_caught("step <= steps", "step < steps", returns);
    assert_caught("(start - first) * nodes", "(start - first) * 2u", walks);
}

#[test]
fn what_does_not_fit_is_refused() {
    let case = Case::new(&[3, 4]);
    let input = case.input();
    assert!(pair_walks(input, 0).is_err());
    assert!(return_probabilities(input, &[]).is_err());
    assert!(return_probabilities(input, &[1, 0]).is_err());
    let short = Tensor::zeros(3, DType::F32, &Device::Cpu).unwrap();
    let probabilities = &short;
    assert!(
        pair_walks(
            WalkInput {
                probabilities,
                ..input
            },
            2
        )
        .is_err(),
        "{short}"
    );
    let node_ptr = &Offsets::from_lengths([3], &Device::Cpu).unwrap();
    assert!(pair_walks(WalkInput { node_ptr, ..input }, 2).is_err());
}
