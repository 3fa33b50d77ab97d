//! One entry as bytes: what is stored, what is hashed, and how arrays come back.

use serde::{Deserialize, Serialize};

use super::key::EntryKey;
use crate::encodings::{EncodingArray, EncodingRecipe};
use crate::graph::Graph;

/// Name and shape of one stored array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    /// Name of the array, such as `rrwp.node`.
    pub(super) name: String,
    /// Rows and columns.
    pub(super) shape: [u64; 2],
}

impl Stored {
    /// Bytes of the array, none if they cannot be counted.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.shape[0].checked_mul(self.shape[1])?.checked_mul(4)
    }
}

/// Bytes of all arrays together, none if they cannot be counted.
pub(super) fn total_bytes(arrays: &[Stored]) -> Option<u64> {
    arrays
        .iter()
        .try_fold(0u64, |sum, a| sum.checked_add(a.bytes()?))
}

/// What `recipe` makes for `graph`, in the order in which it is stored: by name, as safetensors
/// orders tensors.
pub(super) fn layout(recipe: &EncodingRecipe, graph: &Graph) -> Vec<Stored> {
    let mut arrays: Vec<Stored> = recipe
        .arrays()
        .into_iter()
        .map(|(name, level, width)| Stored {
            name: name.to_string(),
            shape: [level.rows(graph), width as u64],
        })
        .collect();
    arrays.sort_by(|a, b| a.name.cmp(&b.name));
    arrays
}

/// A hasher that has taken in everything that a checksum covers but the values.
pub(super) fn checksum_of(key: &EntryKey, arrays: &[Stored]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(&(arrays.len() as u64).to_le_bytes());
    for array in arrays {
        hasher.update(&(array.name.len() as u64).to_le_bytes());
        hasher.update(array.name.as_bytes());
        for extent in array.shape {
            hasher.update(&extent.to_le_bytes());
        }
    }
    hasher
}

/// An entry ready to be stored.
#[derive(Debug)]
pub(super) struct Record {
    /// Names and shapes, in stored order.
    pub(super) arrays: Vec<Stored>,
    /// The arrays' values as little-endian f32, one array after the other.
    pub(super) bytes: Vec<u8>,
    /// Checksum of key, names, shapes and values.
    pub(super) checksum: [u8; 32],
}

impl Record {
    /// The arrays that `recipe` made for `graph`.
    pub(super) fn new(
        key: &EntryKey,
        recipe: &EncodingRecipe,
        graph: &Graph,
        made: &[EncodingArray],
    ) -> Self {
        let arrays = layout(recipe, graph);
        let mut by_name: Vec<&EncodingArray> = made.iter().collect();
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        let mut bytes = vec![0; 4 * made.iter().map(|a| a.data.len()).sum::<usize>()];
        let values = by_name.iter().flat_map(|array| array.data.iter());
        for (four, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
            *four = value.to_le_bytes();
        }
        let mut hasher = checksum_of(key, &arrays);
        hasher.update(&bytes);
        Self {
            arrays,
            bytes,
            checksum: hasher.finalize().into(),
        }
    }
}

/// The arrays of `recipe` for `graph`, in the recipe's order, from checked bytes of the length
/// that [`layout`] implies.
pub(super) fn decode(recipe: &EncodingRecipe, graph: &Graph, bytes: &[u8]) -> Vec<EncodingArray> {
    let mut rest = bytes;
    let mut parts: Vec<(String, &[u8])> = Vec::new();
    for array in layout(recipe, graph) {
        let length = array.bytes().map_or(usize::MAX, |b| b as usize);
        let (part, after) = rest.split_at(length.min(rest.len()));
        parts.push((array.name, part));
        rest = after;
    }
    recipe
        .arrays()
        .into_iter()
        .map(|(name, level, width)| {
            let part = parts.iter().find(|(stored, _)| stored == name);
            let data = part.map_or(&[][..], |(_, part)| part);
            EncodingArray {
                name: name.to_string(),
                level,
                width,
                data: data
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|&four| f32::from_le_bytes(four))
                    .collect(),
            }
        })
        .collect()
}
