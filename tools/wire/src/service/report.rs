// SPDX-License-Identifier: GPL-2.0
//! What a service counted.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::spec::ServiceSpec;

/// The longest round trip that is told from longer ones, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;

/// Everything counted about one service for one guest.
#[derive(Debug)]
pub struct ServiceStats {
    spec: ServiceSpec,
    /// What a report shows as it is.
    pub counts: Counts,
    /// Of payload going and coming, summed over the connections.
    active: Duration,
    /// Nanoseconds.
    round_trips: Histogram<u64>,
}

/// The plain counters.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Connections ended because the guest broke a rule.
    pub broken: u64,
    /// Of those, the ones that sent more than they had credit for.
    pub overflows: u64,
    /// Packets with payload from the guest, before any merging by its reader.
    pub packets_in: u64,
    /// Payload bytes in them.
    pub bytes_in: u64,
    /// Packets with payload to the guest, before splitting.
    pub packets_out: u64,
    /// Payload bytes in them.
    pub bytes_out: u64,
    /// Credit updates to the guest.
    pub credit_updates: u64,
}

/// A service's part of a report.
#[derive(Debug, Serialize)]
pub struct ServiceReport {
    #[serde(flatten)]
    spec: ServiceSpec,
    /// Connections that are open now.
    open: u64,
    #[serde(flatten)]
    counts: Counts,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trips: Option<RoundTrips>,
}

/// Times from a packet's making to the last byte of its answer, in microseconds.
#[derive(Debug, Serialize)]
struct RoundTrips {
    count: u64,
    min_us: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl ServiceStats {
    /// Nothing counted yet.
    pub fn new(spec: ServiceSpec) -> Self {
        ServiceStats {
            spec,
            counts: Counts::default(),
            active: Duration::ZERO,
            round_trips: Histogram::new_with_bounds(1, LONGEST, 3)
                .expect("the bounds are in order, and three digits are allowed"),
        }
    }

    /// The service.
    pub fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    /// Payload went or came, this long after the last of the same connection.
    pub fn add_active(&mut self, time: Duration) {
        self.active += time;
    }

    /// A ping was answered.
    pub fn round_trip(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.round_trips.saturating_record(nanoseconds);
    }

    /// Pings that were answered.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.len()
    }

    /// The service's part of a report, with as many connections `open` now.
    pub fn report(&self, open: u64) -> ServiceReport {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let times = &self.round_trips;
        ServiceReport {
            spec: self.spec.clone(),
            open,
            counts: self.counts.clone(),
            seconds: self.active.as_secs_f64(),
            round_trips: (!times.is_empty()).then(|| RoundTrips {
                count: times.len(),
                min_us: us(times.min()),
                p50_us: us(times.value_at_quantile(0.5)),
                p99_us: us(times.value_at_quantile(0.99)),
                max_us: us(times.max()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_told_in_microseconds() {
        let mut stats = ServiceStats::new("ping-pong=1".parse().unwrap());
        for ms in 1..=100 {
            stats.round_trip(Duration::from_millis(ms));
        }
        let report = serde_json::to_value(stats.report(0)).unwrap();
        let near = |key: &str, us: f64| {
            let told = report["round_trips"][key].as_f64().unwrap();
            assert!((told / us - 1.0).abs() < 0.001, "{key} is {told}");
        };
        assert_eq!(report["round_trips"]["count"], 100);
        near("min_us", 1_000.0);
        near("p50_us", 50_000.0);
        near("p99_us", 99_000.0);
        near("max_us", 100_000.0);
    }
}
