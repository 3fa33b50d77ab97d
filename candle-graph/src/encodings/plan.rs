//! What encodings a model needs, computed and attached.

use std::borrow::Borrow;

use candle_core::Tensor;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::spectra::Spectra;
use super::{
    DirectedWalk, Electrostatic, EncodingArray, GraphEncoding, Graphormer, HeatKernel, LapPe,
    Level, MagNet, Magnetic, Rotational, Rrwp, Rwse, Svd,
};
use crate::error::{Error, Result};
use crate::graph::{Graph, GraphBatch};
use crate::spectral::{LaplacianNorm, check_lowest};

/// One encoding with everything that its values depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EncodingRecipe {
    /// Relative random walk probabilities.
    Rrwp(Rrwp),
    /// Random walk landing probabilities.
    Rwse(Rwse),
    /// Eigenvectors of the Laplacian.
    LapPe(LapPe),
    /// Eigenvectors of the Laplacian for SignNet, which may stand beside those of LapPE.
    SignNet(LapPe),
    /// Diagonals of heat kernels.
    HeatKernel(HeatKernel),
    /// Statistics of the electrostatic interaction between nodes.
    Electrostatic(Electrostatic),
    /// Shortest paths and degrees for Graphormer.
    Graphormer(Graphormer),
    /// Coordinates for rotary encodings.
    Rotational(Rotational),
    /// Eigenvectors of the Magnetic Laplacian.
    Magnetic(Magnetic),
    /// Directed random walks and personalised PageRank.
    DirectedWalk(DirectedWalk),
    /// Singular vectors of the adjacency matrix.
    Svd(Svd),
    /// The Magnetic Laplacian itself, for MagNet.
    #[serde(rename = "magnet")]
    MagNet(MagNet),
}

