//! MagNet: graph convolutions with the Magnetic Laplacian.

use candle_core::{DType, Tensor};
use candle_graph::Result;
use candle_graph::encodings::{MAGNET_LAPLACIAN, MAGNET_LARGEST_EIGENVALUE};
use candle_graph::graph::GraphBatch;
use candle_graph::nn::{linear, linear_no_bias};
use candle_graph::ops::{self, Activation, LinearWeights};
use candle_nn::VarBuilder;

use super::MagNetConfig;

/// Complex states `[nodes, D]`.
struct Complex {
    real: Tensor,
    imaginary: Tensor,
}

/// The layers.
#[derive(Debug, Clone)]
pub(super) struct MagNetLayers {
    layers: Vec<Layer>,
    eigenvalue_of_batch: bool,
}

#[derive(Debug, Clone)]
struct Layer {
    own: LinearWeights,
    neighbours: LinearWeights,
}

impl MagNetLayers {
    /// Loads for every layer the map `layers.{i}.own` and the map without bias
    /// `layers.{i}.neighbours`, of real and imaginary parts alike.
    pub(super) fn new(
        config: &MagNetConfig,
        width: usize,
        vb: &VarBuilder<'_>,
    ) -> candle_core::Result<Self> {
        let layer = |i: usize| {
            let vb = vb.pp("layers").pp(i);
            Ok(Layer {
                own: linear(width, width, vb.pp("own"))?,
                neighbours: linear_no_bias(width, width, vb.pp("neighbours"))?,
            })
        };
        Ok(Self {
            layers: (0..config.layers)
                .map(layer)
                .collect::<candle_core::Result<_>>()?,
            eigenvalue_of_batch: config.eigenvalue_of_batch,
        })
    }

    /// Whether the result for a graph depends on its batch.
    pub(super) fn depends_on_batch(&self) -> bool {
        self.eigenvalue_of_batch
    }

    /// Real node states `[nodes, D]` to real and imaginary parts `[nodes, 2·D]`.
    pub(super) fn forward(&self, nodes: Tensor, batch: &GraphBatch) -> Result<Tensor> {
        let shift = Shift::new(batch, nodes.dtype(), self.eigenvalue_of_batch)?;
        let mut states = Complex {
            imaginary: nodes.zeros_like()?,
            real: nodes,
        };
        for layer in &self.layers {
            let passed = shift.apply(&states, batch)?;
            let mapped = |own: &Tensor, passed: &Tensor| -> candle_core::Result<Tensor> {
                ops::linear(own, &layer.own, Activation::Identity)?
                    + ops::linear(passed, &layer.neighbours, Activation::Identity)?
            };
            let real = mapped(&states.real, &passed.real)?;
            let imaginary = mapped(&states.imaginary, &passed.imaginary)?;
            let kept = real.ge(0.0)?.to_dtype(real.dtype())?;
            states = Complex {
                real: (real * &kept)?,
                imaginary: (imaginary * kept)?,
            };
        }
        Ok(Tensor::cat(&[states.real, states.imaginary], 1)?)
    }
}

/// `2/λ·L − I` of every graph.
struct Shift {
    /// Real and imaginary part, `[n, n]` each.
    graphs: Vec<[Tensor; 2]>,
}

impl Shift {
    fn new(batch: &GraphBatch, dtype: DType, eigenvalue_of_batch: bool) -> Result<Self> {
        let laplacian = batch.encoding(MAGNET_LAPLACIAN)?.to_dtype(dtype)?;
        let largest = batch.encoding(MAGNET_LARGEST_EIGENVALUE)?;
        let mut largest = (largest.to_dtype(DType::F64)?.flatten_all()?).to_vec1::<f64>()?;
        if eigenvalue_of_batch {
            let of_batch = largest.iter().copied().fold(0.0, f64::max);
            largest.fill(of_batch);
        }
        let mut graphs = Vec::with_capacity(largest.len());
        let blocks = batch.node_ptr().lengths().zip(batch.pair_ptr()?.ranges());
        for ((n, pairs), eigenvalue) in blocks.zip(largest) {
            // A graph whose Laplacian is 0 has nothing to scale.
            let factor = if eigenvalue > 0.0 {
                2.0 / eigenvalue
            } else {
                0.0
            };
            let block = (laplacian.narrow(0, pairs.start, pairs.len())? * factor)?;
            let part = |at: usize| block.narrow(1, at, 1)?.reshape((n, n));
            let identity = Tensor::eye(n, dtype, batch.device())?;
            // The row of a target holds L[s, t], the conjugate of L[t, s].
            graphs.push([(part(0)? - identity)?, part(1)?.neg()?]);
        }
        Ok(Self { graphs })
    }

    fn apply(&self, states: &Complex, batch: &GraphBatch) -> Result<Complex> {
        let (mut real, mut imaginary) = (Vec::new(), Vec::new());
        for ([a, b], nodes) in self.graphs.iter().zip(batch.node_ptr().ranges()) {
            let part = |part: &Tensor| part.narrow(0, nodes.start, nodes.len())?.contiguous();
            let (x, y) = (part(&states.real)?, part(&states.imaginary)?);
            real.push((a.matmul(&x)? - b.matmul(&y)?)?);
            imaginary.push((a.matmul(&y)? + b.matmul(&x)?)?);
        }
        Ok(Complex {
            real: Tensor::cat(&real, 0)?,
            imaginary: Tensor::cat(&imaginary, 0)?,
        })
    }
}
