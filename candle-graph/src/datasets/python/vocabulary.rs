//! Numbers for what stands in programs' graphs.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::error::PythonError;
use super::program_graph::{EdgeType, ProgramGraph};
use crate::error::Result;
use crate::graph::{Features, Graph};

/// What stands for anything that a list does not name.
pub const UNKNOWN: &str = "__UNK__";

/// The node types, attributes and edge names that a model knows, each numbered by its position.
///
/// What a list does not name has the number of [`UNKNOWN`] in it, or the number after the last if
/// the list does not name that either (the official attributes: 11972 and one more for the rest).
/// Edge types need no list ([`EdgeType::index`]).
///
/// ```
/// use candle_graph::datasets::python::{PythonFunction, Vocabulary};
///
/// let text = r#"{
///     "node_types": ["Module", "FunctionDef", "arguments", "Return", "Constant", "__UNK__"],
///     "attributes": ["__NONE__", "_mask_", "1"],
///     "edge_names": ["__NONE__", "body", "args", "value"]
/// }"#;
/// let vocabulary: Vocabulary = serde_json::from_str(text)?;
/// let function = PythonFunction::parse("def f():\n    return -1\n")?;
/// let graph = function.graph().to_graph(&vocabulary)?;
/// let features = graph.node_features().unwrap();
/// // Module, function, arguments, `return`, then the unknown `UnaryOp`: type, attribute, depth.
/// assert_eq!(features.row(1), [1.0, 1.0, 1.0]);
/// assert_eq!(features.row(4), [5.0, 0.0, 3.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Lists", into = "Lists")]
pub struct Vocabulary {
    node_types: Dictionary,
    attributes: Dictionary,
    edge_names: Dictionary,
}

/// A vocabulary as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lists {
    node_types: Vec<String>,
    attributes: Vec<String>,
    edge_names: Vec<String>,
}

impl TryFrom<Lists> for Vocabulary {
    type Error = PythonError;

    fn try_from(lists: Lists) -> Result<Self, PythonError> {
        Self::new(lists.node_types, lists.attributes, lists.edge_names)
    }
}

impl From<Vocabulary> for Lists {
    fn from(vocabulary: Vocabulary) -> Self {
        Self {
            node_types: vocabulary.node_types.names,
            attributes: vocabulary.attributes.names,
            edge_names: vocabulary.edge_names.names,
        }
    }
}

impl Vocabulary {
    /// The vocabulary of these lists.
    ///
    /// # Errors
    /// A name that stands twice in a list.
    pub fn new(
        node_types: Vec<String>,
        attributes: Vec<String>,
        edge_names: Vec<String>,
    ) -> Result<Self, PythonError> {
        Ok(Self {
            node_types: Dictionary::new("node_types", node_types)?,
            attributes: Dictionary::new("attributes", attributes)?,
            edge_names: Dictionary::new("edge_names", edge_names)?,
        })
    }

    /// The vocabulary of a data set as the official code makes it: every node type and edge name and
    /// the `max_attributes` most frequent attributes, the most frequent first, equally frequent ones
    /// in the order in which they come up. All edges count, [`EdgeType::NextSyntax`] included.
    pub fn of_graphs<'g>(
        graphs: impl IntoIterator<Item = &'g ProgramGraph>,
        max_attributes: usize,
    ) -> Self {
        let (mut types, mut attributes, mut names) =
            (Counter::default(), Counter::default(), Counter::default());
        for graph in graphs {
            for node in graph.nodes() {
                types.count(node.node_type.name());
                attributes.count(node.attribute_name());
            }
            for edge in graph.edges() {
                names.count(edge.name);
            }
        }
        let mut attributes = attributes.most_common();
        attributes.truncate(max_attributes);
        Self {
            node_types: Dictionary::of_distinct(types.most_common()),
            attributes: Dictionary::of_distinct(attributes),
            edge_names: Dictionary::of_distinct(names.most_common()),
        }
    }

    /// Number of a node type.
    pub fn node_type(&self, name: &str) -> u32 {
        self.node_types.index(name)
    }

    /// Number of an attribute.
    pub fn attribute(&self, name: &str) -> u32 {
        self.attributes.index(name)
    }

    /// Number of an edge name.
    pub fn edge_name(&self, name: &str) -> u32 {
        self.edge_names.index(name)
    }
}

impl ProgramGraph {
    /// The graph as models read it: node categories (type, attribute, depth), edge categories (type,
    /// name), without the edges [`EdgeType::NextSyntax`]
    /// (`exclude_next_syntax_edges`). Depths are not clipped; models do that.
    ///
    /// # Errors
    /// None for graphs of [`PythonFunction`](super::PythonFunction).
    pub fn to_graph(&self, vocabulary: &Vocabulary) -> Result<Graph> {
        let nodes = self.nodes().iter();
        let node_features = nodes.flat_map(|node| {
            [
                vocabulary.node_type(node.node_type.name()),
                vocabulary.attribute(node.attribute_name()),
                node.depth,
            ]
        });
        let edges = self.edges().iter();
        let edges: Vec<_> = edges
            .filter(|e| e.edge_type != EdgeType::NextSyntax)
            .collect();
        let edge_features = edges
            .iter()
            .flat_map(|edge| [edge.edge_type.index(), vocabulary.edge_name(edge.name)]);
        Graph::builder(self.nodes().len())
            .node_features(Features::categorical(3, node_features.collect()))
            .edge_features(Features::categorical(2, edge_features.collect()))
            .edges(edges.iter().map(|edge| [edge.sender, edge.receiver]))
            .build()
    }
}

