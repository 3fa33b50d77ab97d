//! Differences and how they are shown.

use anyhow::{Result, bail};

/// The largest difference of one tensor.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    /// The tensor's recorded name.
    pub(crate) name: String,
    /// Largest `|a − b|`.
    pub(crate) absolute: f64,
    /// Largest `|a − b| / max(1, |b|)`.
    pub(crate) relative: f64,
    /// Number of values whose relative difference exceeds the tolerance.
    pub(crate) over: usize,
    /// Number of values.
    pub(crate) values: usize,
    /// How far the recorded f32 values are from this engine's double-precision run; only found out
    /// when `over` is not 0.
    pub(crate) recorded_rounding: Option<f64>,
}

impl Difference {
    /// Whether the values agree as far as the recording allows.
    ///
    /// GRIT's signed square root has an infinite slope at 0, so two correct f32 computations of a
    /// deep model's pair states differ by more than 1e-5 in a few values, and so does the recording
    /// from double precision. A tensor with values over the tolerance passes only if all of this
    /// holds: the recording itself is further than the tolerance from double precision; at most one
    /// value in a hundred is over; none by more than twenty times the tolerance. The prediction is
    /// never excused. A mistake in the mathematics moves most values, and the prediction with them.
    pub(crate) fn passes(&self, tolerance: f64) -> bool {
        let excused = self.name != PREDICTION
            && self.recorded_rounding.is_some_and(|r| r > tolerance)
            && self.over * 100 <= self.values
            && self.relative <= 20.0 * tolerance;
        self.over == 0 && self.relative <= tolerance || excused
    }
}

/// The recorded name of the prediction.
pub(crate) const PREDICTION: &str = "pred";

/// Compares `ours` with `recorded`, value by value.
pub(crate) fn difference(
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
    })
}

/// The differences of one case.
pub(crate) struct Report {
    /// Name of the case.
    pub(crate) case: String,
    /// Computed encodings against the recorded ones.
    pub(crate) encodings: Vec<Difference>,
    /// Activations and prediction, with recorded encodings and with computed ones.
    pub(crate) runs: Vec<(&'static str, Vec<Difference>)>,
}

impl Report {
    /// Prints the report and says whether the case passed.
    pub(crate) fn print(&self, tolerance: f64, encoding_tolerance: f64, verbose: bool) -> bool {
        let encodings = worst(self.encodings.iter(), |d| d.absolute);
        let mut passed = encodings.absolute <= encoding_tolerance;
        println!(
            "{}\n  encodings            {:.1e}  ({})",
            self.case, encodings.absolute, encodings.name
        );
        for (run, differences) in &self.runs {
            let of_prediction = |d: &&Difference| d.name == PREDICTION;
            let prediction = worst(differences.iter().filter(of_prediction), |d| d.relative);
            let rest = differences.iter().filter(|d| !of_prediction(d));
            let activation = worst(rest, |d| d.relative);
            passed &=
                prediction.passes(tolerance) && differences.iter().all(|d| d.passes(tolerance));
            println!(
                "  {run:20} pred {:.1e}  activations {:.1e}  ({} of {})",
                prediction.relative,
                activation.relative,
                activation.name,
                differences.len() - 1
            );
            for d in differences.iter().filter(|d| d.over > 0) {
                println!(
                    "    {}: {} of {} values over the tolerance, the largest by {:.1e}; the recording \
                     itself is {:.1e} from double precision",
                    d.name,
                    d.over,
                    d.values,
                    d.relative,
                    d.recorded_rounding.unwrap_or(0.0)
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
        println!("  {}", if passed { "ok" } else { "FAILED" });
        passed
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
        })
}
