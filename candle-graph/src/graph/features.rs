//! Node and edge feature tables.

use serde::{Deserialize, Serialize};

use crate::error::GraphProblem;

/// A row-major table of features, one row a node or an edge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Features {
    /// Real values, `[rows, width]`.
    Float {
        /// Columns.
        width: usize,
        /// `rows * width` values, row after row.
        data: Vec<f32>,
    },
    /// Category numbers, `[rows, width]`; column `c` indexes the model's table `c`.
    Categorical {
        /// Columns.
        width: usize,
        /// `rows * width` values, row after row.
        data: Vec<u32>,
    },
}

impl Features {
    /// A table of real values.
    pub fn float(width: usize, data: Vec<f32>) -> Self {
        Self::Float { width, data }
    }

    /// A table of categories.
    pub fn categorical(width: usize, data: Vec<u32>) -> Self {
        Self::Categorical { width, data }
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        match self {
            Self::Float { width, .. } | Self::Categorical { width, .. } => *width,
        }
    }

    /// Number of values, `rows * width`.
    pub fn len(&self) -> usize {
        match self {
            Self::Float { data, .. } => data.len(),
            Self::Categorical { data, .. } => data.len(),
        }
    }

    /// Whether the table holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows; 0 for a table of width 0.
    pub fn rows(&self) -> usize {
        self.len().checked_div(self.width()).unwrap_or(0)
    }

    /// Row `row` as real values, empty when out of range.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let start = row.saturating_mul(self.width());
        let range = start..start.saturating_add(self.width());
        match self {
            Self::Float { data, .. } => data.get(range).unwrap_or_default().to_vec(),
            Self::Categorical { data, .. } => data
                .get(range)
                .unwrap_or_default()
                .iter()
                .map(|&v| v as f32)
                .collect(),
        }
    }

    /// The same table with every row followed by itself, as doubling undirected edges needs.
    pub(crate) fn repeat_rows(&self) -> Self {
        fn twice<T: Copy>(data: &[T], width: usize) -> Vec<T> {
            if width == 0 {
                return Vec::new();
            }
            data.chunks_exact(width)
                .flat_map(|row| row.iter().chain(row).copied())
                .collect()
        }
        match self {
            Self::Float { width, data } => Self::float(*width, twice(data, *width)),
            Self::Categorical { width, data } => Self::categorical(*width, twice(data, *width)),
        }
    }

    /// The table with its rows in the order `order` (positions of the present rows).
    pub(crate) fn select_rows(&self, order: &[u32]) -> Self {
        fn pick<T: Copy>(data: &[T], width: usize, order: &[u32]) -> Vec<T> {
            let mut out = Vec::with_capacity(order.len() * width);
            for &row in order {
                let start = row as usize * width;
                out.extend_from_slice(&data[start..start + width]);
            }
            out
        }
        match self {
            Self::Float { width, data } => Self::float(*width, pick(data, *width, order)),
            Self::Categorical { width, data } => {
                Self::categorical(*width, pick(data, *width, order))
            }
        }
    }

    /// Checks that the table has `rows` rows and only finite values.
    pub(crate) fn validate(
        &self,
        field: &'static str,
        rows: usize,
        why: &'static str,
    ) -> Result<(), GraphProblem> {
        let width = self.width();
        if width == 0 {
            return Err(GraphProblem::Field {
                field: field.to_string(),
                message: "it holds no values; leave the field out instead".to_string(),
            });
        }
        if !self.len().is_multiple_of(width) {
            return Err(GraphProblem::Ragged {
                field,
                row: self.rows(),
                found: self.len() % width,
                expected: width,
            });
        }
        if self.rows() != rows {
            return Err(GraphProblem::RowCount {
                field,
                found: self.rows(),
                expected: rows,
                why,
            });
        }
        if let Self::Float { data, .. } = self
            && let Some(at) = data.iter().position(|v| !v.is_finite())
        {
            return Err(GraphProblem::NonFinite {
                field,
                row: at / width,
                column: at % width,
                value: f64::from(data[at]),
            });
        }
        Ok(())
    }

    /// The table as categories: whole non-negative real values are accepted, others are refused
    /// with their place. `field` names the table in the message.
    ///
    /// # Errors
    /// The first value that is no category.
    pub fn to_categorical(&self, field: &'static str) -> Result<Self, GraphProblem> {
        match self {
            Self::Categorical { .. } => Ok(self.clone()),
            Self::Float { width, data } => {
                let mut out = Vec::with_capacity(data.len());
                for (at, &value) in data.iter().enumerate() {
                    // 2^24 is the last whole number up to which f32 holds every one exactly.
                    if value < 0.0 || value.fract() != 0.0 || value > 16_777_216.0 {
                        return Err(GraphProblem::NotCategorical {
                            field,
                            row: at / (*width).max(1),
                            column: at % (*width).max(1),
                            value: f64::from(value),
                        });
                    }
                    out.push(value as u32);
                }
                Ok(Self::categorical(*width, out))
            }
        }
    }

    /// The table as real values; categories become their numbers.
    pub fn to_float(&self) -> Self {
        match self {
            Self::Float { .. } => self.clone(),
            Self::Categorical { width, data } => {
                Self::float(*width, data.iter().map(|&v| v as f32).collect())
            }
        }
    }
}
