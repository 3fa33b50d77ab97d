//! Writing the JSON record of a graph: [`Serialize`] for [`Graph`].

use serde::Serialize;
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};

use super::{Features, Graph, Targets};

/// Writes the JSON record described in [`crate::datasets`], in the `edge_index` form; reading it
/// back gives an equal graph, reals bit by bit.
impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(id) = self.id() {
            map.serialize_entry("id", id)?;
        }
        match self.node_features() {
            Some(x) => map.serialize_entry("x", &TableRef(x))?,
            None => map.serialize_entry("num_nodes", &self.num_nodes())?,
        }
        if let Some(t) = self.rotational_features() {
            map.serialize_entry("t", &TableRef(t))?;
        }
        map.serialize_entry(
            "edge_index",
            &[EdgeColumn(self.edges(), 0), EdgeColumn(self.edges(), 1)],
        )?;
        if let Some(features) = self.edge_features() {
            map.serialize_entry("edge_attr", &TableRef(features))?;
        }
        if let Some(pairs) = self.edge_label_index() {
            let columns = [EdgeColumn(pairs, 0), EdgeColumn(pairs, 1)];
            map.serialize_entry("edge_label_index", &columns)?;
        }
        if let Some(targets) = self.targets().filter(|t| !t.data.is_empty()) {
            map.serialize_entry("y", &TargetsRef(targets))?;
        }
        map.end()
    }
}

struct EdgeColumn<'a>(&'a [[u32; 2]], usize);

impl Serialize for EdgeColumn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|edge| edge[self.1]))
    }
}

struct TableRef<'a>(&'a Features);

impl Serialize for TableRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Features::Float { width: 1, data } => serializer.collect_seq(data.iter().map(Real)),
            Features::Categorical { width: 1, data } => serializer.collect_seq(data),
            Features::Float { width, data } => serializer.collect_seq(
                data.chunks((*width).max(1))
                    .map(|row| row.iter().map(Real).collect::<Vec<_>>()),
            ),
            Features::Categorical { width, data } => {
                serializer.collect_seq(data.chunks((*width).max(1)))
            }
        }
    }
}

struct TargetsRef<'a>(&'a Targets);

impl Serialize for TargetsRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Targets { width, data } = self.0;
        match data.as_slice() {
            [single] => Real(single).serialize(serializer),
            row if self.0.rows() == 1 => serializer.collect_seq(row.iter().map(Real)),
            _ => {
                let mut seq = serializer.serialize_seq(Some(self.0.rows()))?;
                for row in data.chunks((*width).max(1)) {
                    seq.serialize_element(&row.iter().map(Real).collect::<Vec<_>>())?;
                }
                seq.end()
            }
        }
    }
}

/// A real value that a reader going through 64 bits gets back bit by bit; NaN becomes `null`.
struct Real<'a>(&'a f32);

impl Serialize for Real<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = *self.0;
        if value.is_nan() {
            return serializer.serialize_unit();
        }
        if value.is_infinite() {
            return Err(S::Error::custom(format_args!(
                "y: value {value} cannot be written as JSON"
            )));
        }
        // The shortest spelling of some 32-bit values (7.038531e-26 is one) rounds to a neighbour
        // when it is read by way of a 64-bit number; those are spelled as 64-bit numbers.
        let wide = format!("{value:?}").parse::<f64>();
        if wide.is_ok_and(|wide| (wide as f32).to_bits() == value.to_bits()) {
            serializer.serialize_f32(value)
        } else {
            serializer.serialize_f64(f64::from(value))
        }
    }
}
