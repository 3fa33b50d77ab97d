//! Random walks by kernels of GPUs.

use candle_core::{DType, Error, Result, Shape, Tensor};

use super::WalkInput;
use crate::graph::PairLayout;
use crate::ops::kernels::{Kernel, Launch, Value};

const fn kernel(name: &'static str) -> Kernel {
    Kernel {
        name,
        source: include_str!("kernels.c"),
    }
}

static PAIR_WALKS: Kernel = kernel("pair_walks");
static RETURNS: Kernel = kernel("returns");

/// Nodes of a graph whose walk fits the memory of a group, within what Metal has.
pub(super) const MOST_NODES: usize = 2048;

/// Threads of a group: as many as a graph may have nodes, for small ones.
fn threads(input: &WalkInput<'_>) -> usize {
    input
        .node_ptr
        .max_length()
        .next_power_of_two()
        .clamp(32, 256)
}

pub(super) fn pair_walks(
    input: &WalkInput<'_>,
    layout: &PairLayout,
    times: usize,
) -> Result<Tensor> {
    let pairs = layout.num_pairs().map_err(Error::wrap)?;
    let (sources, _) = input.adjacency.tensors()?;
    let pair_ptr = layout.pair_ptr().map_err(Error::wrap)?;
    let launch = Launch {
        kernel: &PAIR_WALKS,
        dtype: DType::F32,
        constants: &[("MOST_NODES", MOST_NODES)],
        outputs: &[(Shape::from((pairs, times)), DType::F32)],
        inputs: &[
            input.probabilities,
            sources,
            input.adjacency.ptr().cumulative()?,
            input.node_ptr.segment_ids()?,
            input.node_ptr.cumulative()?,
            pair_ptr.cumulative()?,
        ],
        values: &[Value::count(times)?],
        groups: [input.node_ptr.total(), 1],
        threads: threads(input),
    };
    launch.run_for_one()
}

pub(super) fn return_probabilities(input: &WalkInput<'_>, times: &[usize]) -> Result<Tensor> {
    let nodes = input.node_ptr.total();
    let (sources, _) = input.adjacency.tensors()?;
    let (columns, unique) = columns(times);
    let columns = Tensor::new(columns, input.probabilities.device())?;
    let launch = Launch {
        kernel: &RETURNS,
        dtype: DType::F32,
        constants: &[("MOST_NODES", MOST_NODES)],
        outputs: &[(Shape::from((nodes, unique.len())), DType::F32)],
        inputs: &[
            input.probabilities,
            sources,
            input.adjacency.ptr().cumulative()?,
            input.node_ptr.segment_ids()?,
            input.node_ptr.cumulative()?,
            &columns,
        ],
        values: &[
            Value::count(columns.elem_count() - 1)?,
            Value::count(unique.len())?,
        ],
        groups: [nodes, 1],
        threads: threads(input),
    };
    let returns = launch.run_for_one()?;
    if unique == times {
        return Ok(returns);
    }
    let at = |time: &usize| unique.iter().position(|t| t == time).unwrap_or(0) as u32;
    let order: Vec<u32> = times.iter().map(at).collect();
    returns.index_select(&Tensor::new(order, returns.device())?, 1)
}

/// The column of every number of steps from 0 on, or their number for those that are not asked for;
/// and the times without repetition, by column.
fn columns(times: &[usize]) -> (Vec<u32>, Vec<usize>) {
    let mut unique = Vec::new();
    for time in times {
        if !unique.contains(time) {
            unique.push(*time);
        }
    }
    let longest = times.iter().copied().max().unwrap_or(0);
    let mut columns = vec![unique.len() as u32; longest + 1];
    for (column, &time) in unique.iter().enumerate() {
        columns[time] = column as u32;
    }
    (columns, unique)
}
