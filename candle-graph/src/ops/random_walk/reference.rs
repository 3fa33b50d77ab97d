//! Random walks in plain candle tensors: the powers of every graph's dense matrix.

use candle_core::{DType, Result, Tensor};

use super::WalkInput;

/// `M` of one graph, `[n, n]` from row to column.
fn matrix(input: &WalkInput<'_>, probabilities: &[f32], graph: usize) -> Result<Tensor> {
    let nodes = input.node_ptr.range(graph);
    let n = nodes.len();
    let mut matrix = vec![0f32; n * n];
    for target in nodes.clone() {
        for edge in input.adjacency.ptr().range(target) {
            let source = input.adjacency.sources()[edge] as usize - nodes.start;
            matrix[source * n + target - nodes.start] += probabilities[edge];
        }
    }
    Tensor::from_vec(matrix, (n, n), input.probabilities.device())
}

/// The graphs that have nodes, with their matrices.
fn matrices(input: &WalkInput<'_>) -> Result<Vec<Tensor>> {
    let probabilities = input.probabilities.to_vec1::<f32>()?;
    let lengths = input.node_ptr.lengths().enumerate();
    let graphs = lengths.filter(|&(_, n)| n > 0).map(|(graph, _)| graph);
    graphs
        .map(|graph| matrix(input, &probabilities, graph))
        .collect()
}

pub(super) fn pair_walks(input: &WalkInput<'_>, times: usize) -> Result<Tensor> {
    let device = input.probabilities.device();
    let mut graphs = Vec::new();
    for matrix in matrices(input)? {
        let n = matrix.dim(0)?;
        let mut powers = vec![Tensor::eye(n, DType::F32, device)?];
        for k in 1..times {
            powers.push(powers[k - 1].matmul(&matrix)?);
        }
        graphs.push(Tensor::stack(&powers, 2)?.reshape((n * n, times))?);
    }
    match graphs.is_empty() {
        true => Tensor::zeros((0, times), DType::F32, device),
        false => Tensor::cat(&graphs, 0),
    }
}

pub(super) fn return_probabilities(input: &WalkInput<'_>, times: &[usize]) -> Result<Tensor> {
    let device = input.probabilities.device();
    let longest = times.iter().copied().max().unwrap_or(0);
    let mut graphs = Vec::new();
    for matrix in matrices(input)? {
        let n = matrix.dim(0)?;
        let diagonal = Tensor::eye(n, DType::F32, device)?;
        let mut power = diagonal.clone();
        let mut returns = vec![None; times.len()];
        for k in 1..=longest {
            power = power.matmul(&matrix)?;
            for (column, _) in times.iter().enumerate().filter(|&(_, &time)| time == k) {
                returns[column] = Some((&power * &diagonal)?.sum(1)?);
            }
        }
        graphs.push(Tensor::stack(
            &returns.into_iter().flatten().collect::<Vec<_>>(),
            1,
        )?);
    }
    match graphs.is_empty() {
        true => Tensor::zeros((0, times.len()), DType::F32, device),
        false => Tensor::cat(&graphs, 0),
    }
}