impl EncodingRecipe {
    /// Name, level and width of every array that the recipe makes.
    pub fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        match self {
            Self::Rrwp(rrwp) => rrwp.arrays(),
            Self::Rwse(rwse) => rwse.arrays(),
            Self::LapPe(lap_pe) => lap_pe.arrays(),
            Self::SignNet(lap_pe) => lap_pe.sign_net_arrays(),
            Self::HeatKernel(heat_kernel) => heat_kernel.arrays(),
            Self::Electrostatic(electrostatic) => electrostatic.arrays(),
            Self::Graphormer(graphormer) => graphormer.arrays(),
            Self::Rotational(rotational) => rotational.arrays(),
            Self::Magnetic(magnetic) => magnetic.arrays(),
            Self::DirectedWalk(walk) => walk.arrays(),
            Self::Svd(svd) => svd.arrays(),
            Self::MagNet(magnet) => magnet.arrays(),
        }
    }

    /// Version of the algorithm behind the recipe. It is part of the key of cached encodings and
    /// must be raised by whoever changes the values, however little.
    pub(super) fn version(&self) -> u32 {
        match self {
            Self::Rrwp(_) => Rrwp::VERSION,
            Self::Rwse(_) => Rwse::VERSION,
            Self::LapPe(_) | Self::SignNet(_) => LapPe::VERSION,
            Self::HeatKernel(_) => HeatKernel::VERSION,
            Self::Electrostatic(_) => Electrostatic::VERSION,
            Self::Graphormer(_) => Graphormer::VERSION,
            Self::Rotational(_) => Rotational::VERSION,
            Self::Magnetic(_) => Magnetic::VERSION,
            Self::DirectedWalk(_) => DirectedWalk::VERSION,
            Self::Svd(_) => Svd::VERSION,
            Self::MagNet(_) => MagNet::VERSION,
        }
    }

    /// Whether the values depend on the order in which the graph lists its edges.
    pub(super) fn reads_edge_order(&self) -> bool {
        matches!(self, Self::Graphormer(graphormer) if graphormer.reads_edge_order())
    }

    /// Whether the values depend on the coordinates that the graph carries.
    pub(super) fn reads_rotational_features(&self) -> bool {
        matches!(self, Self::Rotational(_))
    }

    /// The Laplacian whose spectrum the recipe reads for `graph`, and how many eigenvalues.
    pub(super) fn spectrum(&self, graph: &Graph) -> Option<(LaplacianNorm, usize)> {
        match self {
            Self::LapPe(lap_pe) | Self::SignNet(lap_pe) => {
                Some((lap_pe.laplacian_norm, lap_pe.frequencies))
            }
            Self::HeatKernel(_) | Self::Electrostatic(_) => {
                Some((LaplacianNorm::None, graph.num_nodes()))
            }
            Self::Rotational(rotational) => rotational.spectrum(graph),
            Self::Rrwp(_)
            | Self::Rwse(_)
            | Self::Graphormer(_)
            | Self::Magnetic(_)
            | Self::DirectedWalk(_)
            | Self::Svd(_)
            | Self::MagNet(_) => None,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Rrwp(rrwp) => rrwp.check(),
            Self::Rwse(rwse) => rwse.check(),
            Self::LapPe(lap_pe) => lap_pe.check("LapPE"),
            Self::SignNet(lap_pe) => lap_pe.check("SignNet"),
            Self::HeatKernel(heat_kernel) => heat_kernel.check(),
            Self::Electrostatic(_) => Ok(()),
            Self::Graphormer(graphormer) => graphormer.check(),
            Self::Rotational(rotational) => rotational.check(),
            Self::Magnetic(magnetic) => magnetic.check(),
            Self::DirectedWalk(walk) => walk.check(),
            Self::Svd(svd) => svd.check(),
            Self::MagNet(magnet) => magnet.check(),
        }
    }

    /// Refuses a graph for which the computation itself, not its result, takes too much, or whose
    /// coordinates do not fit the recipe.
    fn check_graph(&self, graph: &Graph, position: usize) -> Result<()> {
        let checked = match self {
            Self::Graphormer(graphormer) => graphormer.check_graph(graph),
            Self::Rotational(rotational) => {
                let carried = rotational.carried_by(graph);
                carried.map_err(|problem| Error::graph(graph.label(position), problem))?;
                Ok(())
            }
            Self::Magnetic(magnetic) => magnetic.check_graph(graph),
            Self::DirectedWalk(walk) => walk.check_graph(graph),
            Self::Svd(svd) => svd.check_graph(graph),
            Self::MagNet(magnet) => magnet.check_graph(graph),
            _ => Ok(()),
        };
        let checked = checked.and_then(|()| match self.spectrum(graph) {
            Some((norm, count)) => check_lowest(norm, graph.num_nodes(), count),
            None => Ok(()),
        });
        checked.map_err(|error| of_graph(graph, position, &error))
    }

    /// The arrays for `graph`, whose `spectra` are given; `position` names it in messages when it
    /// has no id.
    pub(super) fn compute(
        &self,
        graph: &Graph,
        spectra: &Spectra<'_>,
        position: usize,
    ) -> Result<Vec<EncodingArray>> {
        let computed = match self {
            Self::Rrwp(rrwp) => Ok(rrwp.compute(graph)),
            Self::Rwse(rwse) => Ok(rwse.compute(graph)),
            Self::LapPe(lap_pe) => lap_pe.compute(graph, spectra),
            Self::SignNet(lap_pe) => lap_pe.compute_sign_net(graph, spectra),
            Self::HeatKernel(heat_kernel) => heat_kernel.compute(graph, spectra),
            Self::Electrostatic(electrostatic) => electrostatic.compute(graph, spectra),
            Self::Graphormer(graphormer) => Ok(graphormer.compute(graph)),
            Self::Rotational(rotational) => rotational.compute(graph, spectra),
            Self::Magnetic(magnetic) => magnetic.compute(graph),
            Self::DirectedWalk(walk) => Ok(walk.compute(graph)),
            Self::Svd(svd) => svd.compute(graph),
            Self::MagNet(magnet) => magnet.compute(graph),
        };
        computed.map_err(|error| of_graph(graph, position, &error))
    }
}

/// `error` with the name of the graph.
fn of_graph(graph: &Graph, position: usize, error: &Error) -> Error {
    Error::Encoding(format!("graph {}: {error}", graph.label(position)))
}

/// The encodings that a model needs. Every way to make one checks the recipes, reading it included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<EncodingRecipe>", into = "Vec<EncodingRecipe>")]
pub struct EncodingPlan {
    recipes: Vec<EncodingRecipe>,
}

impl TryFrom<Vec<EncodingRecipe>> for EncodingPlan {
    type Error = Error;

    fn try_from(recipes: Vec<EncodingRecipe>) -> Result<Self> {
        Self::new(recipes)
    }
}

