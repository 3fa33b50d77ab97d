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
}

/// Compares `ours` with `recorded`, value by value.
pub(crate) fn difference(name: &str, ours: &[f32], recorded: &[f32]) -> Result<Difference> {
    if ours.len() != recorded.len() {
        bail!(
            "{name}: {} values here, {} recorded",
            ours.len(),
            recorded.len()
        );
    }
    let (mut absolute, mut relative) = (0.0f64, 0.0f64);
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
        relative = relative.max(distance / b.abs().max(1.0));
    }
    Ok(Difference {
        name: name.to_string(),
        absolute,
        relative,
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
            let of_prediction = |d: &&Difference| d.name == "pred";
            let prediction = worst(differences.iter().filter(of_prediction), |d| d.relative);
            let rest = differences.iter().filter(|d| !of_prediction(d));
            let activation = worst(rest, |d| d.relative);
            passed &= prediction.relative <= tolerance && activation.relative <= tolerance;
            println!(
                "  {run:20} pred {:.1e}  activations {:.1e}  ({} of {})",
                prediction.relative,
                activation.relative,
                activation.name,
                differences.len() - 1
            );
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
        })
}
