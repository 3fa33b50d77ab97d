//! Running loops with the best vector instructions of the machine, and elementary functions that
//! compile to them.

/// Runs `body` compiled for the best instruction set that the machine has. Everything `body` calls
/// must be inlined (`#[inline(always)]`, on the closure too), or it is compiled for the oldest
/// machine after all.
#[inline(always)]
pub(crate) fn vectorize(arch: pulp::Arch, body: impl FnMut()) {
    struct Body<F>(F);
    impl<F: FnMut()> pulp::WithSimd for Body<F> {
        type Output = ();

        // Called as FnMut: a call as FnOnce goes through a shim that is not inlined.
        #[inline(always)]
        fn with_simd<S: pulp::Simd>(mut self, _: S) {
            (self.0)();
        }
    }
    arch.dispatch(Body(body));
}

/// Work on some columns of a matrix.
pub(super) trait Columns {
    /// The `C` columns from `first`.
    fn run<const C: usize>(&mut self, first: usize);
}

/// Runs `body` on `columns` in groups that fill whole vector registers where there are enough of
/// them, so that what is summed over rows stays in registers.
#[inline(always)]
pub(super) fn column_groups(columns: std::ops::Range<usize>, body: &mut impl Columns) {
    let mut first = columns.start;
    while first < columns.end {
        first += match columns.end - first {
            32.. => group::<32>(body, first),
            16.. => group::<16>(body, first),
            8.. => group::<8>(body, first),
            4.. => group::<4>(body, first),
            _ => group::<1>(body, first),
        };
    }
}

/// One group of `C` columns; gives `C`.
#[inline(always)]
fn group<const C: usize>(body: &mut impl Columns, first: usize) -> usize {
    body.run::<C>(first);
    C
}

/// `C` adjacent values from `first`.
#[inline(always)]
pub(super) fn lanes<const C: usize>(values: &[f32], first: usize) -> [f32; C] {
    let part = &values[first..first + C];
    std::array::from_fn(|c| part[c])
}

/// eˣ with a relative error below 2e-7; 0 below the smallest normal result, +∞ above the largest
/// number, NaN for NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts: the first has few enough bits that its multiples are exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const LOWEST: f32 = -87.336_54;
    const HIGHEST: f32 = 88.722_83;
    // Adding it leaves a whole number in the low bits: rounding and conversion to an integer in one
    // addition, where `as i32` would compile to checks of the range.
    const ROUND: f32 = 12_582_912.0;
    let bounded = x.clamp(LOWEST, HIGHEST);
    let rounded = bounded * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let k = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let r = bounded - n * LN2_HIGH - n * LN2_LOW;
    // Taylor coefficients of (e^r − 1 − r)/r² up to r⁵, fitted for |r| ≤ ln 2 / 2.
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let y = p * r * r + r + 1.0;
    // 2ᵏ in two factors, as k may be 128 and half of it always is a normal exponent.
    let half = k >> 1;
    let power = |k: i32| f32::from_bits((k.wrapping_add(127) as u32) << 23);
    let y = y * power(half) * power(k.wrapping_sub(half));
    let y = if x < LOWEST { 0.0 } else { y };
    if x > HIGHEST { f32::INFINITY } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_everywhere() {
        let mut worst = 0.0f64;
        let mut x = -87.3f32;
        while x < 88.7 {
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
            x += 0.001_7;
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-200.0), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }
}
