//! The recorded tensors of a case.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_graph::datasets::{Format, ReadOptions, open};
use candle_graph::graph::{Features, Graph};
use candle_graph_weights::{Limits, StateDict, read_safetensors};

/// A safetensors file whose tensors are taken by name.
pub(super) struct Recorded {
    tensors: StateDict,
}

impl Recorded {
    /// Reads `path`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        Ok(Self {
            tensors: read_safetensors(path, &Limits::default())?,
        })
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.names()
    }

    fn tensor(&self, name: &str) -> Result<Tensor> {
        let data = self
            .tensors
            .get(name)
            .with_context(|| format!("`{name}` was not recorded"))?;
        Ok(data.to_tensor(&Device::Cpu)?)
    }

    /// The shape of `name`.
    pub(super) fn shape(&self, name: &str) -> Result<Vec<usize>> {
        Ok(self.tensor(name)?.dims().to_vec())
    }

    /// The values of `name` as f32.
    pub(super) fn values(&self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?.to_dtype(DType::F32)?;
        Ok(tensor.flatten_all()?.to_vec1()?)
    }

    /// The two rows of the index tensor `name`, `[2, columns]`.
    pub(super) fn index_rows(&self, name: &str) -> Result<[Vec<i64>; 2]> {
        let mut rows = self.tensor(name)?.to_dtype(DType::I64)?.to_vec2()?;
        match (rows.pop(), rows.pop(), rows.is_empty()) {
            (Some(second), Some(first), true) => Ok([first, second]),
            _ => bail!("`{name}` does not have two rows"),
        }
    }
}

/// The graphs of the case, with the coordinates that come with the data, where there are any.
pub(super) fn graphs(folder: &Path) -> Result<Vec<Graph>> {
    let path = folder.join("inputs.safetensors");
    let reader = open(
        &path,
        Some(Format::SafetensorsBatch),
        &ReadOptions::default(),
    )?;
    let graphs: Vec<Graph> = reader.collect::<Result<_, _>>()?;
    let encodings = folder.join("encodings.safetensors");
    let coordinates = match encodings.is_file() {
        true => Some(Recorded::read(&encodings)?).filter(|file| file.names().any(|n| n == "t")),
        false => None,
    };
    let Some(file) = coordinates else {
        return Ok(graphs);
    };
    let (values, shape) = (file.values("t")?, file.shape("t")?);
    let width = *shape.get(1).context("`t` is not [nodes, coordinates]")?;
    let mut rest = values.as_slice();
    let with_coordinates = graphs.into_iter().map(|graph| {
        let (own, others) = rest
            .split_at_checked(graph.num_nodes() * width)
            .context("`t` has too few rows")?;
        rest = others;
        Ok(graph.with_rotational_features(Features::float(width, own.to_vec()))?)
    });
    with_coordinates.collect()
}

/// Finds for pairs `(row 0, row 1)` of a recorded, batch-wide index the row of our pair layout,
/// where row 0 is the source and row 1 the target.
pub(super) fn pair_rows(index: &[Vec<i64>; 2], graphs: &[Graph]) -> Result<Vec<usize>> {
    let mut places = Vec::new();
    let (mut first_node, mut first_pair) = (0usize, 0usize);
    for graph in graphs {
        let n = graph.num_nodes();
        places.extend(std::iter::repeat_n((first_node, first_pair, n), n));
        first_node += n;
        first_pair += n * n;
    }
    let [sources, targets] = index;
    sources
        .iter()
        .zip(targets)
        .map(|(&source, &target)| {
            let place = usize::try_from(source).ok().and_then(|s| places.get(s));
            let &(first_node, first_pair, n) = place.context("a recorded index is out of range")?;
            let local = |node: i64| {
                let node = usize::try_from(node).ok()?.checked_sub(first_node)?;
                (node < n).then_some(node)
            };
            match (local(source), local(target)) {
                (Some(s), Some(t)) => Ok(first_pair + t * n + s),
                _ => bail!("a recorded pair joins two graphs"),
            }
        })
        .collect()
}
