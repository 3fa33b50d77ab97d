//! Feature tables from numbers as they were written: kind, width and finiteness are found out while
//! the cells arrive.

use serde::de::{Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use std::fmt;

use super::Features;
use crate::error::GraphProblem;

/// A number as it was written: whole numbers stay apart from real ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// Written without fraction or exponent, not negative.
    Whole(u64),
    /// Written without fraction or exponent, negative.
    Negative(i64),
    /// Any other number.
    Real(f64),
}

impl Number {
    /// Reads the number that `text` spells, `None` when it is none. `nan` and `inf` are numbers
    /// here; a table refuses them with their place.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse()
            .map(Self::Whole)
            .or_else(|_| text.parse().map(Self::Negative))
            .ok()
            .or_else(|| text.parse().map(Self::Real).ok())
    }

    /// The nearest 64-bit number.
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Whole(v) => v as f64,
            Self::Negative(v) => v as f64,
            Self::Real(v) => v,
        }
    }

    /// The nearest 32-bit number; infinite when there is none near.
    fn as_f32(self) -> f32 {
        match self {
            Self::Whole(v) => v as f32,
            Self::Negative(v) => v as f32,
            Self::Real(v) => v as f32,
        }
    }

    /// The number as a node number, possibly out of range; `None` when it has a fraction or passes
    /// 64 bits. `3.0` is 3: exporters that go through tables of reals write it so.
    pub(crate) fn as_node(self) -> Option<i64> {
        match self {
            Self::Whole(v) => i64::try_from(v).ok(),
            Self::Negative(v) => Some(v),
            Self::Real(v) => (v.fract() == 0.0 && v.abs() < 9e15).then_some(v as i64),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(v) => v.fmt(f),
            Self::Negative(v) => v.fmt(f),
            Self::Real(v) => write!(f, "{v:?}"),
        }
    }
}

#[derive(Debug)]
enum Values {
    Whole(Vec<u32>),
    Real(Vec<f32>),
}

/// Collects a table cell by cell. As long as every cell is a whole number of 32 bits the table is
/// categorical; the first other number makes it real. The first problem is kept and reported by
/// [`finish`](Self::finish), so that a reader can go on to learn the graph's id.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    field: &'static str,
    missing_allowed: bool,
    values: Values,
    width: Option<usize>,
    rows: usize,
    in_row: usize,
    scalars: Option<bool>,
    problem: Option<GraphProblem>,
}

impl TableBuilder {
    /// A table of finite values for the field `field`.
    pub(crate) fn new(field: &'static str) -> Self {
        Self {
            field,
            missing_allowed: false,
            values: Values::Whole(Vec::new()),
            width: None,
            rows: 0,
            in_row: 0,
            scalars: None,
            problem: None,
        }
    }

    /// A table that takes NaN for a missing value, as targets do.
    pub(crate) fn with_missing(field: &'static str) -> Self {
        Self {
            missing_allowed: true,
            ..Self::new(field)
        }
    }

    /// Number of finished rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Keeps `problem` unless there was one before.
    pub(crate) fn fail(&mut self, problem: GraphProblem) {
        self.problem.get_or_insert(problem);
    }

    /// The first problem, if any.
    pub(crate) fn problem(&self) -> Option<&GraphProblem> {
        self.problem.as_ref()
    }

    /// Adds a cell to the present row.
    pub(crate) fn push(&mut self, number: Number) {
        let column = self.in_row;
        self.in_row += 1;
        if let (Values::Whole(data), Number::Whole(value)) = (&mut self.values, number)
            && let Ok(value) = u32::try_from(value)
        {
            data.push(value);
            return;
        }
        let value = number.as_f32();
        if !value.is_finite() {
            self.fail(GraphProblem::NonFinite {
                field: self.field,
                row: self.rows,
                column,
                value: number.as_f64(),
            });
        }
        self.push_real(value);
    }

    /// Adds a missing cell (NaN) to the present row.
    pub(crate) fn push_missing(&mut self) {
        self.in_row += 1;
        self.push_real(f32::NAN);
    }

    fn push_real(&mut self, value: f32) {
        if let Values::Whole(data) = &self.values {
            self.values = Values::Real(data.iter().map(|&v| v as f32).collect());
        }
        if let Values::Real(data) = &mut self.values {
            data.push(value);
        }
    }