impl From<EncodingPlan> for Vec<EncodingRecipe> {
    fn from(plan: EncodingPlan) -> Self {
        plan.recipes
    }
}

impl EncodingPlan {
    /// The largest encoding of one graph that is computed without asking: 8 GiB.
    pub const MAX_BYTES: u64 = 8 << 30;

    /// A plan of these recipes.
    ///
    /// # Errors
    /// A recipe with impossible parameters, or two that make an array of the same name.
    pub fn new(recipes: Vec<EncodingRecipe>) -> Result<Self> {
        let plan = Self { recipes };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<()> {
        let mut names = Vec::new();
        for recipe in &self.recipes {
            recipe.check()?;
            for (name, ..) in recipe.arrays() {
                if names.contains(&name) {
                    return Err(Error::Encoding(format!("two recipes make `{name}`")));
                }
                names.push(name);
            }
        }
        Ok(())
    }

    /// The recipes in order.
    pub fn recipes(&self) -> &[EncodingRecipe] {
        &self.recipes
    }

    /// Whether the plan asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.recipes.is_empty()
    }

    /// Name, level and width of every array, in order.
    pub fn arrays(&self) -> Vec<(&'static str, Level, usize)> {
        self.recipes
            .iter()
            .flat_map(EncodingRecipe::arrays)
            .collect()
    }

    /// Bytes that the encodings of `graph` take.
    pub fn bytes(&self, graph: &Graph) -> u64 {
        self.arrays()
            .iter()
            .map(|&(_, level, width)| level.rows(graph).saturating_mul(4 * width as u64))
            .fold(0, u64::saturating_add)
    }

    /// Computes the encodings of one graph; `position` names it in messages when it has no id.
    ///
    /// # Errors
    /// As [`check_bytes`](Self::check_bytes), or an eigendecomposition does not converge.
    pub fn compute(&self, graph: &Graph, position: usize) -> Result<GraphEncoding> {
        self.check_bytes(graph, position)?;
        let spectra = Spectra::new(graph, &self.recipes);
        let mut arrays = Vec::new();
        for recipe in &self.recipes {
            arrays.extend(recipe.compute(graph, &spectra, position)?);
        }
        Ok(GraphEncoding { arrays })
    }

    /// Refuses a graph whose encodings exceed [`MAX_BYTES`](Self::MAX_BYTES), which is too large for
    /// the eigendecomposition that they take ([`check_lowest`]), or whose own coordinates do not
    /// fit, as [`compute`](Self::compute) would.
    ///
    /// # Errors
    /// The number of bytes or of coordinates, with the graph's name.
    pub fn check_bytes(&self, graph: &Graph, position: usize) -> Result<()> {
        let bytes = self.bytes(graph);
        if bytes > Self::MAX_BYTES {
            return Err(Error::Encoding(format!(
                "graph {} with {} nodes needs {bytes} bytes of encodings, more than the limit of {}",
                graph.label(position),
                graph.num_nodes(),
                Self::MAX_BYTES,
            )));
        }
        let mut recipes = self.recipes.iter();
        recipes.try_for_each(|recipe| recipe.check_graph(graph, position))
    }

    /// Computes the encodings of many graphs on all cores, in input order. `first` is the position
    /// of `graphs[0]` in the whole input.
    ///
    /// # Errors
    /// As [`compute`](Self::compute), for the first graph that fails.
    pub fn compute_all<G: AsRef<Graph> + Sync>(
        &self,
        graphs: &[G],
        first: usize,
    ) -> Result<Vec<GraphEncoding>> {
        graphs
            .par_iter()
            .enumerate()
            .map(|(at, graph)| self.compute(graph.as_ref(), first.saturating_add(at)))
            .collect()
    }

