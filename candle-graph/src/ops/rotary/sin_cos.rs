//! Sines and cosines of many angles.

/// Angles that are worked on together.
const LANES: usize = 16;

/// The largest angle whose multiple of π/2 is taken off without an error: the multiple has at most
/// 15 bits.
const LARGEST: f32 = 50_000.0;

/// Replaces angles by their cosines and fills `sines`, of the same length, with their sines. The
/// absolute error is below 2e-7; what is not finite gives NaN.
#[inline(always)]
pub(super) fn sin_cos(angles: &mut [f32], sines: &mut [f32]) {
    let (angles, angles_rest) = angles.as_chunks_mut::<LANES>();
    let (sines, sines_rest) = sines.as_chunks_mut::<LANES>();
    for (angles, sines) in angles.iter_mut().zip(sines) {
        group(angles, sines);
    }
    let mut filled = [0.0; LANES];
    let mut of_filled = [0.0; LANES];
    filled[..angles_rest.len()].copy_from_slice(angles_rest);
    group(&mut filled, &mut of_filled);
    angles_rest.copy_from_slice(&filled[..angles_rest.len()]);
    sines_rest.copy_from_slice(&of_filled[..sines_rest.len()]);
}

#[inline(always)]
fn group(angles: &mut [f32; LANES], sines: &mut [f32; LANES]) {
    let given = *angles;
    let mut all_near = true;
    for lane in 0..LANES {
        (sines[lane], angles[lane]) = near(given[lane]);
        all_near &= is_near(given[lane]);
    }
    if !all_near {
        far(&given, angles, sines);
    }
}

#[inline(always)]
fn is_near(angle: f32) -> bool {
    angle.abs() <= LARGEST
}

/// The angles of a group that [`near`] does not take.
#[cold]
#[inline(never)]
fn far(given: &[f32; LANES], angles: &mut [f32; LANES], sines: &mut [f32; LANES]) {
    for (lane, &angle) in given.iter().enumerate().filter(|(_, a)| !is_near(**a)) {
        (sines[lane], angles[lane]) = angle.sin_cos();
    }
}

/// Sine and cosine of an angle for which [`is_near`] holds.
#[inline(always)]
fn near(angle: f32) -> (f32, f32) {
    // π/2 in three parts, of which the first two have so few bits (8 and 9) that their multiples are
    // exact, and so are the differences that they are taken in.
    const FIRST: f32 = 201.0 / 128.0;
    const SECOND: f32 = 507.0 / 1_048_576.0;
    const THIRD: f32 = 3.139_164_8e-7;
    // Adding it leaves a whole number in the low bits: rounding and conversion in one addition.
    const ROUND: f32 = 12_582_912.0;
    const SINE: [f32; 3] = [-0.166_666_5, 8.331_957e-3, -1.949_288_8e-4];
    const COSINE: [f32; 3] = [4.166_664_6e-2, -1.388_734_3e-3, 2.443_556e-5];
    let rounded = angle * std::f32::consts::FRAC_2_PI + ROUND;
    let n = rounded - ROUND;
    let quarter = rounded.to_bits();
    let r = angle - n * FIRST - n * SECOND - n * THIRD;
    // The Taylor polynomials up to r⁷ and r⁸, with coefficients fitted for |r| ≤ 1.004·π/4: the
    // rounding of `n` is off by a little where it is large.
    let z = r * r;
    let polynomial = |of: [f32; 3]| (of[2] * z + of[1]) * z + of[0];
    let sine = polynomial(SINE) * z * r + r;
    let cosine = polynomial(COSINE) * (z * z) - 0.5 * z + 1.0;
    // A quarter turn exchanges the two; the second bit of the number of quarters is the sign of the
    // sine, and of the cosine one quarter on.
    let odd = quarter & 1 == 1;
    let (s, c) = if odd { (cosine, sine) } else { (sine, cosine) };
    let sign = |value: f32, quarter: u32| f32::from_bits(value.to_bits() ^ ((quarter & 2) << 30));
    (sign(s, quarter), sign(c, quarter.wrapping_add(1)))
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_2;

    use super::*;

    /// The largest error against f64, of sines and cosines.
    fn worst(angles: &[f32]) -> f64 {
        let (mut cosines, mut sines) = (angles.to_vec(), vec![f32::NAN; angles.len()]);
        sin_cos(&mut cosines, &mut sines);
        let errors = (angles.iter().zip(cosines.iter().zip(&sines))).map(|(&x, (&cos, &sin))| {
            let (exact_sin, exact_cos) = f64::from(x).sin_cos();
            let (of_sin, of_cos) = (f64::from(sin) - exact_sin, f64::from(cos) - exact_cos);
            of_sin.abs().max(of_cos.abs())
        });
        // NaN is not less than anything.
        errors.fold(0.0, |a, b| if b < a { a } else { b })
    }

    #[test]
    fn errors_stay_below_2e_7() {
        // Evenly spaced in logarithm and in value, both signs, into the angles left to `std`.
        let growing = (0..400_000).map(|i| 1e-10 * 1.000_1f32.powi(i));
        let growing: Vec<f32> = growing.take_while(|&x| x < 1e30).collect();
        assert!(growing.last().is_some_and(|&x| x > 1e6));
        let spaced: Vec<f32> = (0..400_000)
            .map(|i| i as f32 * 0.137_3 - 27_460.0)
            .collect();
        let negative: Vec<f32> = growing.iter().map(|x| -x).collect();
        for angles in [growing, negative, spaced] {
            let found = worst(&angles);
            assert!(found < 2e-7, "{found}");
        }
        // Around multiples of π/2, where one of the two is smallest, as far as they are taken off.
        let around = (-33_000..33_000).flat_map(|i| {
            let multiple = (f64::from(i) * FRAC_PI_2) as f32;
            [multiple, multiple.next_up(), multiple.next_down()]
        });
        // Halfway between them, where the remainder is largest.
        let halfway = (-33_000..33_000).flat_map(|i| {
            let between = ((f64::from(i) + 0.5) * FRAC_PI_2) as f32;
            [between, between.next_up(), between.next_down()]
        });
        for angles in [around.collect::<Vec<_>>(), halfway.collect()] {
            let found = worst(&angles);
            assert!(found < 2e-7, "{found}");
        }
        let found = worst(&[LARGEST, LARGEST.next_up(), -LARGEST, f32::MAX, f32::MIN]);
        assert!(found < 2e-7, "{found}");
    }

    #[test]
    fn nothing_turns_by_nothing_and_what_is_not_finite_is_nan() {
        // Beside ordinary angles, in full groups and behind them.
        let mut angles = vec![0.0f32; 2 * LANES + 5];
        for at in [3, LANES + 2, 2 * LANES + 4] {
            angles[at] = f32::NAN;
            angles[at - 1] = f32::INFINITY;
            angles[at - 2] = f32::NEG_INFINITY;
        }
        let (mut cosines, mut sines) = (angles.clone(), vec![7.0; angles.len()]);
        sin_cos(&mut cosines, &mut sines);
        for ((angle, cos), sin) in angles.iter().zip(cosines).zip(sines) {
            if angle.is_finite() {
                assert_eq!((cos, sin), (1.0, 0.0));
            } else {
                assert!(cos.is_nan() && sin.is_nan(), "{angle}: {cos} {sin}");
            }
        }
        sin_cos(&mut [], &mut []);
    }
}
