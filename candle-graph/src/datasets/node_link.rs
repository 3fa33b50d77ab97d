//! NetworkX node-link data (`networkx.node_link_data`).

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::json::{Parsed, Schema};
use crate::error::GraphProblem;
use crate::graph::{
    Graph, GraphId, Id, Number, Rows, Scalars, TableBuilder, table_field, targets_from_table,
};

/// Which attributes of node-link data are features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLinkOptions {
    /// Names that node features may have; the first that any node of a graph carries is read.
    pub node_attributes: Vec<String>,
    /// Names that edge features may have; the first that any edge of a graph carries is read.
    pub edge_attributes: Vec<String>,
}

impl Default for NodeLinkOptions {
    /// Nodes `x`, `feat`, `features`; edges `edge_attr`, `weight`.
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Self {
            node_attributes: names(&["x", "feat", "features"]),
            edge_attributes: names(&["edge_attr", "weight"]),
        }
    }
}

/// The name of a node: whatever NetworkX takes and JSON can hold (tuples become lists).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum NodeKey {
    Whole(i64),
    /// Bits of a number with a fraction or beyond 64 bits.
    Real(u64),
    Flag(bool),
    Text(String),
    List(Vec<NodeKey>),
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(v) => v.fmt(f),
            Self::Real(bits) => write!(f, "{:?}", f64::from_bits(*bits)),
            Self::Flag(v) => v.fmt(f),
            Self::Text(v) => write!(f, "{v:?}"),
            Self::List(keys) => f
                .debug_list()
                .entries(keys.iter().map(|k| k.to_string()))
                .finish(),
        }
    }
}

impl<'de> Deserialize<'de> for NodeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Key;
        impl<'de> Visitor<'de> for Key {
            type Value = NodeKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a node (a number, text, or a list of these)")
            }

            fn visit_bool<E>(self, value: bool) -> Result<NodeKey, E> {
                Ok(NodeKey::Flag(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<NodeKey, E> {
                Ok(NodeKey::Whole(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<NodeKey, E> {
                Ok(i64::try_from(value)
                    .map_or_else(|_| NodeKey::Real((value as f64).to_bits()), NodeKey::Whole))
            }

            fn visit_f64<E>(self, value: f64) -> Result<NodeKey, E> {
                // Python takes 1.0 and 1 for the same node.
                Ok(Number::Real(value)
                    .as_node()
                    .map_or(NodeKey::Real(value.to_bits()), NodeKey::Whole))
            }

            fn visit_str<E>(self, value: &str) -> Result<NodeKey, E> {
                Ok(NodeKey::Text(value.to_string()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeKey, A::Error> {
                let mut keys = Vec::new();
                while let Some(key) = seq.next_element()? {
                    keys.push(key);
                }
                Ok(NodeKey::List(keys))
            }
        }
        deserializer.deserialize_any(Key)
    }
}

/// The values of the candidate attributes, a table each.
#[derive(Debug)]
struct Attributes<'a> {
    what: &'static str,
    field: &'static str,
    candidates: Vec<Candidate<'a>>,
}

#[derive(Debug)]
struct Candidate<'a> {
    name: &'a str,
    table: TableBuilder,
    missing: Option<usize>,
}

impl<'a> Attributes<'a> {
    fn new(what: &'static str, field: &'static str, names: &'a [String]) -> Self {
        let candidates = names
            .iter()
            .map(|name| Candidate {
                name,
                table: TableBuilder::new(field),
                missing: None,
            })
            .collect();
        Self {
            what,
            field,
            candidates,
        }
    }

    /// Reads the present value if `key` is a candidate.
    fn read<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        row: usize,
        map: &mut A,
    ) -> Result<bool, A::Error> {
        let Some(candidate) = self.candidates.iter_mut().find(|c| c.name == key) else {
            return Ok(false);
        };
        let before = candidate.table.rows();
        let given = map.next_value_seed(Rows {
            table: &mut candidate.table,
            scalars: Scalars::Cells,
        })?;
        if given.is_some() && candidate.table.rows() != before + 1 {
            candidate.table.fail(GraphProblem::Field {
                field: self.field.to_string(),
                message: format!(
                    "attribute `{key}` of {} {row} is neither a number nor a flat list of numbers",
                    self.what
                ),
            });
        }
        Ok(true)
    }

    /// Notes which candidates the finished row `row` lacks.
    fn end_row(&mut self, row: usize) {
        for candidate in &mut self.candidates {
            if candidate.table.rows() <= row {
                candidate.missing.get_or_insert(row);
            }
        }
    }

    /// The table of the first candidate that occurs at all.
    fn finish(self) -> Result<Option<crate::graph::Features>, GraphProblem> {
        let present = |c: &Candidate<'_>| c.table.rows() > 0 || c.table.problem().is_some();
        let Some(chosen) = self.candidates.into_iter().find(present) else {
            return Ok(None);
        };
        let table = chosen.table.finish()?;
        if let Some(row) = chosen.missing {
            return Err(GraphProblem::Field {
                field: self.field.to_string(),
                message: format!(
                    "{} {row} has no attribute `{}`, though others have it",
                    self.what, chosen.name
                ),
            });
        }
        Ok(Some(table.features))
    }
}

/// Node-link data as it was read.
struct NodeLink<'a> {
    directed: bool,
    nodes: Option<Vec<NodeKey>>,
    node_attributes: Attributes<'a>,
    links: Option<Vec<[NodeKey; 2]>>,
    edge_attributes: Attributes<'a>,
    id: Option<GraphId>,
    y: Option<TableBuilder>,
    problem: Option<GraphProblem>,
}

fn field_problem(field: &str, message: impl Into<String>) -> GraphProblem {
    GraphProblem::Field {
        field: field.to_string(),
        message: message.into(),
    }
}

impl NodeLink<'_> {
    fn into_graph(self) -> Result<Graph, GraphProblem> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let nodes = self
            .nodes
            .ok_or_else(|| field_problem("nodes", "missing; node-link data lists its nodes"))?;
        let links = self.links.ok_or_else(|| {
            field_problem("links", "missing; node-link data has `links` or `edges`")
        })?;
        let mut numbers = HashMap::with_capacity(nodes.len());
        for (number, key) in nodes.iter().enumerate() {
            if let Some(before) = numbers.insert(key, number as i64) {
                return Err(field_problem(
                    "nodes",
                    format!("nodes {before} and {number} both have the id {key}"),
                ));
            }
        }
        let mut edges = Vec::with_capacity(links.len());
        for (edge, link) in links.iter().enumerate() {
            let mut pair = [0; 2];
            for ((slot, key), role) in pair.iter_mut().zip(link).zip(["source", "target"]) {
                *slot = *numbers.get(key).ok_or_else(|| {
                    field_problem(
                        "links",
                        format!("edge {edge}: {role} {key} is not among the ids of `nodes`"),
                    )
                })?;
            }
            edges.push(pair);
        }
        let mut builder = Graph::builder(nodes.len())
            .edges(edges)
            .undirected(!self.directed)
            .node_features(self.node_attributes.finish()?)
            .edge_features(self.edge_attributes.finish()?);
        if let Some(y) = self.y {
            builder = builder.targets(targets_from_table(y.finish()?));
        }
        if let Some(id) = self.id {
            builder = builder.id(id);
        }
        builder.check_and_build()
    }
}

