// SPDX-License-Identifier: GPL-2.0
//! How two drivers compare, from rounds in which both ran side by side.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// How sure an interval is to hold the true ratio.
const CONFIDENCE: f64 = 0.95;

/// A ratio, and the interval in which it lies by all that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    /// The geometric mean of the rounds' ratios.
    pub ratio: f64,
    /// The interval's ends; none of one round.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// The ratio of the second to the first of each pair, by the logarithms of the pairs' ratios, whose
    /// mean is distributed as Student's t. There is none without pairs, or if a value is not positive.
    pub(crate) fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.is_empty() || pairs.iter().any(|&(a, b)| !(a > 0.0 && b > 0.0)) {
            return None;
        }
        let n = pairs.len() as f64;
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
        let mean = logs.iter().sum::<f64>() / n;
        let interval = (pairs.len() > 1).then(|| {
            let square = |log: &f64| (log - mean).powi(2);
            let variance = logs.iter().map(square).sum::<f64>() / (n - 1.0);
            let t = StudentsT::new(0.0, 1.0, n - 1.0).expect("n - 1 is positive");
            let half = t.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * (variance / n).sqrt();
            ((mean - half).exp(), (mean + half).exp())
        });
        Some(Ratio {
            ratio: mean.exp(),
            interval,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Logarithms 0, 1 and 2: mean 1, standard error 1/sqrt(3), and t of 2 degrees is 4.30265.
        let e = std::f64::consts::E;
        let ratio = Ratio::of(&[(1.0, 1.0), (2.0, 2.0 * e), (3.0, 3.0 * e * e)]).unwrap();
        let (low, high) = ratio.interval.unwrap();
        let half = 4.302_652_73 / 3f64.sqrt();
        assert!((ratio.ratio.ln() - 1.0).abs() < 1e-9);
        assert!((low.ln() - (1.0 - half)).abs() < 1e-5, "{low}");
        assert!((high.ln() - (1.0 + half)).abs() < 1e-5, "{high}");
    }

    #[test]
    fn equal_ratios_leave_no_doubt() {
        let ratio = Ratio::of(&[(1.0, 2.0), (10.0, 20.0)]).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
    }

    #[test]
    fn too_little_makes_no_interval() {
        assert_eq!(Ratio::of(&[]), None);
        assert_eq!(Ratio::of(&[(0.0, 1.0)]), None);
        assert_eq!(Ratio::of(&[(1.0, 3.0)]).unwrap().interval, None);
    }
}
