//! The spectra of one graph, each computed once for all recipes that read it.

use std::cell::RefCell;
use std::rc::Rc;

use super::EncodingRecipe;
use crate::error::Result;
use crate::graph::Graph;
use crate::spectral::{Laplacian, LaplacianNorm, Spectrum, lowest_is_dense};

/// The spectra of the Laplacians of one graph, computed when they are first asked for.
///
/// The values are those of a decomposition of its own: a dense one finds all eigenvalues, whatever
/// the number asked for, so the first of them do not depend on it. Those of an iteration do, and are
/// shared between equal numbers only, or encodings would depend on the recipes beside them.
pub(super) struct Spectra<'a> {
    graph: &'a Graph,
    /// How many eigenvalues of each Laplacian the recipes read.
    wanted: Vec<(LaplacianNorm, usize)>,
    made: RefCell<Vec<(LaplacianNorm, Rc<Spectrum>)>>,
}

impl<'a> Spectra<'a> {
    /// The spectra of `graph`, for `recipes`.
    pub(super) fn new<'r>(
        graph: &'a Graph,
        recipes: impl IntoIterator<Item = &'r EncodingRecipe>,
    ) -> Self {
        let recipes = recipes.into_iter();
        Self {
            graph,
            wanted: recipes.filter_map(|r| r.spectrum(graph)).collect(),
            made: RefCell::new(Vec::new()),
        }
    }

    /// The spectrum of the Laplacian that is normalised by `norm`, with at least its `count`
    /// smallest eigenvalues, or all of them if there are fewer.
    ///
    /// # Errors
    /// The graph is too large, or the decomposition does not converge.
    pub(super) fn lowest(&self, norm: LaplacianNorm, count: usize) -> Result<Rc<Spectrum>> {
        let n = self.graph.num_nodes();
        let count = count.min(n);
        let is_dense = |count: usize| lowest_is_dense(norm, n, count);
        let fits = |made: &&(LaplacianNorm, Rc<Spectrum>)| {
            let found = made.1.eigenvalues().len();
            made.0 == norm
                && (found == count || found > count && is_dense(count) && is_dense(found))
        };
        if let Some((_, spectrum)) = self.made.borrow().iter().find(fits) {
            return Ok(spectrum.clone());
        }
        let mut most = count;
        if is_dense(count) {
            let of_norm = self.wanted.iter().filter(|(wanted, _)| *wanted == norm);
            let counts = of_norm.map(|&(_, count)| count.min(n));
            most = counts
                .filter(|&count| is_dense(count))
                .fold(count, usize::max);
        }
        let laplacian = Laplacian::new(self.graph, norm);
        let spectrum = Rc::new(Spectrum::lowest(&laplacian, most)?);
        self.made.borrow_mut().push((norm, spectrum.clone()));
        Ok(spectrum)
    }

    /// Number of decompositions so far.
    #[cfg(test)]
    pub(super) fn decompositions(&self) -> usize {
        self.made.borrow().len()
    }
}
