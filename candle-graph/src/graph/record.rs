//! Reading the JSON record of a graph: [`Deserialize`] for [`Graph`].
//!
//! The format is documented for users in [`crate::datasets`].

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::table::{Number, Rows, Scalars, Table, TableBuilder};
use super::{Features, Graph, GraphBuilder, GraphId, Targets};
use crate::error::GraphProblem;

/// A record as read, before its fields are brought together.
#[derive(Debug, Default)]
pub(crate) struct Record {
    id: Option<GraphId>,
    num_nodes: Option<Number>,
    x: Option<TableBuilder>,
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
        let mut builder = Graph::builder(num_nodes).node_features(x.map(|x| x.features));
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

fn field_problem(field: &str, message: impl Into<String>) -> GraphProblem {
    GraphProblem::Field {
        field: field.to_string(),
        message: message.into(),
    }
}

/// A node number of edge `edge`, or what is wrong with it.
fn endpoint(
    field: &'static str,
    edge: usize,
    role: &'static str,
    number: Number,
) -> Result<i64, GraphProblem> {
    number.as_node().ok_or_else(|| {
        field_problem(
            field,
            format!("edge {edge}: {role} {number} is not a node number (a whole number from 0)"),
        )
    })
}

/// The two lists of `edge_index` or `edge_label_index`.
#[derive(Debug)]
struct EdgeIndex {
    field: &'static str,
    lists: [Vec<i64>; 2],
    num_lists: usize,
    problem: Option<GraphProblem>,
}

impl EdgeIndex {
    /// The pairs `[source, target]`, not yet compared with the number of nodes.
    fn into_pairs(self) -> Result<Vec<[i64; 2]>, GraphProblem> {
        let field = self.field;
        if self.num_lists != 2 && self.num_lists != 0 {
            let remedy = match field {
                "edge_index" => " (a list of pairs goes into `edges`)",
                _ => "",
            };
            return Err(field_problem(
                field,
                format!(
                    "{} lists; it is two lists, all sources and all targets{remedy}",
                    self.num_lists
                ),
            ));
        }
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let [sources, targets] = self.lists;
        if sources.len() != targets.len() {
            return Err(field_problem(
                field,
                format!("{} sources but {} targets", sources.len(), targets.len()),
            ));
        }
        let pairs = sources.into_iter().zip(targets);
        Ok(pairs.map(|(source, target)| [source, target]).collect())
    }
}

/// Deserializes the two lists of the field of this name; `null` is none.
struct EdgeIndexField(&'static str);

impl<'de> DeserializeSeed<'de> for EdgeIndexField {
    type Value = Option<EdgeIndex>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for EdgeIndexField {
    type Value = Option<EdgeIndex>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two lists of node numbers, all sources and all targets")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut out = EdgeIndex {
            field: self.0,
            lists: Default::default(),
            num_lists: 0,
            problem: None,
        };
        for (list, role) in out.lists.iter_mut().zip(["source", "target"]) {
            let numbers = NodeNumbers {
                field: self.0,
                list,
                problem: &mut out.problem,
                role,
            };
            if seq.next_element_seed(numbers)?.is_none() {
                return Ok(Some(out));
            }
            out.num_lists += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            out.num_lists += 1;
        }
        Ok(Some(out))
    }
}

/// Deserializes one of the two lists.
struct NodeNumbers<'a> {
    field: &'static str,
    list: &'a mut Vec<i64>,
    problem: &'a mut Option<GraphProblem>,
    role: &'static str,
}

impl<'de> DeserializeSeed<'de> for NodeNumbers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NodeNumbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of node numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(number) = seq.next_element::<Number>()? {
            let edge = self.list.len();
            let node = endpoint(self.field, edge, self.role, number);
            self.list.push(node.unwrap_or_else(|problem| {
                self.problem.get_or_insert(problem);
                -1
            }));
        }
        Ok(())
    }
}

/// The rows of `edges`: source, target, features.
#[derive(Debug)]
struct EdgeRows {
    pairs: Vec<[i64; 2]>,
    features: TableBuilder,
}

impl EdgeRows {
    fn into_builder(self, builder: GraphBuilder) -> Result<GraphBuilder, GraphProblem> {
        let table = self.features.finish().map_err(|problem| match problem {
            // Count columns as they are written, the two nodes included.
            GraphProblem::Ragged {
                field,
                row,
                found,
                expected,
            } => GraphProblem::Ragged {
                field,
                row,
                found: found + 2,
                expected: expected + 2,
            },
            GraphProblem::NonFinite {
                field,
                row,
                column,
                value,
            } => GraphProblem::NonFinite {
                field,
                row,
                column: column + 2,
                value,
            },
            other => other,
        })?;
        let features = (table.features.width() > 0).then_some(table.features);
        Ok(builder.edges(self.pairs).edge_features(features))
    }
}

impl<'de> Deserialize<'de> for EdgeRows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = EdgeRows;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of edges, each a list [source, target, features...]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<EdgeRows, A::Error> {
                let mut rows = EdgeRows {
                    pairs: Vec::new(),
                    features: TableBuilder::new("edges"),
                };
                while seq.next_element_seed(EdgeRow(&mut rows))?.is_some() {}
                Ok(rows)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

/// Deserializes one row of `edges`.
struct EdgeRow<'a>(&'a mut EdgeRows);

impl<'de> DeserializeSeed<'de> for EdgeRow<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EdgeRow<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an edge [source, target, features...]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let EdgeRows { pairs, features } = self.0;
        let mut pair = [-1; 2];
        for (at, role) in ["source", "target"].into_iter().enumerate() {
            let Some(number) = seq.next_element::<Number>()? else {
                return Err(A::Error::invalid_length(
                    at,
                    &"source and target of the edge",
                ));
            };
            match endpoint("edges", pairs.len(), role, number) {
                Ok(node) => pair[at] = node,
                Err(problem) => features.fail(problem),
            }
        }
        while let Some(number) = seq.next_element::<Number>()? {
            features.push(number);
        }
        features.end_row();
        pairs.push(pair);
        Ok(())
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
const NAMES: [&str; 9] = [
    "id",
    "num_nodes",
    "x",
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
