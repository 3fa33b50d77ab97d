//! What features a model expects, and the check of a graph against it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Features, Graph};
use crate::error::{Error, GraphProblem, Result};

/// What one feature table (nodes or edges) must look like.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FeatureSchema {
    /// The model reads no features here; what a graph carries is left unread.
    #[default]
    Ignored,
    /// `tables.len()` category columns; column `c` runs from 0 to `tables[c] - 1`.
    Categorical {
        /// Number of categories of each column.
        tables: Vec<usize>,
    },
    /// The same, but larger numbers in the columns `clamped` count as the last category.
    ClampedCategorical {
        /// Number of categories of each column.
        tables: Vec<usize>,
        /// The columns that take larger numbers.
        clamped: Vec<usize>,
    },
    /// Real-valued rows.
    Float {
        /// Columns.
        width: usize,
    },
}

impl FeatureSchema {
    /// The schema in words, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Ignored => "nothing".to_string(),
            Self::Categorical { tables } | Self::ClampedCategorical { tables, .. } => format!(
                "{} categorical column(s) with {} categories",
                tables.len(),
                tables
                    .iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::Float { width } => format!("{width} real column(s)"),
        }
    }

    /// The table in the form that the model reads, or what is wrong with it. `rows` is how many
    /// rows the graph calls for; a graph without edges needs no edge features.
    fn conform<'a>(
        &self,
        features: Option<&'a Features>,
        field: &'static str,
        rows: usize,
    ) -> Result<Option<Cow<'a, Features>>, GraphProblem> {
        let expected = match self {
            Self::Ignored => return Ok(None),
            Self::Categorical { tables } | Self::ClampedCategorical { tables, .. } => tables.len(),
            Self::Float { width } => *width,
        };
        let Some(features) = features else {
            if rows > 0 {
                return Err(GraphProblem::MissingFeatures {
                    field,
                    needed: self.describe(),
                });
            }
            let empty = match self {
                Self::Float { width } => Features::float(*width, Vec::new()),
                _ => Features::categorical(expected, Vec::new()),
            };
            return Ok(Some(Cow::Owned(empty)));
        };
        if features.width() != expected {
            return Err(GraphProblem::Width {
                field,
                found: features.width(),
                expected,
            });
        }
        let (tables, clamped) = match self {
            Self::Categorical { tables } => (tables, [].as_slice()),
            Self::ClampedCategorical { tables, clamped } => (tables, clamped.as_slice()),
            Self::Ignored | Self::Float { .. } => {
                return Ok(Some(match features {
                    Features::Float { .. } => Cow::Borrowed(features),
                    Features::Categorical { .. } => Cow::Owned(features.to_float()),
                }));
            }
        };
        let mut features = match features {
            Features::Categorical { .. } => Cow::Borrowed(features),
            Features::Float { .. } => Cow::Owned(features.to_categorical(field)?),
        };
        if !clamped.is_empty() {
            features = Cow::Owned(clamp(features.into_owned(), tables, clamped));
        }
        if let Features::Categorical { width, data } = features.as_ref() {
            for (row, values) in data.chunks_exact((*width).max(1)).enumerate() {
                for (column, (&value, &table)) in values.iter().zip(tables).enumerate() {
                    if value as usize >= table {
                        return Err(GraphProblem::Category {
                            field,
                            row,
                            column,
                            value: f64::from(value),
                            table,
                        });
                    }
                }
            }
        }
        Ok(Some(features))
    }
}

/// `features` with the numbers of the columns `clamped` brought into their tables.
fn clamp(mut features: Features, tables: &[usize], clamped: &[usize]) -> Features {
    if let Features::Categorical { width, data } = &mut features {
        for row in data.chunks_exact_mut((*width).max(1)) {
            for &column in clamped {
                if let (Some(value), Some(&table)) = (row.get_mut(column), tables.get(column)) {
                    let last = u32::try_from(table.saturating_sub(1)).unwrap_or(u32::MAX);
                    *value = (*value).min(last);
                }
            }
        }
    }
    features
}

/// What a model reads from a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputSchema {
    /// Node features, field `x`.
    #[serde(default)]
    pub node: FeatureSchema,
    /// Edge features, field `edge_attr`.
    #[serde(default)]
    pub edge: FeatureSchema,
}

/// The feature tables of one graph in the form that a model reads.
#[derive(Debug, Clone)]
pub struct ConformedFeatures<'a> {
    /// Node features, `None` where the schema ignores them.
    pub node: Option<Cow<'a, Features>>,
    /// Edge features in input order, `None` where the schema ignores them.
    pub edge: Option<Cow<'a, Features>>,
}

impl InputSchema {
    /// Checks `graph` against the schema and gives its features in the kind that the model reads.
    ///
    /// `position` names the graph in messages when it has no id.
    ///
    /// # Errors
    /// Missing features, a wrong width, a value that is no category, or one outside its table;
    /// the message names graph, field, row and value.
    pub fn conform<'a>(&self, graph: &'a Graph, position: usize) -> Result<ConformedFeatures<'a>> {
        let wrap = |problem| Error::graph(graph.label(position), problem);
        Ok(ConformedFeatures {
            node: self
                .node
                .conform(graph.node_features(), "x", graph.num_nodes())
                .map_err(wrap)?,
            edge: self
                .edge
                .conform(graph.edge_features(), "edge_attr", graph.num_edges())
                .map_err(wrap)?,
        })
    }
}
