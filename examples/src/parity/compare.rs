//! Differences and how they are shown.

use anyhow::{Result, bail};

/// The largest difference of one tensor.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The tensor's recorded name.
    pub name: String,
    /// Largest `|a − b|`.
    pub absolute: f64,
    /// Largest `|a − b| / max(1, |b|)`.
    pub relative: f64,
    /// Number of values whose relative difference exceeds the tolerance.
    pub over: usize,
    /// Number of values.
    pub values: usize,
    /// How far the recorded f32 values are from this engine's double-precision run; only found out
    /// when `over` is not 0.
    pub recorded_rounding: Option<f64>,
    /// The same of this engine's f32 values.
    pub own_rounding: Option<f64>,
}

impl Difference {
    /// Whether the values agree as far as single precision allows.
    ///
    /// Two correct f32 computations can differ by the sum of their distances from double precision.
    /// Values over the tolerance pass in three cases, and the prediction in none:
    ///
    /// - Both the recording and this engine are within the tolerance of double precision, which is
    ///   then where they meet.
    /// - The recording itself is further than the tolerance from double precision (GRIT's signed
    ///   square root has an infinite slope at 0), at most one value in a hundred is over, and none by
    ///   more than twenty times the tolerance. A mistake in the mathematics moves most values, and
    ///   the prediction with them.
    /// - Recording and engine are about as far from double precision as each other (this engine at
    ///   most twice, the recording at most three times as far as the other), and by no more than
    ///   twenty times the tolerance: large attention logits make so much of rounding errors. A
    ///   mistake in the mathematics is in this engine's double precision too, so that the recording
    ///   is far from it, and the engine is not.
    pub fn passes(&self, tolerance: f64) -> bool {
        let within = |rounding: Option<f64>| rounding.is_some_and(|r| r <= tolerance);
        let meet = within(self.recorded_rounding) && within(self.own_rounding);
        let recording_is_far = self.recorded_rounding.is_some_and(|r| r > tolerance)
            && self.over * 100 <= self.values
            && self.relative <= 20.0 * tolerance;
        let alike = match (self.recorded_rounding, self.own_rounding) {
            (Some(recorded), Some(own)) => {
                own <= 2.0 * recorded && recorded <= 3.0 * own && recorded <= 20.0 * tolerance
            }
            _ => false,
        };
        let excused = self.name != PREDICTION && (meet || recording_is_far || alike);
        self.over == 0 && self.relative <= tolerance || excused
    }
}

/// The recorded name of the prediction.
pub(super) const PREDICTION: &str = "pred";

/// Compares `ours` with `recorded`, value by value.
pub(super) fn difference(
    name: &str,
    ours: &[f32],
    recorded: &[f32],
    tolerance: f64,
) -> Result<Difference> {
    if ours.len() != recorded.len() {
        bail!(
            "{name}: {} values here, {} recorded",
            ours.len(),
            recorded.len()
        );
    }
    let (mut absolute, mut relative, mut over) = (0.0f64, 0.0f64, 0);
    for (&a, &b) in ours.iter().zip(recorded) {
        let (a, b) = (f64::from(a), f64::from(b));
        let distance = (a - b).abs();
        // A NaN must count as the worst difference, not as none.
        let distance = if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
        };
        absolute = absolute.max(distance);
        let scaled = distance / b.abs().max(1.0);
        relative = relative.max(scaled);
        over += usize::from(scaled > tolerance);
    }
    Ok(Difference {
        name: name.to_string(),
        absolute,
        relative,
        over,
        values: ours.len(),
        recorded_rounding: None,
        own_rounding: None,
    })
}

/// [`difference`], and where values are over the tolerance also how far both sides are from the
/// double-precision values that `exact` gives.
pub(super) fn difference_and_rounding(
    name: &str,
    ours: &[f32],
    recorded: &[f32],
    tolerance: f64,
    exact: impl FnOnce() -> Result<Vec<f32>>,
) -> Result<Difference> {
    let mut found = difference(name, ours, recorded, tolerance)?;
    if found.over > 0 {
        let exact = exact()?;
        let rounding =
            |of| Ok::<_, anyhow::Error>(difference(name, of, &exact, tolerance)?.relative);
        found.recorded_rounding = Some(rounding(recorded)?);
        found.own_rounding = Some(rounding(ours)?);
    }
    Ok(found)
}

/// The largest difference of a computed encoding from the recorded one.
#[derive(Debug, Clone)]
pub struct EncodingDifference {
    /// Which encoding, and by what measure where it is not the largest `|a − b|`.
    pub name: String,
    /// How far they are apart.
    pub difference: f64,
    /// What it may be.
    pub tolerance: f64,
}

