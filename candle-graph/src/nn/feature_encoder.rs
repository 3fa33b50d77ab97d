//! Encoders of node and edge features.

use candle_core::{DType, Result, Tensor, bail};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::{InvalidOption, linear};
use crate::graph::{BatchFeatures, FeatureSchema};
use crate::ops::{self, Activation, LinearWeights};

/// What kind of encoder a model has for a feature table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FeatureEncoderConfig {
    /// The sum of one embedding a column; column `c` has `tables[c]` categories. One column is
    /// GraphGym's `TypeDictNode` and `TypeDictEdge`, nine are `Atom`, three are `Bond`.
    Embedding {
        /// Number of categories of each column.
        tables: Vec<usize>,
    },
    /// As [`Embedding`](Self::Embedding), but numbers beyond the tables of the columns `clamped`
    /// count as their last: depths above 20 in `ASTNode` (98 types, 10030 attributes, 21 depths).
    ClampedEmbedding {
        /// Number of categories of each column.
        tables: Vec<usize>,
        /// The columns that take larger numbers.
        clamped: Vec<usize>,
    },
    /// An affine map of real-valued rows (`LinearNode`, `LinearEdge`, `VOCNode`, `VOCEdge`,
    /// `PPAEdge`).
    Linear {
        /// Columns of the input.
        width: usize,
    },
    /// One learned row for every node or edge, whatever its features (`DummyEdge`, `PPANode`).
    Dummy,
    /// Real-valued rows as they are; their width is the model's.
    Raw,
    /// No columns: the graphs have no features, or the model reads none.
    None,
}

impl FeatureEncoderConfig {
    /// Categories of the nine atom features of the `ogb` package (`Atom`).
    pub const ATOM_TABLES: &'static [usize] = &[119, 5, 12, 12, 10, 6, 6, 2, 2];
    /// Categories of its three bond features (`Bond`).
    pub const BOND_TABLES: &'static [usize] = &[5, 6, 2];
    /// Node type, node attribute and depth of `ogbg-code2`'s syntax trees (`ASTNode`).
    pub const SYNTAX_NODE_TABLES: &'static [usize] = &[98, 10030, 21];
    /// The column of the depth among these: the official code takes larger ones for the largest.
    pub const SYNTAX_DEPTH: usize = 2;
    /// Kind and direction of their edges (`ASTEdge`).
    pub const SYNTAX_EDGE_TABLES: &'static [usize] = &[2, 2];

    /// One embedding a column, of so many categories.
    pub fn embedding(tables: &[usize]) -> Self {
        Self::Embedding {
            tables: tables.to_vec(),
        }
    }

    /// Checks that an encoder can be built.
    ///
    /// # Errors
    /// What rules it out.
    pub fn check(&self) -> std::result::Result<(), InvalidOption> {
        let sizes = match self {
            Self::Embedding { tables } | Self::ClampedEmbedding { tables, .. } => tables.as_slice(),
            Self::Linear { width } => std::slice::from_ref(width),
            Self::Dummy | Self::Raw | Self::None => return Ok(()),
        };
        if sizes.is_empty() || sizes.contains(&0) {
            return Err(InvalidOption::new("", "a table or input of size 0"));
        }
        if let Self::ClampedEmbedding { tables, clamped } = self
            && let Some(column) = clamped.iter().find(|&&column| column >= tables.len())
        {
            return Err(InvalidOption::new(
                "clamped",
                format!("column {column} of {}", tables.len()),
            ));
        }
        match sizes.iter().find(|&&size| u32::try_from(size).is_err()) {
            Some(size) => Err(InvalidOption::new(
                "",
                format!("a table or input of size {size} passes 32 bits"),
            )),
            None => Ok(()),
        }
    }

    /// What the encoder expects of a graph, for a model of width `width`.
    pub fn schema(&self, width: usize) -> FeatureSchema {
        match self {
            Self::Embedding { tables } => FeatureSchema::Categorical {
                tables: tables.clone(),
            },
            Self::ClampedEmbedding { tables, clamped } => FeatureSchema::ClampedCategorical {
                tables: tables.clone(),
                clamped: clamped.clone(),
            },
            Self::Linear { width } => FeatureSchema::Float { width: *width },
            Self::Dummy | Self::None => FeatureSchema::Ignored,
            Self::Raw => FeatureSchema::Float { width },
        }
    }
}

/// Maps a feature table `[rows, columns]` to states `[rows, width]`.
#[derive(Debug, Clone)]
pub enum FeatureEncoder {
    /// Embedding tables, `[categories, width]` each.
    Embedding(Vec<Tensor>),
    /// Affine map.
    Linear(LinearWeights),
    /// The one row, `[1, width]`.
    Dummy(Tensor),
    /// Nothing to apply but the model's number type.
    Raw(DType),
    /// No columns.
    None,
}

impl FeatureEncoder {
    /// Loads `embeddings.{column}.weight`, or `linear.{weight,bias}`.
    pub fn new(config: &FeatureEncoderConfig, width: usize, vb: VarBuilder<'_>) -> Result<Self> {
        let table = |column: usize, rows: usize| {
            vb.get((rows, width), &format!("embeddings.{column}.weight"))
        };
        Ok(match config {
            FeatureEncoderConfig::Embedding { tables }
            | FeatureEncoderConfig::ClampedEmbedding { tables, .. } => Self::Embedding(
                tables
                    .iter()
                    .enumerate()
                    .map(|(column, &rows)| table(column, rows))
                    .collect::<Result<_>>()?,
            ),
            FeatureEncoderConfig::Linear { width: columns } => {
                Self::Linear(linear(*columns, width, vb.pp("linear"))?)
            }
            FeatureEncoderConfig::Dummy => Self::Dummy(table(0, 1)?),
            FeatureEncoderConfig::Raw => Self::Raw(vb.dtype()),
            FeatureEncoderConfig::None => Self::None,
        })
    }

    /// Encodes `features` of `rows` nodes or edges.
    ///
    /// # Errors
    /// The features are not of the kind that the encoder's schema asks for, or the encoder has no
    /// columns to give.
    pub fn forward(&self, features: Option<&BatchFeatures>, rows: usize) -> Result<Tensor> {
        match (self, features) {
            (Self::Embedding(tables), Some(BatchFeatures::Categorical(ids))) => {
                let mut sum: Option<Tensor> = None;
                for (column, table) in tables.iter().enumerate() {
                    let ids = ids.narrow(1, column, 1)?.flatten_all()?.contiguous()?;
                    let states = table.index_select(&ids, 0)?;
                    sum = Some(match sum {
                        Some(sum) => (sum + states)?,
                        None => states,
                    });
                }
                match sum {
                    Some(sum) => Ok(sum),
                    None => bail!("an embedding encoder needs at least one table"),
                }
            }
            (Self::Linear(weights), Some(BatchFeatures::Float(x))) => {
                let x = x.to_dtype(weights.weight().dtype())?;
                ops::linear(&x, weights, Activation::Identity)
            }
            (Self::Dummy(row), _) => row.broadcast_as((rows, row.dims2()?.1))?.contiguous(),
            (Self::Raw(dtype), Some(BatchFeatures::Float(x))) => x.to_dtype(*dtype),
            _ => bail!("the batch was not made with the schema of this encoder"),
        }
    }
}
