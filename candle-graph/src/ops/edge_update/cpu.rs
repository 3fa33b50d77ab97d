//! Edge updates in one pass over the edges.

use candle_core::{Device, Result, Tensor};

use super::EdgeUpdateInput;
use crate::ops::host::{HostF32, HostRows};
use crate::ops::row_blocks::{RowTasks, for_row_blocks};
use crate::ops::strided_rows::strided_rows;

const TASKS: RowTasks = RowTasks {
    values: 1 << 13,
    threads_from: 1 << 16,
};

/// The shapes have been checked.
pub(super) fn forward(input: &EdgeUpdateInput<'_>) -> Result<Tensor> {
    let (count, width) = (input.adjacency.len(), input.from_sources.dim(1)?);
    let (from_sources, from_targets) = (
        strided_rows(input.from_sources)?,
        strided_rows(input.from_targets)?,
    );
    let (from_sources, from_targets) =
        (HostRows::new(&from_sources)?, HostRows::new(&from_targets)?);
    let edge_states = input.edge_states.map(Tensor::contiguous).transpose()?;
    let edge_states = edge_states.as_ref().map(HostF32::new).transpose()?;
    let (sources, targets) = (input.adjacency.sources(), input.adjacency.targets());
    let mut out = vec![0.0f32; count * width];
    for_row_blocks(
        &mut out,
        width,
        TASKS,
        #[inline(always)]
        |first, out| {
            for (edge, out) in (first..).zip(out.chunks_exact_mut(width)) {
                let source = &from_sources[sources[edge] as usize * from_sources.stride()..];
                let target = &from_targets[targets[edge] as usize * from_targets.stride()..];
                let ends = source[..width].iter().zip(&target[..width]);
                match &edge_states {
                    Some(states) => {
                        let states = &states[edge * width..][..width];
                        for ((o, (s, t)), e) in out.iter_mut().zip(ends).zip(states) {
                            *o = s + t + e;
                        }
                    }
                    None => {
                        for (o, (s, t)) in out.iter_mut().zip(ends) {
                            *o = s + t;
                        }
                    }
                }
            }
            input.activation.apply(out);
        },
    );
    Tensor::from_vec(out, (count, width), &Device::Cpu)
}