    /// Ends the present row; all rows must be as wide as the first.
    pub(crate) fn end_row(&mut self) {
        let expected = *self.width.get_or_insert(self.in_row);
        if self.in_row != expected {
            self.fail(GraphProblem::Ragged {
                field: self.field,
                row: self.rows,
                found: self.in_row,
                expected,
            });
        }
        self.rows += 1;
        self.in_row = 0;
    }

    /// Notes that the next element of the outer list is a single number (`true`) or a list; the two
    /// may not be mixed.
    fn element(&mut self, scalar: bool) {
        if *self.scalars.get_or_insert(scalar) != scalar {
            let row = self.rows;
            self.fail(GraphProblem::Field {
                field: self.field.to_string(),
                message: format!("single numbers and lists are mixed, first at row {row}"),
            });
        }
    }

    /// The table and its number of rows.
    ///
    /// # Errors
    /// The first problem met on the way.
    pub(crate) fn finish(self) -> Result<Table, GraphProblem> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let width = self.width.unwrap_or(0);
        Ok(Table {
            rows: self.rows,
            features: match self.values {
                Values::Whole(data) => Features::categorical(width, data),
                Values::Real(data) => Features::float(width, data),
            },
        })
    }
}

/// A finished table; `rows` counts rows of width 0 too.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    pub(crate) features: Features,
}

/// What a single number in the outer list of a table stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalars {
    /// A row of width 1.
    Rows,
    /// A cell of the one row.
    Cells,
}

/// Deserializes into a [`TableBuilder`]: a list of numbers or of lists of numbers, or (with
/// [`Scalars::Cells`]) one number. `None` for `null` unless missing values are allowed.
pub(crate) struct Rows<'a> {
    pub(crate) table: &'a mut TableBuilder,
    pub(crate) scalars: Scalars,
}

impl<'de> serde::de::DeserializeSeed<'de> for Rows<'_> {
    type Value = Option<()>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = Option<()>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scalars {
            Scalars::Rows => "a list with one number, or one list of numbers, a row",
            Scalars::Cells => "a number, a list of numbers, or a list of lists of numbers",
        })
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        if self.table.missing_allowed {
            self.table.push_missing();
            self.table.end_row();
            return Ok(Some(()));
        }
        Ok(None)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.single(Number::Whole(value), Unexpected::Unsigned(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.single(whole(value), Unexpected::Signed(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        self.single(Number::Real(value), Unexpected::Float(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Self { table, scalars } = self;
        let before = table.in_row;
        while seq
            .next_element_seed(Element {
                table: &mut *table,
                scalars: Some(scalars),
            })?
            .is_some()
        {}
        if table.in_row > before {
            table.end_row();
        }
        Ok(Some(()))
    }
}

impl Rows<'_> {
    fn single<E: serde::de::Error>(
        self,
        number: Number,
        found: Unexpected<'_>,
    ) -> Result<Option<()>, E> {
        if self.scalars == Scalars::Rows {
            return Err(E::invalid_type(found, &self));
        }
        self.table.push(number);
        self.table.end_row();
        Ok(Some(()))
    }
}

/// A whole number of either sign.
fn whole(value: i64) -> Number {
    u64::try_from(value).map_or(Number::Negative(value), Number::Whole)
}

/// One element of a table: a number or a row (`scalars` says what a number stands for), or a cell
/// of a row (`scalars` is `None`).
struct Element<'a> {
    table: &'a mut TableBuilder,
    scalars: Option<Scalars>,
}

impl Element<'_> {
    fn cell(self, number: Option<Number>) {
        if self.scalars.is_some() {
            self.table.element(true);
        }
        match number {
            Some(number) => self.table.push(number),
            None => self.table.push_missing(),
        }
        if self.scalars == Some(Scalars::Rows) {
            self.table.end_row();
        }
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.scalars.is_some() {
            "a number or a list of numbers"
        } else {
            "a number"
        })
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        if !self.table.missing_allowed {
            return Err(E::invalid_type(Unexpected::Other("null"), &self));
        }
        self.cell(None);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.cell(Some(Number::Whole(value)));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.cell(Some(whole(value)));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.cell(Some(Number::Real(value)));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.scalars.is_none() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.table.element(false);
        while seq
            .next_element_seed(Element {
                table: &mut *self.table,
                scalars: None,
            })?
            .is_some()
        {}
        self.table.end_row();
        Ok(())
    }
}

/// Deserializes the number that a cell holds, for rows whose first cells mean something else.
impl<'de> serde::Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number::Whole(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(whole(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number::Real(value))
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}