/// The node-link format as a schema of JSON values.
pub(super) struct NodeLinkSchema(pub(super) NodeLinkOptions);

impl Schema for NodeLinkSchema {
    fn graph<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Parsed, D::Error> {
        let mut data = NodeLink {
            directed: false,
            nodes: None,
            node_attributes: Attributes::new("node", "x", &self.0.node_attributes),
            links: None,
            edge_attributes: Attributes::new("edge", "edge_attr", &self.0.edge_attributes),
            id: None,
            y: None,
            problem: None,
        };
        deserializer.deserialize_map(Top(&mut data))?;
        Ok(Parsed {
            id: data.id.clone(),
            graph: data.into_graph(),
        })
    }

    fn id_path(&self) -> &'static [&'static str] {
        &["graph", "id"]
    }
}

struct Top<'a, 'n>(&'a mut NodeLink<'n>);

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("node-link data (an object with `nodes` and `links`)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let data = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "directed" => data.directed = map.next_value()?,
                "graph" => map.next_value_seed(GraphAttributes(data))?,
                "nodes" if data.nodes.is_none() => map.next_value_seed(List(Part::Nodes, data))?,
                "links" | "edges" if data.links.is_none() => {
                    map.next_value_seed(List(Part::Links, data))?;
                }
                "nodes" | "links" | "edges" => {
                    return Err(A::Error::custom(format_args!(
                        "`{key}` repeats what was given before (`links` and `edges` mean the same)"
                    )));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Part {
    Nodes,
    Links,
}

/// The list under `nodes` or `links`.
struct List<'a, 'n>(Part, &'a mut NodeLink<'n>);

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Self(part, data) = self;
        match part {
            Part::Nodes => data.nodes = Some(Vec::new()),
            Part::Links => data.links = Some(Vec::new()),
        }
        while seq.next_element_seed(Item(part, &mut *data))?.is_some() {}
        Ok(())
    }
}

/// One node or link.
struct Item<'a, 'n>(Part, &'a mut NodeLink<'n>);

impl<'de> DeserializeSeed<'de> for Item<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Item<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Part::Nodes => "a node (an object with `id`)",
            Part::Links => "a link (an object with `source` and `target`)",
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(part, data) = self;
        let (names, attributes, row): (&[&str], _, usize) = match part {
            Part::Nodes => (
                &["id"],
                &mut data.node_attributes,
                data.nodes.as_ref().map_or(0, Vec::len),
            ),
            Part::Links => (
                &["source", "target"],
                &mut data.edge_attributes,
                data.links.as_ref().map_or(0, Vec::len),
            ),
        };
        let mut keys: [Option<NodeKey>; 2] = [None, None];
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            if let Some(at) = names.iter().position(|name| *name == key) {
                keys[at] = Some(map.next_value()?);
            } else if !attributes.read(&key, row, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        attributes.end_row(row);
        for (name, key) in names.iter().zip(&keys) {
            if key.is_none() {
                data.problem.get_or_insert_with(|| match part {
                    Part::Nodes => field_problem("nodes", format!("node {row} has no `{name}`")),
                    Part::Links => field_problem("links", format!("edge {row} has no `{name}`")),
                });
            }
        }
        let [first, second] = keys.map(|key| key.unwrap_or(NodeKey::Whole(0)));
        match part {
            Part::Nodes => data.nodes.get_or_insert_default().push(first),
            Part::Links => data.links.get_or_insert_default().push([first, second]),
        }
        Ok(())
    }
}

/// The graph's own attributes, of which `id` and `y` are read.
struct GraphAttributes<'a, 'n>(&'a mut NodeLink<'n>);

impl<'de> DeserializeSeed<'de> for GraphAttributes<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for GraphAttributes<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attributes of the graph (an object)")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    // Old NetworkX releases wrote a list of pairs here.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "id" => self.0.id = map.next_value_seed(Id)?,
                "y" => {
                    let table = TableBuilder::with_missing("y");
                    self.0.y = table_field(&mut map, table, Scalars::Cells)?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}
