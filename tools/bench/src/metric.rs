// SPDX-License-Identifier: GPL-2.0
//! The numbers that a sample gives.

use serde::Serialize;

use crate::case::{Case, Way};
use crate::exits;
use crate::sample::Sample;

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Payload over time.
    Throughput,
    /// Connections over time.
    ConnectionRate,
    /// 1st percentile of round trips.
    LatencyP1,
    /// Mean of round trips.
    LatencyMean,
    /// 99th percentile of round trips.
    LatencyP99,
    /// Busy time of all the guest's CPUs for an operation: a write, a round trip, a connection.
    CpuTime,
    /// Time for an operation that the host's threads ran which are the guest.
    GuestTime,
    /// Time for an operation that the program at the other end ran.
    SenderTime,
    /// Time for an operation that the host's vhost worker ran.
    VhostTime,
    /// Busy time of all CPUs at the other end for an operation, with what they ran guests.
    FarTime,
    /// Interrupts of the vsock device.
    Interrupts,
    /// Times that the guest's program was woken.
    Wakeups,
    /// Context switches in the guest.
    Switches,
    /// Times that the host's KVM left the guest.
    Exits,
    /// Notifications of the device.
    Kicks,
    /// Credit updates by the receiver.
    CreditUpdates,
    /// Calls that tell a socket's user that there is data.
    DataReady,
}

impl Metric {
    /// In the order of a report.
    pub(crate) const ALL: [Metric; 17] = [
        Metric::Throughput,
        Metric::ConnectionRate,
        Metric::LatencyP1,
        Metric::LatencyMean,
        Metric::LatencyP99,
        Metric::CpuTime,
        Metric::GuestTime,
        Metric::SenderTime,
        Metric::VhostTime,
        Metric::FarTime,
        Metric::Interrupts,
        Metric::Wakeups,
        Metric::Switches,
        Metric::Exits,
        Metric::Kicks,
        Metric::CreditUpdates,
        Metric::DataReady,
    ];

    /// Its unit. What is counted is counted by the MiB of a transfer, and by the operation where that
    /// has no payload to speak of.
    pub(crate) fn unit(self, case: Case) -> &'static str {
        match self {
            Metric::Throughput => "MiB/s",
            Metric::ConnectionRate => "1/s",
            Metric::LatencyP1 | Metric::LatencyMean | Metric::LatencyP99 => "us",
            Metric::CpuTime
            | Metric::GuestTime
            | Metric::SenderTime
            | Metric::VhostTime
            | Metric::FarTime => match case {
                Case::Stream { .. } | Case::Perf { .. } => "us/write",
                Case::PingPong { .. } => "us/round trip",
                Case::Connect => "us/connection",
            },
            _ => match case {
                Case::Stream { .. } | Case::Perf { .. } => "1/MiB",
                Case::PingPong { .. } => "1/round trip",
                Case::Connect => "1/connection",
            },
        }
    }

    /// Its value in a sample, if that has one. What was sampled with probes gives only what they count.
    pub(crate) fn of(self, sample: &Sample) -> Option<f64> {
        let operations = sample.operations as f64;
        let per_unit = |count: u64| match sample.case {
            Case::Stream { .. } | Case::Perf { .. } => {
                count as f64 / (sample.bytes as f64 / f64::from(1 << 20))
            }
            Case::PingPong { .. } | Case::Connect => count as f64 / operations,
        };
        if let Some(counts) = sample.counts {
            // The stream beside a ping-pong would be counted, too.
            let alone = !matches!(
                sample.case,
                Case::PingPong {
                    beside_bulk: true,
                    ..
                }
            );
            let count = match self {
                Metric::Kicks => Some(counts.kicks),
                Metric::DataReady => counts.calls.map(|calls| calls.data_ready),
                Metric::CreditUpdates => counts.calls.map(|calls| match sample.case {
                    Case::Stream { way, .. } | Case::Perf { way, .. } => match way {
                        Way::ToGuest => calls.updates_sent,
                        Way::FromGuest => calls.updates_received,
                    },
                    _ => calls.updates_sent + calls.updates_received,
                }),
                _ => None,
            };
            return count.filter(|_| alone).map(per_unit);
        }
        let (usage, far) = match sample.case {
            Case::PingPong {
                beside_bulk: true, ..
            } => (None, None),
            _ => (sample.usage, sample.far),
        };
        let latency = sample.latency.as_ref();
        // There is no such thread if it has not run.
        let per_operation = |us: u64| (us > 0).then(|| us as f64 / operations);
        match self {
            Metric::Throughput => match sample.case {
                Case::Stream { .. } | Case::Perf { .. } => {
                    Some(sample.bytes as f64 / f64::from(1 << 20) / sample.seconds)
                }
                _ => None,
            },
            Metric::ConnectionRate => {
                (sample.case == Case::Connect).then(|| operations / sample.seconds)
            }
            Metric::LatencyP1 => latency.map(|latency| latency.p1_us),
            Metric::LatencyMean => latency.map(|latency| latency.mean_us),
            Metric::LatencyP99 => latency.map(|latency| latency.p99_us),
            Metric::CpuTime => usage.map(|usage| usage.cpu_us as f64 / operations),
            Metric::GuestTime => far.and_then(|far| per_operation(far.guest_us)),
            Metric::SenderTime => far.and_then(|far| per_operation(far.own_us)),
            Metric::VhostTime => far.and_then(|far| per_operation(far.vhost_us)),
            Metric::FarTime => far.map(|far| far.cpu_us as f64 / operations),
            Metric::Interrupts => usage.and_then(|usage| usage.interrupts).map(per_unit),
            Metric::Wakeups => usage.map(|usage| per_unit(usage.wakeups)),
            Metric::Switches => usage.map(|usage| per_unit(usage.switches)),
            Metric::Exits => sample
                .exits
                .as_ref()
                .and_then(|exits| exits.get(exits::ALL))
                .map(|&count| per_unit(count)),
            Metric::Kicks | Metric::CreditUpdates | Metric::DataReady => None,
        }
    }
}