    /// Attaches the encodings of a batch's graphs, in their order, to the batch: every array of the
    /// plan becomes one tensor f32 `[rows of all graphs, width]` under its name.
    ///
    /// # Errors
    /// The number of encodings, or the size of one, does not fit the batch.
    pub fn attach<E: Borrow<GraphEncoding>>(
        &self,
        batch: &mut GraphBatch,
        encodings: &[E],
    ) -> Result<()> {
        if encodings.len() != batch.num_graphs() {
            return Err(Error::Encoding(format!(
                "{} encodings for a batch of {} graphs",
                encodings.len(),
                batch.num_graphs()
            )));
        }
        for (name, level, width) in self.arrays() {
            let ptr = match level {
                Level::Graph => None,
                Level::Node => Some(batch.node_ptr()),
                Level::Pair => Some(batch.pair_ptr()?),
            };
            let rows_of = |g: usize| ptr.map_or(1, |ptr| ptr.range(g).len());
            let total: usize = (0..encodings.len()).map(rows_of).sum();
            let mut data = Vec::with_capacity(total * width);
            for (g, encoding) in encodings.iter().enumerate() {
                let array = encoding.borrow().get(name).ok_or_else(|| {
                    Error::Encoding(format!("graph {g} of the batch: `{name}` is missing"))
                })?;
                let expected = rows_of(g) * width;
                if array.width != width || array.data.len() != expected {
                    return Err(Error::Encoding(format!(
                        "graph {g} of the batch: `{name}` holds {} values in rows of {}, expected \
                         {expected} in rows of {width}",
                        array.data.len(),
                        array.width
                    )));
                }
                data.extend_from_slice(&array.data);
            }
            let tensor = Tensor::from_vec(data, (total, width), batch.device())?;
            batch.attach_encoding(name, tensor);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encodings::EigvecNorm;
    use crate::spectral::LaplacianNorm;

    #[test]
    fn a_plan_that_is_read_is_checked() {
        let read = |text: &str| serde_json::from_str::<EncodingPlan>(text);
        let good = r#"[{"kind":"rwse","times":[1,2]},{"kind":"rrwp","steps":3},{"kind":"lap_pe",
            "frequencies":3,"laplacian_norm":"sym","eigvec_norm":"wavelength-asin"}]"#;
        let plan = read(good).unwrap();
        assert_eq!(plan.recipes().len(), 3);
        assert_eq!(read(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
        for (bad, message) in [
            (r#"[{"kind":"rwse","times":[]}]"#, "without walk lengths"),
            (r#"[{"kind":"rrwp","steps":0}]"#, "RRWP with 0 steps"),
            (
                r#"[{"kind":"lap_pe","frequencies":0,"laplacian_norm":"rw","eigvec_norm":"L2"}]"#,
                "LapPE with 0 frequencies",
            ),
            (
                r#"[{"kind":"rrwp","steps":2},{"kind":"rrwp","steps":3}]"#,
                "two recipes make `rrwp.node`",
            ),
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_graph_too_large_to_decompose_is_refused_by_name_before_anything_is_computed() {
        let recipe = HeatKernel { times: vec![1] };
        let plan = EncodingPlan::new(vec![EncodingRecipe::HeatKernel(recipe)]).unwrap();
        let large = Graph::builder(6000).id("large").build().unwrap();
        let error = plan.check_bytes(&large, 0).unwrap_err().to_string();
        assert!(error.contains(r#"graph "large": "#), "{error}");
        assert!(
            error.contains("6000 nodes takes 1152000000 bytes"),
            "{error}"
        );
        assert_eq!(plan.compute(&large, 0).unwrap_err().to_string(), error);
    }

    #[test]
    fn the_lowest_eigenvectors_of_a_large_graph_are_no_trouble() {
        let lap_pe = |laplacian_norm| {
            let recipe = LapPe {
                frequencies: 2,
                laplacian_norm,
                eigvec_norm: EigvecNorm::L2,
            };
            EncodingPlan::new(vec![EncodingRecipe::LapPe(recipe)]).unwrap()
        };
        let path = (1..6000i64).map(|i| [i - 1, i]);
        let path = Graph::builder(6000).edges(path).undirected(true);
        let path = path.build().unwrap();
        let encoding = lap_pe(LaplacianNorm::None).compute(&path, 0).unwrap();
        let values = &encoding.get("lap_pe.eigenvalues").unwrap().data;
        let expected = (std::f64::consts::PI / 6000.0).powi(2) as f32;
        assert_eq!(values[0], 0.0);
        assert!((values[1] / expected - 1.0).abs() < 1e-5, "{}", values[1]);
        // Not a Laplacian: densely only.
        let triangle = lap_pe(LaplacianNorm::RwLowerTriangle);
        let error = triangle.check_bytes(&path, 0).unwrap_err().to_string();
        assert!(
            error.contains("6000 nodes takes 1152000000 bytes"),
            "{error}"
        );
    }
}