/// The differences of one case.
#[derive(Debug)]
pub struct Report {
    /// Name of the case.
    pub case: String,
    /// Whether the model reads encodings.
    pub has_encodings: bool,
    /// Computed encodings against the recorded ones.
    pub encodings: Vec<EncodingDifference>,
    /// Activations and prediction, with recorded encodings and with computed ones.
    pub runs: Vec<(&'static str, Vec<Difference>)>,
    /// Recorded tensors that hold an upstream error, so that nothing can be compared with them.
    pub not_comparable: Vec<String>,
}

impl Report {
    /// Whether every difference is within its tolerance. A report that compared nothing does not
    /// pass.
    pub fn passes(&self, tolerance: f64) -> bool {
        let within = |d: &EncodingDifference| d.difference <= d.tolerance;
        let predicted = |run: &[Difference]| run.iter().any(|d| d.name == PREDICTION);
        self.encodings.iter().all(within)
            && (!self.has_encodings || !self.encodings.is_empty())
            && !self.runs.is_empty()
            && self.runs.iter().all(|(_, differences)| {
                predicted(differences) && differences.iter().all(|d| d.passes(tolerance))
            })
    }

    /// Prints the report.
    pub fn print(&self, tolerance: f64, verbose: bool) {
        println!("{}", self.case);
        let nearest = |d: &EncodingDifference| d.difference / d.tolerance;
        let worst_encoding =
            (self.encodings.iter()).max_by(|a, b| nearest(a).total_cmp(&nearest(b)));
        if let Some(worst) = worst_encoding {
            println!(
                "  encodings            {:.1e}  of {:.0e}  ({})",
                worst.difference, worst.tolerance, worst.name
            );
        }
        for (run, differences) in &self.runs {
            let of_prediction = |d: &&Difference| d.name == PREDICTION;
            let prediction = worst(differences.iter().filter(of_prediction), |d| d.relative);
            let rest = differences.iter().filter(|d| !of_prediction(d));
            let activation = worst(rest, |d| d.relative);
            println!(
                "  {run:20} pred {:.1e}  activations {:.1e}  ({} of {})",
                prediction.relative,
                activation.relative,
                activation.name,
                differences.len() - 1
            );
            for d in differences.iter().filter(|d| d.over > 0) {
                println!(
                    "    {}: {} of {} values over the tolerance, the largest by {:.1e}; from double \
                     precision the recording is {:.1e}, this engine {:.1e}",
                    d.name,
                    d.over,
                    d.values,
                    d.relative,
                    d.recorded_rounding.unwrap_or(0.0),
                    d.own_rounding.unwrap_or(0.0)
                );
            }
            if verbose {
                for d in differences {
                    println!(
                        "    {:32} {:.1e}  absolute {:.1e}",
                        d.name, d.relative, d.absolute
                    );
                }
            }
        }
        if !self.not_comparable.is_empty() {
            println!(
                "  not comparable, as the recording holds an upstream error: {}",
                self.not_comparable.join(", ")
            );
        }
        let passed = self.passes(tolerance);
        println!("  {}", if passed { "ok" } else { "FAILED" });
    }
}

fn worst<'a>(
    differences: impl Iterator<Item = &'a Difference>,
    by: impl Fn(&Difference) -> f64,
) -> Difference {
    differences
        .max_by(|a, b| by(a).total_cmp(&by(b)))
        .cloned()
        // A comparison that compared nothing must not pass.
        .unwrap_or(Difference {
            name: "nothing was compared".to_string(),
            absolute: f64::INFINITY,
            relative: f64::INFINITY,
            over: 0,
            values: 0,
            recorded_rounding: None,
            own_rounding: None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, relative: f64, over: usize, roundings: [f64; 2]) -> Difference {
        Difference {
            name: name.to_string(),
            absolute: relative,
            relative,
            over,
            values: 1000,
            recorded_rounding: Some(roundings[0]),
            own_rounding: Some(roundings[1]),
        }
    }

    #[test]
    fn only_rounding_is_excused_and_never_in_the_prediction() {
        let passes = |d: Difference| d.passes(1e-5);
        // Both within the tolerance; the recording far, few values; both about as far.
        assert!(passes(with("layer", 1.2e-5, 500, [9e-6, 8e-6])));
        assert!(passes(with("layer", 8e-5, 10, [6e-5, 1e-6])));
        assert!(passes(with("layer", 9e-5, 500, [6e-5, 5e-5])));
        assert!(!passes(with(PREDICTION, 1.2e-5, 1, [9e-6, 8e-6])));
        assert!(!passes(with(PREDICTION, 9e-5, 500, [6e-5, 5e-5])));
        // The recording is far from this engine's mathematics, which is exact about it.
        assert!(!passes(with("layer", 6e-5, 500, [6e-5, 5e-6])));
        // The engine is far from its own mathematics.
        assert!(!passes(with("layer", 6e-5, 5, [6e-6, 6e-5])));
        assert!(!passes(with("layer", 6e-4, 500, [3e-4, 3e-4])));
        let mut unknown = with("layer", 2e-5, 1, [0.0; 2]);
        (unknown.recorded_rounding, unknown.own_rounding) = (None, None);
        assert!(!passes(unknown));
    }
}
