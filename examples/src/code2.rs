//! Names for Python functions: a checkpoint with the vocabulary of its graphs and the sub-tokens of
//! its classes.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use candle_core::Device;
use candle_graph::datasets::python::{PythonFunction, Vocabulary};
use candle_graph::graph::Graph;
use candle_graph::nn::SubTokenDecoding;
use candle_graph_models::{Output, PredictionLevel, Predictor};
use candle_graph_weights::sub_tokens::SUB_TOKENS_FILE;
use candle_graph_weights::{SubTokens, load_model};

/// File name of the vocabulary beside the checkpoint.
pub const VOCABULARY_FILE: &str = "vocabulary.json";

/// The functions in the Python file at `path`, each by itself.
///
/// # Errors
/// A file that cannot be read or is no Python; the message names file and line.
pub fn read_functions(path: &Path) -> Result<Vec<PythonFunction>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let functions = PythonFunction::decode(&bytes).and_then(PythonFunction::parse_all);
    let functions = functions.with_context(|| path.display().to_string())?;
    ensure!(
        !functions.is_empty(),
        "{}: no function definition (`def`) in it",
        path.display()
    );
    Ok(functions)
}

/// A model that names functions.
#[derive(Debug, Clone)]
pub struct FunctionNamer {
    predictor: Predictor,
    vocabulary: Vocabulary,
    sub_tokens: SubTokens,
}

impl FunctionNamer {
    /// Loads `config.json`, `model.safetensors`, [`VOCABULARY_FILE`] and `tokenizer.json` from
    /// `folder`.
    ///
    /// # Errors
    /// A file that is missing or does not fit the others.
    pub fn load(folder: &Path) -> Result<Self> {
        let predictor = Predictor::new(load_model(folder, &Device::Cpu)?, Device::Cpu);
        let path = folder.join(VOCABULARY_FILE);
        let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let vocabulary =
            serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        let sub_tokens = SubTokens::read(&folder.join(SUB_TOKENS_FILE))?;
        let (model, classes) = (predictor.model(), sub_tokens.num_classes());
        ensure!(
            model.prediction_level() == PredictionLevel::Graph && model.output_dim() % classes == 0,
            "{}: the model must give a multiple of {classes} values a graph, the number of classes \
             in {SUB_TOKENS_FILE}, but gives {}",
            folder.display(),
            model.output_dim()
        );
        Ok(Self {
            predictor,
            vocabulary,
            sub_tokens,
        })
    }

    /// The sub-tokens of a name for every function.
    ///
    /// # Errors
    /// A graph that does not fit the model.
    pub fn names(
        &self,
        functions: &[PythonFunction],
        decoding: SubTokenDecoding,
    ) -> Result<Vec<Vec<String>>> {
        let predictions = self.predictor.predict(&self.graphs(functions)?)?;
        let classes = self.sub_tokens.num_classes();
        let name = |prediction: &Output| -> Result<Vec<String>> {
            let Some(name) = decoding.decode(&prediction.data, classes) else {
                bail!("{} values are no rows of {classes}", prediction.data.len());
            };
            Ok(self.sub_tokens.words(&name)?)
        };
        predictions.iter().map(name).collect()
    }

    /// The embedding of every function.
    ///
    /// # Errors
    /// A graph that does not fit the model.
    pub fn embeddings(&self, functions: &[PythonFunction]) -> Result<Vec<Vec<f32>>> {
        let embeddings = self.predictor.embed_graphs(&self.graphs(functions)?)?;
        Ok(embeddings.into_iter().map(|output| output.data).collect())
    }

    fn graphs(&self, functions: &[PythonFunction]) -> Result<Vec<Graph>> {
        let graph = |function: &PythonFunction| {
            let graph = function.graph().to_graph(&self.vocabulary);
            graph.with_context(|| format!("function `{}`", function.name()))
        };
        functions.iter().map(graph).collect()
    }
}
