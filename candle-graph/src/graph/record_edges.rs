//! Reading the edges and node pairs of a JSON record.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};

use super::GraphBuilder;
use super::record::field_problem;
use super::table::{Number, TableBuilder};
use crate::error::GraphProblem;

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
pub(super) struct EdgeIndex {
    field: &'static str,
    lists: [Vec<i64>; 2],
    num_lists: usize,
    problem: Option<GraphProblem>,
}

impl EdgeIndex {
    /// The pairs `[source, target]`, not yet compared with the number of nodes.
    pub(super) fn into_pairs(self) -> Result<Vec<[i64; 2]>, GraphProblem> {
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
pub(super) struct EdgeIndexField(pub(super) &'static str);

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
pub(super) struct EdgeRows {
    pairs: Vec<[i64; 2]>,
    features: TableBuilder,
}

impl EdgeRows {
    pub(super) fn into_builder(self, builder: GraphBuilder) -> Result<GraphBuilder, GraphProblem> {
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
