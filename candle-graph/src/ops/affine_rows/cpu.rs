//! The fused kernel of affine maps of columns and of the sums around them: one pass over memory.

use candle_core::{Device, Result, Tensor};

use crate::ops::host::{HostF32, HostRows};
use crate::ops::row_blocks::{RowTasks, for_row_blocks};
use crate::ops::simd::{Columns, column_groups, lanes};
use crate::ops::strided_rows::strided_rows;

const TASKS: RowTasks = RowTasks {
    values: 1 << 14,
    threads_from: 1 << 17,
};

/// `(x + residual) ⊙ scale + shift + add` with `[scale, shift]` of `affine`, where what is not there
/// is left out; the shapes have been checked.
pub(in crate::ops) fn forward(
    x: &Tensor,
    residual: Option<&Tensor>,
    affine: Option<[&Tensor; 2]>,
    add: Option<&Tensor>,
) -> Result<Tensor> {
    let (count, width) = x.dims2()?;
    let x = strided_rows(x)?;
    let x = HostRows::new(&x)?;
    let residual = residual.map(strided_rows).transpose()?;
    let residual = residual.as_ref().map(HostRows::new).transpose()?;
    let add = add.map(strided_rows).transpose()?;
    let add = add.as_ref().map(HostRows::new).transpose()?;
    let affine = match affine {
        Some([scale, shift]) => Some([scale.contiguous()?, shift.contiguous()?]),
        None => None,
    };
    let affine = match &affine {
        Some([scale, shift]) => Some((HostF32::new(scale)?, HostF32::new(shift)?)),
        None => None,
    };
    let mut out = vec![0.0f32; count * width];
    let row = |rows: &HostRows<'_>, row: usize| row * rows.stride();
    for_row_blocks(
        &mut out,
        width,
        TASKS,
        #[inline(always)]
        |first, out| {
            for (at, out) in (first..).zip(out.chunks_exact_mut(width)) {
                let mut one = Row {
                    x: &x[row(&x, at)..],
                    residual: residual.as_ref().map(|r| &r[row(r, at)..]),
                    affine: affine.as_ref().map(|(s, t)| (&**s, &**t)),
                    add: add.as_ref().map(|a| &a[row(a, at)..]),
                    out,
                };
                column_groups(0..width, &mut one);
            }
        },
    );
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}

/// One row of everything.
struct Row<'a> {
    x: &'a [f32],
    residual: Option<&'a [f32]>,
    affine: Option<(&'a [f32], &'a [f32])>,
    add: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl Columns for Row<'_> {
    #[inline(always)]
    fn run<const C: usize>(&mut self, first: usize) {
        let mut values = lanes::<C>(self.x, first);
        if let Some(residual) = self.residual {
            let residual = lanes::<C>(residual, first);
            for c in 0..C {
                values[c] += residual[c];
            }
        }
        if let Some((scale, shift)) = self.affine {
            let (scale, shift) = (lanes::<C>(scale, first), lanes::<C>(shift, first));
            for c in 0..C {
                values[c] = values[c] * scale[c] + shift[c];
            }
        }
        if let Some(add) = self.add {
            let add = lanes::<C>(add, first);
            for c in 0..C {
                values[c] += add[c];
            }
        }
        self.out[first..first + C].copy_from_slice(&values);
    }
}
