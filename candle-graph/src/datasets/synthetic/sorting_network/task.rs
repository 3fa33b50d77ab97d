//! The task "does this network sort?".

use std::fmt;
use std::ops::RangeInclusive;

use super::SortingNetwork;
use super::columns::{Columns, words};
use crate::datasets::synthetic::numpy_random::NumpyRandom;
use crate::datasets::synthetic::{SyntheticError, in_range};
use crate::error::Result;
use crate::graph::{Graph, Targets};

/// The most wires of drawn networks: all 2^p columns of zeros and ones are held.
pub const MAX_DRAWN_WIRES: usize = 20;

/// A network that does not sort with so many comparators is dropped, as in the official code.
pub const MAX_COMPARATORS: usize = 512;

/// Random networks, each in the variants `kinds`, with the label whether it sorts. The draws are
/// those of the official code (`script_generate_sorting_network_np.py`), number by number: two
/// different wires are joined, both from those on which some column of zeros and ones is not yet
/// sorted, but never the same two twice running, until everything is sorted.
///
/// Every network has a number of wires drawn from `wires` first (the official code makes 500 of one
/// number in a row). With one number of wires nothing is drawn there, and the first network of a
/// seed is the official one for `numpy.random.seed(seed)`.
///
/// The default is the training set of the paper, 7 to 11 wires, correct networks and the same
/// without the last comparator. It validates on 12 wires and tests on 13 to 16, reversed networks
/// too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortingNetworks {
    /// Numbers of wires, all equally likely; from 3 on, so that the variants have comparators.
    pub wires: RangeInclusive<usize>,
    /// The variants of every network, in this order.
    pub kinds: Vec<NetworkKind>,
}

/// A variant of a drawn network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NetworkKind {
    /// As drawn; it sorts.
    Correct,
    /// Without the last comparator; it does not sort.
    LastRemoved,
    /// In the opposite order; it is tested whether it sorts.
    Reversed,
}

impl NetworkKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Correct, Self::LastRemoved, Self::Reversed];

    /// The name, `correct`, `last-removed` or `reversed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::LastRemoved => "last-removed",
            Self::Reversed => "reversed",
        }
    }
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A variant of a drawn network, with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledNetwork {
    /// The number of the drawn network, from 0.
    pub number: usize,
    /// Which variant of it this is.
    pub kind: NetworkKind,
    /// The comparators.
    pub network: SortingNetwork,
    /// Whether they sort every input.
    pub sorts: bool,
}

impl LabelledNetwork {
    /// The [graph](SortingNetwork::graph) of the network with the target 1 if it sorts and 0 if it
    /// does not, and an id of number and kind, as `17-last-removed`.
    ///
    /// # Errors
    /// A network without comparators.
    pub fn graph(&self) -> Result<Graph> {
        let id = format!("{}-{}", self.number, self.kind);
        let targets = Targets {
            width: 1,
            data: vec![f32::from(u8::from(self.sorts))],
        };
        let builder = self.network.graph_builder();
        builder.targets(targets).id(id.as_str()).build()
    }
}

impl Default for SortingNetworks {
    fn default() -> Self {
        Self {
            wires: 7..=11,
            kinds: vec![NetworkKind::Correct, NetworkKind::LastRemoved],
        }
    }
}

impl SortingNetworks {
    /// The networks of `seed` without end, all kinds of one before the next.
    ///
    /// # Errors
    /// Fewer than 3 wires or more than [`MAX_DRAWN_WIRES`], an empty range, no kind.
    pub fn networks(&self, seed: u64) -> Result<impl Iterator<Item = LabelledNetwork> + use<>> {
        let (smallest, largest) = (*self.wires.start(), *self.wires.end());
        in_range("wires", largest, (3, MAX_DRAWN_WIRES))?;
        in_range("wires", smallest, (3, largest))?;
        if self.kinds.is_empty() {
            return Err(SyntheticError::NoneGiven { option: "kinds" }.into());
        }
        let kinds = self.kinds.clone();
        let mut random = NumpyRandom::new(seed);
        // Almost every draw ends with a network, so that some draw ends the search for the next one.
        let drawn = std::iter::repeat_with(move || {
            let wires = smallest + random.below(largest - smallest + 1);
            draw(wires, MAX_COMPARATORS, &mut random)
        });
        let numbered = drawn.flatten().enumerate();
        Ok(numbered.flat_map(move |(number, network)| {
            let kinds = kinds.clone().into_iter();
            kinds.map(move |kind| variant(number, kind, &network))
        }))
    }

    /// The [graphs](LabelledNetwork::graph) of the [networks](Self::networks) of `seed`.
    ///
    /// # Errors
    /// As [`networks`](Self::networks).
    pub fn graphs(&self, seed: u64) -> Result<impl Iterator<Item = Result<Graph>> + use<>> {
        Ok(self.networks(seed)?.map(|network| network.graph()))
    }
}

/// The variant `kind` of a drawn network.
fn variant(number: usize, kind: NetworkKind, drawn: &SortingNetwork) -> LabelledNetwork {
    let (network, sorts) = match kind {
        NetworkKind::Correct => (drawn.clone(), true),
        // Everything was sorted after the last comparator and not before.
        NetworkKind::LastRemoved => (drawn.without_last(), false),
        NetworkKind::Reversed => {
            let reversed = drawn.reversed();
            let sorts = reversed.sorts_all_columns();
            (reversed, sorts)
        }
    };
    LabelledNetwork {
        number,
        kind,
        network,
        sorts,
    }
}

/// Draws comparators until they sort; none if `limit` do not.
fn draw(wires: usize, limit: usize, random: &mut NumpyRandom) -> Option<SortingNetwork> {
    let mut columns = Columns::new(wires, 0..words(wires));
    let mut unsorted: Vec<u32> = (0..wires as u32).collect();
    let mut comparators = Vec::new();
    while comparators.len() < limit {
        // A wire alone cannot be unsorted, so that there are two.
        let order = random.permutation(unsorted.len());
        let chosen = order.get(..2)?;
        let [a, b] = [unsorted[chosen[0]], unsorted[chosen[1]]];
        let comparator = [a.min(b), a.max(b)];
        if comparators.last() == Some(&comparator) {
            continue;
        }
        comparators.push(comparator);
        columns.compare(comparator);
        unsorted = (0..wires as u32)
            .filter(|&wire| !columns.is_sorted(wire as usize))
            .collect();
        if unsorted.is_empty() {
            return Some(SortingNetwork { wires, comparators });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_does_not_sort_in_time_is_none() {
        let of_limit = |limit: usize| draw(7, limit, &mut NumpyRandom::new(42));
        let network = of_limit(MAX_COMPARATORS).unwrap();
        let length = network.comparators().len();
        assert_eq!(of_limit(length), Some(network));
        assert_eq!(of_limit(length - 1), None);
    }
}
