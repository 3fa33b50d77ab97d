//! Precision, recall and F1 of predicted sub-tokens (ogbg-code2).

use std::collections::HashSet;
use std::hash::Hash;

/// Precision, recall and F1 of one prediction, or their means over predictions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SubTokenScores {
    /// Share of the predicted sub-tokens that are right; 0 if none is predicted.
    pub precision: f64,
    /// Share of the right sub-tokens that are predicted; 0 if there are none.
    pub recall: f64,
    /// Harmonic mean of the two; 0 if both are.
    pub f1: f64,
}

impl SubTokenScores {
    /// The scores of one prediction. Sub-tokens count as sets: neither order nor repetition matters.
    pub fn of_sets<T: Eq + Hash>(reference: &[T], predicted: &[T]) -> Self {
        let reference: HashSet<&T> = reference.iter().collect();
        let predicted: HashSet<&T> = predicted.iter().collect();
        let right = reference.intersection(&predicted).count() as f64;
        let share = |of: usize| match of {
            0 => 0.0,
            of => right / of as f64,
        };
        let (precision, recall) = (share(predicted.len()), share(reference.len()));
        let sum = precision + recall;
        let f1 = if sum > 0.0 {
            2.0 * precision * recall / sum
        } else {
            0.0
        };
        Self {
            precision,
            recall,
            f1,
        }
    }

    /// The mean over predictions, as OGB's evaluator reports it: the F1 is the mean of the F1s, not
    /// that of the mean precision and recall. `None` without predictions.
    pub fn mean(scores: &[Self]) -> Option<Self> {
        if scores.is_empty() {
            return None;
        }
        let mean =
            |field: fn(&Self) -> f64| scores.iter().map(field).sum::<f64>() / scores.len() as f64;
        Some(Self {
            precision: mean(|s| s.precision),
            recall: mean(|s| s.recall),
            f1: mean(|s| s.f1),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn sub_tokens_count_as_sets() {
        let scores =
            SubTokenScores::of_sets(&["get", "name", "get"], &["name", "of", "node", "of"]);
        assert_eq!(scores.precision, 1.0 / 3.0);
        assert_eq!(scores.recall, 0.5);
        assert!((scores.f1 - 0.4).abs() < 1e-15);
        let same = SubTokenScores::of_sets(&["a", "b"], &["b", "a", "a"]);
        assert_eq!((same.precision, same.recall, same.f1), (1.0, 1.0, 1.0));
    }

    #[test]
    fn nothing_predicted_or_nothing_right_scores_zero() {
        let zero = SubTokenScores::default();
        assert_eq!(SubTokenScores::of_sets(&["a"], &[]), zero);
        assert_eq!(SubTokenScores::of_sets(&[], &["a"]), zero);
        assert_eq!(SubTokenScores::of_sets::<&str>(&[], &[]), zero);
        assert_eq!(SubTokenScores::of_sets(&["a"], &["b"]), zero);
    }

    #[test]
    fn the_mean_is_over_predictions() {
        let one = SubTokenScores::of_sets(&["a", "b"], &["a", "b"]);
        let half = SubTokenScores::of_sets(&["a", "b"], &["a"]);
        let mean = SubTokenScores::mean(&[one, half]).unwrap();
        assert_eq!((mean.precision, mean.recall), (1.0, 0.75));
        assert!((mean.f1 - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-15);
        assert_eq!(SubTokenScores::mean(&[]), None);
    }
}
