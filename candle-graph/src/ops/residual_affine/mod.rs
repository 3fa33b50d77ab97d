//! Residual sums with the affine map after them.

mod reference;

use candle_core::{Result, Tensor, bail};

use super::dispatch::{fused_on_cpu, fused_on_gpu};
use super::{Affine, affine_rows, work};

/// `(residual + x) ⊙ scale + shift + add`, all `[rows, width]`: a residual sum, the BatchNorm after
/// it, and the branch that it is added to.
///
/// # Errors
/// Shapes that do not fit each other.
pub fn residual_affine(
    residual: &Tensor,
    x: &Tensor,
    affine: Option<&Affine>,
    add: Option<&Tensor>,
) -> Result<Tensor> {
    let (_, width) = x.dims2()?;
    for other in std::iter::once(residual).chain(add) {
        if other.dims() != x.dims() {
            bail!(
                "residual sum of shapes {:?} and {:?}",
                other.dims(),
                x.dims()
            );
        }
    }
    let parts = affine.map(|a| [&a.scale, &a.shift]);
    for part in parts.into_iter().flatten() {
        if part.dims() != [width] {
            bail!(
                "residual sum of width {width} with a norm of shape {:?}",
                part.dims()
            );
        }
    }
    let _work = work::record(|| work::residual_affine(residual, x, affine, add));
    let tensors = || parts.into_iter().flatten().chain(add).chain([residual, x]);
    if fused_on_cpu(tensors()) {
        affine_rows::cpu::forward(x, Some(residual), parts, add)
    } else if fused_on_gpu(tensors()) {
        affine_rows::gpu::forward(x, Some(residual), parts, add)
    } else {
        reference::forward(residual, x, affine, add)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::ops::force_reference;
    use crate::ops::test_data::{assert_close, randn};

    fn affine(width: usize) -> Affine {
        Affine {
            scale: randn(&[width], 1.0),
            shift: randn(&[width], 1.0),
        }
    }

    #[test]
    fn a_hand_computed_row() {
        let row = |values: [f32; 2]| Tensor::new(&[values], &Device::Cpu).unwrap();
        let norm = Affine {
            scale: Tensor::new(&[2f32, -1.0], &Device::Cpu).unwrap(),
            shift: Tensor::new(&[0.5f32, 10.0], &Device::Cpu).unwrap(),
        };
        let (residual, x, add) = (row([1.0, 2.0]), row([3.0, 4.0]), row([100.0, 200.0]));
        for (norm, add, expected) in [
            (None, None, [4.0, 6.0]),
            (None, Some(&add), [104.0, 206.0]),
            (Some(&norm), None, [8.5, 4.0]),
            (Some(&norm), Some(&add), [108.5, 204.0]),
        ] {
            let fused = residual_affine(&residual, &x, norm, add).unwrap();
            let reference = force_reference(|| residual_affine(&residual, &x, norm, add)).unwrap();
            assert_eq!(fused.to_vec2::<f32>().unwrap(), [expected]);
            assert_eq!(reference.to_vec2::<f32>().unwrap(), [expected]);
        }
    }

    #[test]
    fn fused_equals_reference_for_odd_sizes_and_views() {
        for (rows, width) in [(0, 3), (1, 1), (5, 7), (33, 52), (3000, 96)] {
            let x = randn(&[rows, width + 3], 1.0);
            let x = x.narrow(1, 2, width).unwrap();
            let (residual, add) = (randn(&[rows, width], 1.0), randn(&[rows, width], 1.0));
            let norm = affine(width);
            for (norm, add) in [(None, None), (Some(&norm), None), (Some(&norm), Some(&add))] {
                let fused = residual_affine(&residual, &x, norm, add).unwrap();
                let reference = force_reference(|| residual_affine(&residual, &x, norm, add));
                assert_close(&fused, &reference.unwrap(), 2e-6);
            }
            let x = randn(&[rows, width], 1.0);
            let reference = force_reference(|| norm.forward(&x)).unwrap();
            assert_close(&norm.forward(&x).unwrap(), &reference, 2e-6);
        }
    }

    #[test]
    fn gradients_flow_to_every_part_and_shapes_are_checked() {
        let x = Var::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap();
        let norm = Affine {
            scale: Tensor::new(&[2f32, -1.0], &Device::Cpu).unwrap(),
            shift: Tensor::new(&[0f32, 0.0], &Device::Cpu).unwrap(),
        };
        let sum = residual_affine(x.as_tensor(), x.as_tensor(), Some(&norm), Some(&x)).unwrap();
        let gradients = sum.sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(x.as_tensor()).unwrap();
        assert_eq!(gradient.to_vec2::<f32>().unwrap(), [[5f32, -1.0]; 2]);
        let (wide, x) = (randn(&[2, 3], 1.0), randn(&[2, 2], 1.0));
        assert!(residual_affine(&wide, &x, None, None).is_err());
        assert!(residual_affine(&x, &x, Some(&affine(3)), None).is_err());
        assert!(residual_affine(&x, &x, None, Some(&wide)).is_err());
    }
}