/// Names and their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dictionary {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    unknown: u32,
}

impl Dictionary {
    fn new(list: &str, names: Vec<String>) -> Result<Self, PythonError> {
        let dictionary = Self::of_distinct(names);
        let mut seen = std::collections::HashSet::new();
        match dictionary.names.iter().find(|name| !seen.insert(*name)) {
            Some(name) => Err(PythonError::Vocabulary(format!(
                "{list} lists \"{name}\" twice"
            ))),
            None => Ok(dictionary),
        }
    }

    fn of_distinct(names: Vec<String>) -> Self {
        let numbers: HashMap<String, u32> = names.iter().cloned().zip(0..).collect();
        let unknown = numbers.get(UNKNOWN).copied();
        Self {
            unknown: unknown.unwrap_or(u32::try_from(names.len()).unwrap_or(u32::MAX)),
            numbers,
            names,
        }
    }

    fn index(&self, name: &str) -> u32 {
        self.numbers.get(name).copied().unwrap_or(self.unknown)
    }
}

/// Counts names.
#[derive(Default)]
struct Counter<'n> {
    counts: HashMap<&'n str, usize>,
    order: Vec<&'n str>,
}

impl<'n> Counter<'n> {
    fn count(&mut self, name: &'n str) {
        let count = self.counts.entry(name).or_insert_with(|| {
            self.order.push(name);
            0
        });
        *count += 1;
    }

    fn most_common(mut self) -> Vec<String> {
        self.order
            .sort_by_key(|name| std::cmp::Reverse(self.counts[name]));
        self.order.into_iter().map(str::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::python::PythonFunction;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn what_is_not_listed_is_unknown() {
        let vocabulary = Vocabulary::new(
            list(&["Name", "__UNK__", "Load"]),
            list(&["__NONE__", "x"]),
            list(&["__NONE__"]),
        )
        .unwrap();
        assert_eq!(
            (vocabulary.node_type("Load"), vocabulary.node_type("Add")),
            (2, 1)
        );
        assert_eq!(
            (vocabulary.attribute("x"), vocabulary.attribute("y")),
            (1, 2)
        );
        assert_eq!(
            (
                vocabulary.edge_name("__NONE__"),
                vocabulary.edge_name("body")
            ),
            (0, 1)
        );
    }

    #[test]
    fn repeated_and_unknown_entries_are_refused() {
        let repeated = Vocabulary::new(list(&["Name"]), list(&["x", "y", "x"]), list(&[]));
        let message = repeated.unwrap_err().to_string();
        assert_eq!(message, "vocabulary: attributes lists \"x\" twice");
        for text in [
            r#"{"node_types": [], "attributes": []}"#,
            r#"{"node_types": [], "attributes": [], "edge_names": [], "names": []}"#,
            r#"{"node_types": ["a", "a"], "attributes": [], "edge_names": []}"#,
        ] {
            assert!(serde_json::from_str::<Vocabulary>(text).is_err());
        }
    }

    #[test]
    fn a_vocabulary_is_written_as_its_lists() {
        let function = PythonFunction::parse("def f(x):\n    return x\n").unwrap();
        let vocabulary = Vocabulary::of_graphs([function.graph()], 3);
        let text = serde_json::to_string(&vocabulary).unwrap();
        assert!(
            text.contains(r#""attributes":["__NONE__","x","_mask_"]"#),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<Vocabulary>(&text).unwrap(),
            vocabulary
        );
    }

    #[test]
    fn edges_that_models_do_not_read_are_left_out() {
        let source = "def f(x):\n    y = x\n    z = x\n    return y + z\n";
        let function = PythonFunction::parse(source).unwrap();
        let program = function.graph();
        let vocabulary = Vocabulary::of_graphs([program], 100);
        let graph = program.to_graph(&vocabulary).unwrap();
        let kept = program
            .edges()
            .iter()
            .filter(|e| e.edge_type != EdgeType::NextSyntax);
        let kept: Vec<_> = kept.collect();
        assert!(kept.len() < program.edges().len());
        assert_eq!(graph.num_edges(), kept.len());
        let features = graph.edge_features().unwrap();
        for (row, edge) in kept.iter().enumerate() {
            assert_eq!(graph.edges()[row], [edge.sender, edge.receiver]);
            let name = vocabulary.edge_name(edge.name) as f32;
            assert_eq!(features.row(row), [edge.edge_type.index() as f32, name]);
        }
        let nodes = graph.node_features().unwrap();
        assert_eq!((nodes.width(), nodes.rows()), (3, program.nodes().len()));
        assert_eq!(nodes.row(4)[2], program.nodes()[4].depth as f32);
    }
}
