//! From the logits of a sub-token head to the classes of a name (ogbg-code2).

/// How classes are chosen. The last class is `__EOS__`, the end of the name, the one before it
/// `__UNK__`, a sub-token that the model does not know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SubTokenDecoding {
    /// What is subtracted from the probability of `__UNK__` (`evaluation.unk_offset`).
    pub unk_offset: f32,
    /// What is subtracted from the probability of `__EOS__` (`evaluation.eos_offset`).
    pub eos_offset: f32,
}

impl Default for SubTokenDecoding {
    /// 0.75 and 0.45, as for the models on data-flow graphs.
    fn default() -> Self {
        Self {
            unk_offset: 0.75,
            eos_offset: 0.45,
        }
    }
}

impl SubTokenDecoding {
    /// The classes of the sub-tokens that `logits` (`[positions, classes]`, row after row) stand for:
    /// at every position the class of the largest probability after the offsets (the first of equal
    /// ones), up to the first `__EOS__`, without `__UNK__`.
    ///
    /// `None` if the logits do not fill rows of `classes`, or there are not two classes.
    pub fn decode(&self, logits: &[f32], classes: usize) -> Option<Vec<u32>> {
        let (unk, eos) = (classes.checked_sub(2)?, classes.checked_sub(1)?);
        if !logits.len().is_multiple_of(classes) {
            return None;
        }
        let chosen = logits.chunks_exact(classes).map(|row| self.choose(row));
        let name = chosen
            .take_while(|&class| class != eos)
            .filter(|&class| class != unk);
        Some(name.filter_map(|class| u32::try_from(class).ok()).collect())
    }

    /// The class of one row.
    fn choose(&self, logits: &[f32]) -> usize {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
        let (unk, eos) = (logits.len() - 2, logits.len() - 1);
        let mut best = (0, f32::NEG_INFINITY);
        for (class, logit) in logits.iter().enumerate() {
            let probability = (logit - largest).exp() / sum;
            let score = match class {
                class if class == unk => probability - self.unk_offset,
                class if class == eos => probability - self.eos_offset,
                _ => probability,
            };
            if score > best.1 {
                best = (class, score);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of the given probabilities.
    fn rows(probabilities: &[[f32; 4]]) -> Vec<f32> {
        let logits = probabilities.iter().flatten().map(|p| p.ln() + 3.0);
        logits.collect()
    }

    #[test]
    fn offsets_hold_unknown_and_end_back() {
        let decoding = SubTokenDecoding::default();
        let decode = |row: [f32; 4]| decoding.decode(&rows(&[row]), 4);
        // __UNK__ wins only from 0.75 above the best.
        assert_eq!(decode([0.06, 0.04, 0.83, 0.07]), Some(vec![]));
        assert_eq!(decode([0.1, 0.05, 0.8, 0.05]), Some(vec![0]));
        // __EOS__ wins only from 0.45 above the best.
        assert_eq!(decode([0.05, 0.2, 0.05, 0.7]), Some(vec![]));
        assert_eq!(decode([0.05, 0.3, 0.05, 0.6]), Some(vec![1]));
        let plain = SubTokenDecoding {
            unk_offset: 0.0,
            eos_offset: 0.0,
        };
        assert_eq!(
            plain.decode(&rows(&[[0.05, 0.3, 0.05, 0.6]]), 4),
            Some(vec![])
        );
    }

    #[test]
    fn a_name_ends_at_the_first_end_and_has_no_unknown() {
        let (a, b) = ([0.9, 0.1, 1e-9, 1e-9], [0.1, 0.9, 1e-9, 1e-9]);
        let (unk, eos) = ([1e-9, 1e-9, 1.0, 1e-9], [1e-9, 1e-9, 1e-9, 1.0]);
        let decoding = SubTokenDecoding::default();
        let logits = rows(&[b, unk, a, eos, b]);
        assert_eq!(decoding.decode(&logits, 4), Some(vec![1, 0]));
        assert_eq!(decoding.decode(&rows(&[a, b]), 4), Some(vec![0, 1]));
        assert_eq!(decoding.decode(&rows(&[eos, b]), 4), Some(vec![]));
    }

    #[test]
    fn large_logits_and_ties_are_harmless() {
        let decoding = SubTokenDecoding::default();
        assert_eq!(
            decoding.decode(&[500.0, 500.0, -500.0, -500.0], 4),
            Some(vec![0])
        );
        assert_eq!(decoding.decode(&[], 4), Some(vec![]));
        assert_eq!(decoding.decode(&[0.0; 5], 4), None);
        assert_eq!(decoding.decode(&[0.0], 1), None);
        assert_eq!(decoding.decode(&[], 0), None);
        assert_eq!(decoding.decode(&[f32::NAN; 4], 4), Some(vec![0]));
    }
}
