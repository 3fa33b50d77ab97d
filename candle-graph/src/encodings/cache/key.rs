//! What an entry of the cache is found by.

use std::fmt;

use crate::encodings::EncodingRecipe;
use crate::error::{Error, Result};
use crate::graph::{Features, Graph};

/// Content hash (blake3) of everything that a recipe's values for a graph depend on:
///
/// - the number of nodes and the directed edges as a multiset. The order of the edges does not
///   matter but to recipes that choose among shortest paths by it; their direction and how often
///   each is listed do. Features, targets and id do not matter. The numbering of the nodes does:
///   rows follow it.
/// - the coordinates that the graph carries, where the recipe keeps them.
/// - the recipe, as its JSON, and the version of its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryKey([u8; 32]);

/// Heads every hashed text, so that a change of the encoding below changes every key.
const DOMAIN: &[u8] = b"candle-graph encoding cache key 1";

impl EntryKey {
    /// The key of `recipe` for `graph`.
    ///
    /// # Errors
    /// The recipe cannot be written as JSON.
    pub fn new(recipe: &EncodingRecipe, graph: &Graph) -> Result<Self> {
        Self::of(recipe, graph, &structure(graph))
    }

    /// The key of `recipe` for `graph`, whose [`structure`] is given.
    pub(super) fn of(recipe: &EncodingRecipe, graph: &Graph, structure: &[u8; 32]) -> Result<Self> {
        let json = serde_json::to_vec(recipe)
            .map_err(|e| Error::Encoding(format!("a recipe cannot be written as JSON: {e}")))?;
        let listed = recipe
            .reads_edge_order()
            .then(|| hash_of_edges(graph.num_nodes(), graph.edges()));
        let structure = listed.as_ref().unwrap_or(structure);
        let carried = match graph.rotational_features() {
            Some(t) if recipe.reads_rotational_features() => Some(hash_of_table(t)),
            _ => None,
        };
        let version = recipe.version();
        Ok(Self::hashed(&json, version, structure, carried.as_ref()))
    }

    /// The recipe's length comes before it, so whether `carried` follows is never in doubt.
    fn hashed(
        recipe: &[u8],
        version: u32,
        structure: &[u8; 32],
        carried: Option<&[u8; 32]>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN);
        hasher.update(structure);
        hasher.update(&version.to_le_bytes());
        hasher.update(&(recipe.len() as u64).to_le_bytes());
        hasher.update(recipe);
        if let Some(carried) = carried {
            hasher.update(carried);
        }
        Self(hasher.finalize().into())
    }

    /// Reads the form that [`Display`](fmt::Display) writes: 64 lower-case hexadecimal digits.
    pub(super) fn from_hex(text: &str) -> Option<Self> {
        parse_hash(text).map(Self)
    }

    pub(super) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for EntryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// Hash of the number of nodes and of the edges in sorted order.
pub(super) fn structure(graph: &Graph) -> [u8; 32] {
    let mut edges = graph.edges().to_vec();
    edges.sort_unstable();
    hash_of_edges(graph.num_nodes(), &edges)
}

/// Hash of the number of nodes and of `edges` in their order. All fields have fixed widths and the
/// number of edges comes before them, so different graphs give different texts.
fn hash_of_edges(num_nodes: usize, edges: &[[u32; 2]]) -> [u8; 32] {
    let mut text = Vec::with_capacity(16 + 8 * edges.len());
    text.extend((num_nodes as u64).to_le_bytes());
    text.extend((edges.len() as u64).to_le_bytes());
    for [source, target] in edges {
        text.extend(source.to_le_bytes());
        text.extend(target.to_le_bytes());
    }
    blake3::hash(&text).into()
}

/// Hash of the width and the bits of a table.
fn hash_of_table(table: &Features) -> [u8; 32] {
    let mut text = Vec::with_capacity(8 + 4 * table.len());
    text.extend((table.width() as u64).to_le_bytes());
    match table {
        Features::Float { data, .. } => text.extend(data.iter().flat_map(|v| v.to_le_bytes())),
        Features::Categorical { data, .. } => {
            text.extend(data.iter().flat_map(|v| v.to_le_bytes()));
        }
    }
    blake3::hash(&text).into()
}

/// 64 lower-case hexadecimal digits as 32 bytes.
pub(super) fn parse_hash(text: &str) -> Option<[u8; 32]> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    blake3::Hash::from_hex(text).ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_the_algorithm_has_another_key() {
        let key = |version| EntryKey::hashed(b"recipe", version, &[7; 32], None);
        assert_ne!(key(1), key(2));
    }

    #[test]
    fn only_the_written_form_is_read() {
        let key = EntryKey::hashed(b"recipe", 1, &[7; 32], None);
        let text = key.to_string();
        assert_eq!(EntryKey::from_hex(&text), Some(key));
        assert_eq!(EntryKey::from_hex(&text.to_uppercase()), None);
        assert_eq!(EntryKey::from_hex(&text[1..]), None);
        assert_eq!(EntryKey::from_hex("../../secret"), None);
    }
}
