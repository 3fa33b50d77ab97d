//! Ranking metrics of link prediction.

use std::cmp::Ordering;

/// Rank of `positive` among itself and `negatives`, from 1 (best). Equal scores share the mean of
/// their ranks, so a model that gives one score to all is in the middle, not first; the official
/// code leaves the order of equal scores to the sort. A score that is NaN ranks worst as the
/// positive and above it as a negative.
pub fn rank(positive: f32, negatives: impl IntoIterator<Item = f32>) -> f64 {
    let (mut above, mut equal) = (0u64, 0u64);
    for negative in negatives {
        match negative.partial_cmp(&positive) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) => equal += 1,
            Some(Ordering::Greater) | None => above += 1,
        }
    }
    1.0 + above as f64 + equal as f64 / 2.0
}

/// Ranks of the positive pairs of one graph as GraphGPS ranks them (`inductive_edge`): the score of
/// (source, target) among the scores of (source, w) for every other node w, the source itself and
/// the targets of other positive pairs included.
///
/// `scores` is `[nodes, nodes]`, a row a source. `None` when it is not that large, or a pair names a
/// node that does not exist.
pub fn link_ranks(scores: &[f32], num_nodes: usize, positives: &[[u32; 2]]) -> Option<Vec<f64>> {
    if num_nodes.checked_mul(num_nodes) != Some(scores.len()) {
        return None;
    }
    let of_pair = |&[source, target]: &[u32; 2]| {
        let row = scores.chunks_exact(num_nodes.max(1)).nth(source as usize)?;
        let positive = *row.get(target as usize)?;
        let others = row.iter().enumerate();
        let negatives = others.filter_map(|(w, &s)| (w != target as usize).then_some(s));
        Some(rank(positive, negatives))
    };
    positives.iter().map(of_pair).collect()
}

/// Mean reciprocal rank and shares of ranks up to 1, 3 and 10.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RankingScores {
    /// Mean of 1 / rank.
    pub mean_reciprocal_rank: f64,
    /// Share of ranks up to 1.
    pub hits_at_1: f64,
    /// Share of ranks up to 3.
    pub hits_at_3: f64,
    /// Share of ranks up to 10.
    pub hits_at_10: f64,
}

impl RankingScores {
    /// The scores of some ranks; all 0 for none.
    pub fn of_ranks(ranks: &[f64]) -> Self {
        let mean = |value: &dyn Fn(f64) -> f64| {
            let sum: f64 = ranks.iter().map(|&rank| value(rank)).sum();
            sum / ranks.len().max(1) as f64
        };
        let hits = |k: f64| mean(&|rank| f64::from(u8::from(rank <= k)));
        Self {
            mean_reciprocal_rank: mean(&|rank| 1.0 / rank),
            hits_at_1: hits(1.0),
            hits_at_3: hits(3.0),
            hits_at_10: hits(10.0),
        }
    }

    /// The mean over graphs, as GraphGPS reports it: a graph without positive pairs counts as 0.
    /// `None` without graphs.
    pub fn mean(graphs: &[Self]) -> Option<Self> {
        if graphs.is_empty() {
            return None;
        }
        let mean =
            |field: fn(&Self) -> f64| graphs.iter().map(field).sum::<f64>() / graphs.len() as f64;
        Some(Self {
            mean_reciprocal_rank: mean(|g| g.mean_reciprocal_rank),
            hits_at_1: mean(|g| g.hits_at_1),
            hits_at_3: mean(|g| g.hits_at_3),
            hits_at_10: mean(|g| g.hits_at_10),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn equal_scores_share_their_ranks() {
        assert_eq!(rank(2.0, [1.0, 3.0, 0.0]), 2.0);
        assert_eq!(rank(2.0, [2.0, 2.0, 3.0]), 3.0);
        assert_eq!(rank(2.0, []), 1.0);
    }

    #[test]
    fn scores_that_are_no_numbers_do_not_win() {
        assert_eq!(rank(f32::NAN, [1.0, 3.0]), 3.0);
        assert_eq!(rank(2.0, [f32::NAN, 1.0]), 2.0);
    }

    #[test]
    fn only_the_target_itself_is_left_out() {
        // Source 0 scores itself highest, then node 2, then node 1.
        let scores = [5.0, 1.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let ranks = link_ranks(&scores, 3, &[[0, 1], [0, 2], [0, 0]]);
        assert_eq!(ranks, Some(vec![3.0, 2.0, 1.0]));
        assert_eq!(link_ranks(&scores, 3, &[[0, 3]]), None);
        assert_eq!(link_ranks(&scores, 3, &[[3, 0]]), None);
        assert_eq!(link_ranks(&scores, 2, &[[0, 1]]), None);
    }

    #[test]
    fn graphs_without_positive_pairs_count_as_zero() {
        let one = RankingScores::of_ranks(&[1.0, 4.0]);
        assert_eq!(one.mean_reciprocal_rank, 0.625);
        assert_eq!(
            (one.hits_at_1, one.hits_at_3, one.hits_at_10),
            (0.5, 0.5, 1.0)
        );
        let none = RankingScores::of_ranks(&[]);
        assert_eq!(none, RankingScores::default());
        let mean = RankingScores::mean(&[one, none]).unwrap();
        assert_eq!((mean.mean_reciprocal_rank, mean.hits_at_10), (0.3125, 0.5));
        assert_eq!(RankingScores::mean(&[]), None);
    }
}
