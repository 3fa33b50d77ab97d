//! How far apart the two ends of every edge are.

mod cpu;
mod gpu;
mod reference;

use candle_core::{Result, Tensor};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{neighbourhood, work};
use crate::graph::Adjacency;

/// `‖p_i − p_j‖²` for every edge j → i, `[E, 1]` from `positions` `[N, any width]`.
///
/// # Errors
/// Another number of positions than of nodes.
pub fn squared_distances(positions: &Tensor, adjacency: &Adjacency) -> Result<Tensor> {
    neighbourhood::check_nodes("squared distances", positions, adjacency)?;
    let _work = work::record(|| work::squared_distances(positions, adjacency));
    if fused_on_cpu([positions]) {
        cpu::forward(positions, adjacency)
    } else if fused_on_gpu([positions]) {
        gpu::forward(positions, adjacency)
    } else {
        reference::forward(positions, adjacency)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{assert_close, edges, randn};

    #[test]
    fn distances_of_known_points() {
        let adjacency = edges(3, &[[0, 0], [1, 0], [2, 1]]);
        let positions = Tensor::new(&[[1f32, 2.0], [4.0, 6.0], [4.0, 5.5]], &Device::Cpu).unwrap();
        let found = squared_distances(&positions, &adjacency).unwrap();
        assert_eq!(found.to_vec2::<f32>().unwrap(), [[0.0], [25.0], [0.25]]);
        assert!(squared_distances(&positions.narrow(0, 0, 2).unwrap(), &adjacency).is_err());
    }

    #[test]
    fn fused_equals_reference_and_gradients_flow() {
        let adjacency = edges(4, &[[0, 1], [1, 1], [3, 1], [3, 1], [2, 3]]);
        for width in [1, 7, 52] {
            let positions = randn(&[4, width], 1.0);
            let fused = squared_distances(&positions, &adjacency).unwrap();
            let reference = force_reference(|| squared_distances(&positions, &adjacency));
            assert_close(&fused, &reference.unwrap(), 2e-6);
        }
        let positions = Var::new(&[[0f32], [3.0], [1.0], [1.0]], &Device::Cpu).unwrap();
        let loss = squared_distances(positions.as_tensor(), &adjacency).unwrap();
        let gradients = loss.sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(positions.as_tensor()).unwrap();
        // Twice every difference: 0-1 once, 3-1 twice, 2-3 once without distance.
        let expected = [[-6f32], [6.0 + 4.0 + 4.0], [0.0], [-8.0]];
        assert_eq!(gradient.to_vec2::<f32>().unwrap(), expected);
    }
}
