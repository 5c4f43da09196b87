// SPDX-License-Identifier: GPL-2.0
//! How long round trips took.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// No wait of this program is as long, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// The distribution is told as precisely as a plot shows it.
const STEP: f64 = 1.02;

/// The times of one worker's round trips, in nanoseconds.
#[derive(Debug)]
pub struct Times {
    histogram: Histogram<u64>,
    /// Their sum, so that the mean is exact.
    total: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are valid"),
            total: Duration::ZERO,
        }
    }
}

/// The times of an end's round trips.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Latency {
    /// Round trips.
    pub count: u64,
    /// Their mean in microseconds.
    pub mean_us: f64,
    /// The 1st percentile.
    pub p1_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The whole distribution: up to so many microseconds took so many.
    pub steps: Vec<(f64, u64)>,
}

impl Times {
    /// Adds a round trip.
    pub fn add(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanoseconds);
        self.total += time;
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("their bounds are the same");
        self.total += other.total;
    }

    /// What there is to tell, if there was any round trip.
    pub fn latency(&self) -> Option<Latency> {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let histogram = &self.histogram;
        let quantile = |q| us(histogram.value_at_quantile(q));
        let steps = histogram.iter_log(histogram.min().max(1), STEP);
        (!histogram.is_empty()).then(|| Latency {
            count: histogram.len(),
            mean_us: self.total.as_secs_f64() * 1e6 / histogram.len() as f64,
            p1_us: quantile(0.01),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            max_us: us(histogram.max()),
            steps: steps
                .map(|step| {
                    (
                        us(step.value_iterated_to()),
                        step.count_since_last_iteration(),
                    )
                })
                .filter(|&(_, count)| count > 0)
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_steps() {
        let mut times = Times::default();
        assert!(times.latency().is_none());
        for us in 1..=500 {
            times.add(Duration::from_micros(us));
        }
        let mut more = Times::default();
        for us in 501..=1000 {
            more.add(Duration::from_micros(us));
        }
        times.merge(&more);
        let latency = times.latency().unwrap();
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.002, "{a} {b}");
        assert_eq!(latency.count, 1000);
        near(latency.mean_us, 500.5);
        near(latency.p1_us, 10.0);
        near(latency.p99_us, 990.0);
        near(latency.max_us, 1000.0);
        assert_eq!(latency.steps.iter().map(|&(_, n)| n).sum::<u64>(), 1000);
        assert!(latency.steps.len() < 400);
        assert!(latency.steps.is_sorted_by(|a, b| a.0 < b.0));
    }
}
