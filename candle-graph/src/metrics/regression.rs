//! Metrics of regression tasks.

/// Mean of `|prediction − target|` over all values whose target is known (not NaN); `None` when
/// there is no such value.
///
/// # Panics
/// The slices differ in length.
pub fn mean_absolute_error(predictions: &[f32], targets: &[f32]) -> Option<f64> {
    mean(predictions, targets, f64::abs)
}

/// Root of the mean of `(prediction − target)²` over all values whose target is known (not NaN);
/// `None` when there is no such value.
///
/// # Panics
/// The slices differ in length.
pub fn root_mean_squared_error(predictions: &[f32], targets: &[f32]) -> Option<f64> {
    mean(predictions, targets, |difference| difference * difference).map(f64::sqrt)
}

/// Mean of `loss(prediction − target)` over all values whose target is known.
fn mean(predictions: &[f32], targets: &[f32], loss: impl Fn(f64) -> f64) -> Option<f64> {
    assert_eq!(predictions.len(), targets.len(), "one target a prediction");
    let known = predictions
        .iter()
        .zip(targets)
        .filter(|(_, target)| !target.is_nan());
    let (mut sum, mut count) = (0.0, 0u64);
    for (&prediction, &target) in known {
        sum += loss(f64::from(prediction) - f64::from(target));
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_targets_do_not_count() {
        let error = mean_absolute_error(&[1.0, 2.0, 9.0], &[0.0, 4.0, f32::NAN]);
        assert_eq!(error, Some(1.5));
        assert_eq!(mean_absolute_error(&[1.0], &[f32::NAN]), None);
        let error = root_mean_squared_error(&[1.0, -3.0, 9.0], &[0.0, 4.0, f32::NAN]);
        assert_eq!(error, Some(5.0));
        assert_eq!(root_mean_squared_error(&[1.0], &[f32::NAN]), None);
    }
}
