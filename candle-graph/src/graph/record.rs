//! Reading the JSON record of a graph: [`Deserialize`] for [`Graph`].
//!
//! The format is documented for users in [`crate::datasets`].

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::record_edges::{EdgeIndex, EdgeIndexField, EdgeRows};
use super::table::{Number, Rows, Scalars, Table, TableBuilder};
use super::{Features, Graph, GraphId, Targets};
use crate::error::GraphProblem;

/// A record as read, before its fields are brought together.
#[derive(Debug, Default)]
pub(crate) struct Record {
    id: Option<GraphId>,
    num_nodes: Option<Number>,
    x: Option<TableBuilder>,
    t: Option<TableBuilder>,
    edge_index: Option<EdgeIndex>,
    edge_label_index: Option<EdgeIndex>,
    edge_attr: Option<TableBuilder>,
    edges: Option<EdgeRows>,
    directed: Option<bool>,
    y: Option<TableBuilder>,
    problem: Option<GraphProblem>,
}

impl Record {
    /// The id, if the record has one.
    pub(crate) fn id(&self) -> Option<&GraphId> {
        self.id.as_ref()
    }

    /// Checks the fields against each other and makes the graph.
    ///
    /// # Errors
    /// The first problem, without the graph's name.
    pub(crate) fn into_graph(self) -> Result<Graph, GraphProblem> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let x = self.x.map(TableBuilder::finish).transpose()?;
        let num_nodes = match (self.num_nodes, &x) {
            (Some(number), _) => number
                .as_node()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| {
                    field_problem("num_nodes", format!("{number} is not a number of nodes"))
                })?,
            (None, Some(x)) => x.rows,
            (None, None) => {
                return Err(field_problem(
                    "num_nodes",
                    "missing; it is needed when there are no node features `x`",
                ));
            }
        };
        let t = self.t.map(TableBuilder::finish).transpose()?;
        let mut builder = Graph::builder(num_nodes)
            .node_features(x.map(|x| x.features))
            .rotational_features(t.map(|t| t.features));
        let edge_rows = self.edges.is_some();
        builder = match (self.edge_index, self.edges) {
            (Some(_), Some(_)) => {
                return Err(field_problem(
                    "edges",
                    "given beside `edge_index`; give one of the two",
                ));
            }
            (None, None) => {
                return Err(field_problem(
                    "edge_index",
                    "missing; give `edge_index` or `edges`, empty for a graph without edges",
                ));
            }
            (Some(edge_index), None) => builder
                .edges(edge_index.into_pairs()?)
                .undirected(!self.directed.unwrap_or(true))
                .edge_features(
                    self.edge_attr
                        .map(|t| t.finish().map(|t| t.features))
                        .transpose()?,
                ),
            (None, Some(_)) if self.edge_attr.is_some() => {
                return Err(field_problem(
                    "edge_attr",
                    "belongs to `edge_index`; with `edges`, write the values after the two nodes of each edge",
                ));
            }
            (None, Some(edges)) => edges
                .into_builder(builder)?
                .undirected(!self.directed.unwrap_or(false)),
        };
        if let Some(pairs) = self.edge_label_index {
            builder = builder.edge_label_index(pairs.into_pairs()?);
        }
        if let Some(y) = self.y {
            builder = builder.targets(targets_from_table(y.finish()?));
        }
        if let Some(id) = self.id {
            builder = builder.id(id);
        }
        builder.check_and_build().map_err(|mut problem| {
            if let GraphProblem::EdgeOutOfRange { field, .. } = &mut problem
                && edge_rows
                && *field == "edge_index"
            {
                *field = "edges";
            }
            problem
        })
    }
}

/// Targets from a table; `None` when it has no value.
pub(crate) fn targets_from_table(table: Table) -> Option<Targets> {
    match table.features.to_float() {
        Features::Float { width, data } if !data.is_empty() => Some(Targets { width, data }),
        _ => None,
    }
}

pub(super) fn field_problem(field: &str, message: impl Into<String>) -> GraphProblem {
    GraphProblem::Field {
        field: field.to_string(),
        message: message.into(),
    }
}

/// Deserializes an id; `null` is none.
pub(crate) struct Id;

impl<'de> DeserializeSeed<'de> for Id {
    type Value = Option<GraphId>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Id {
    type Value = Option<GraphId>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of at most 63 bits or text")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(GraphId::Number(value)))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        i64::try_from(value)
            .map(|v| Some(GraphId::Number(v)))
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(value), &self))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Some(value.into()))
    }
}

/// Deserializes a table field into the slot of a record.
pub(crate) fn table_field<'de, A: MapAccess<'de>>(
    map: &mut A,
    mut table: TableBuilder,
    scalars: Scalars,
) -> Result<Option<TableBuilder>, A::Error> {
    let some = map.next_value_seed(Rows {
        table: &mut table,
        scalars,
    })?;
    Ok(some.map(|()| table))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Id,
    NumNodes,
    X,
    T,
    EdgeIndex,
    EdgeAttr,
    Edges,
    Directed,
    EdgeLabelIndex,
    Y,
    #[serde(other)]
    Unknown,
}

/// The names of the known [`Field`]s, in their order.
const NAMES: [&str; 10] = [
    "id",
    "num_nodes",
    "x",
    "t",
    "edge_index",
    "edge_attr",
    "edges",
    "directed",
    "edge_label_index",
    "y",
];

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Record;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a graph record (an object)")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Record, A::Error> {
                let mut record = Record::default();
                let mut seen = [false; NAMES.len()];
                while let Some(field) = map.next_key::<Field>()? {
                    if let (Some(seen), Some(name)) =
                        (seen.get_mut(field as usize), NAMES.get(field as usize))
                        && std::mem::replace(seen, true)
                    {
                        record
                            .problem
                            .get_or_insert_with(|| field_problem(name, "given twice"));
                    }
                    match field {
                        Field::Id => record.id = map.next_value_seed(Id)?,
                        Field::NumNodes => record.num_nodes = map.next_value()?,
                        Field::X => {
                            record.x =
                                table_field(&mut map, TableBuilder::new("x"), Scalars::Rows)?;
                        }
                        Field::T => {
                            record.t =
                                table_field(&mut map, TableBuilder::new("t"), Scalars::Rows)?;
                        }
                        Field::EdgeIndex => {
                            record.edge_index =
                                map.next_value_seed(EdgeIndexField("edge_index"))?;
                        }
                        Field::EdgeLabelIndex => {
                            record.edge_label_index =
                                map.next_value_seed(EdgeIndexField("edge_label_index"))?;
                        }
                        Field::EdgeAttr => {
                            let table = TableBuilder::new("edge_attr");
                            record.edge_attr = table_field(&mut map, table, Scalars::Rows)?;
                        }
                        Field::Edges => record.edges = map.next_value()?,
                        Field::Directed => record.directed = map.next_value()?,
                        Field::Y => {
                            let table = TableBuilder::with_missing("y");
                            record.y = table_field(&mut map, table, Scalars::Cells)?;
                        }
                        Field::Unknown => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(record)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Reads the JSON record described in [`crate::datasets`].
impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Record::deserialize(deserializer)?;
        let label = record
            .id()
            .map_or_else(|| "without id".to_string(), GraphId::to_string);
        record
            .into_graph()
            .map_err(|problem| D::Error::custom(format_args!("graph {label}: {problem}")))
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
