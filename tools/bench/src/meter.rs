// SPDX-License-Identifier: GPL-2.0
//! Counts in the guest's kernel what nothing counts by itself, by tracing.
//!
//! Probes cost time, so what they count is counted in a round of its own, whose times are not used.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::Machine;
use serde::Serialize;

const TRACING: &str = "/sys/kernel/tracing";
const PATIENCE: Duration = Duration::from_secs(30);

/// From `<linux/virtio_vsock.h>`: VIRTIO_VSOCK_OP_CREDIT_UPDATE.
const CREDIT_UPDATE: &str = "6";
/// AF_VSOCK.
const FAMILY: &str = "40";
/// The names that vsock drivers give their queues. Those of other devices' drivers are different.
const QUEUES: [&str; 3] = ["rx", "tx", "event"];

/// An event, what its hits are told apart by, and where it is.
const EVENTS: [(&str, &str); 4] = [
    ("bench/kick", "name"),
    ("vsock/virtio_transport_alloc_pkt", "op"),
    ("vsock/virtio_transport_recv_pkt", "op"),
    ("sock/sk_data_ready", "family"),
];

/// What was counted during a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Notifications of the device by the guest.
    pub kicks: u64,
    /// Credit updates that the guest sent.
    pub updates_sent: u64,
    /// Credit updates that the guest received.
    pub updates_received: u64,
    /// Calls that tell a vsock socket's user that there is data.
    pub data_ready: u64,
}

/// Probes in a guest; the driver must be loaded, and stay so, while they are in use.
#[derive(Debug)]
pub(crate) struct Meter<'a>(&'a Machine);

impl<'a> Meter<'a> {
    /// Lays the probes and begins to count.
    pub(crate) fn begin(guest: &'a Machine) -> Result<Self> {
        // The first argument is a struct virtqueue, with its name after a list head and a pointer.
        let script = format!(
            "test -e {TRACING}/kprobe_events || mount -t tracefs tracefs {TRACING}\n\
             cd {TRACING}\n\
             echo 'p:bench/kick vp_notify name=+0(+24(%di)):string' > kprobe_events\n\
             {}",
            on_each("echo 'hist:keys=KEY' > events/EVENT/trigger\n")
        );
        shell(guest, &script).context("laying probes in the guest's kernel")?;
        Ok(Meter(guest))
    }

    /// Reads the counts and takes the probes away.
    pub(crate) fn end(self) -> Result<Counts> {
        let script = format!(
            "cd {TRACING}\n\
             {}{}\
             echo > kprobe_events\n",
            on_each("echo event EVENT; cat events/EVENT/hist\n"),
            on_each("echo '!hist:keys=KEY' > events/EVENT/trigger\n")
        );
        let text = shell(self.0, &script).context("reading the probes in the guest's kernel")?;
        Ok(parse(&text))
    }
}

fn on_each(line: &str) -> String {
    let lines = EVENTS.map(|(event, key)| line.replace("KEY", key).replace("EVENT", event));
    lines.concat()
}

fn shell(guest: &Machine, script: &str) -> Result<String> {
    let output = guest.run(["sh", "-ec", script], PATIENCE)?;
    Ok(output.success()?.text())
}

/// Understands the histograms: lines such as `{ op:          5 } hitcount:        123`.
fn parse(text: &str) -> Counts {
    let mut counts = Counts::default();
    let mut event = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("event ") {
            event = name;
            continue;
        }
        let hits = || {
            let (key, hits) = line.strip_prefix('{')?.split_once("} hitcount:")?;
            let key = key.split_once(':')?.1.trim();
            Some((key, hits.trim().parse::<u64>().ok()?))
        };
        let Some((key, hits)) = hits() else { continue };
        match event {
            "bench/kick" if QUEUES.contains(&key) => counts.kicks += hits,
            "vsock/virtio_transport_alloc_pkt" if key == CREDIT_UPDATE => {
                counts.updates_sent += hits;
            }
            "vsock/virtio_transport_recv_pkt" if key == CREDIT_UPDATE => {
                counts.updates_received += hits;
            }
            "sock/sk_data_ready" if key == FAMILY => counts.data_ready += hits,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_understood() {
        let text = "event bench/kick\n# event histogram\n\n\
            { name: rx                                                 } hitcount:         12\n\
            { name: output.0                                           } hitcount:        999\n\
            { name: tx                                                 } hitcount:          3\n\
            \nTotals:\n    Hits: 1014\n\
            event vsock/virtio_transport_alloc_pkt\n\
            { op:          5 } hitcount:        100\n{ op:          6 } hitcount:          4\n\
            event vsock/virtio_transport_recv_pkt\n{ op:          6 } hitcount:          2\n\
            event sock/sk_data_ready\n{ family:         40 } hitcount:         77\n\
            { family:          1 } hitcount:          5\n";
        let expected = Counts {
            kicks: 15,
            updates_sent: 4,
            updates_received: 2,
            data_ready: 77,
        };
        assert_eq!(parse(text), expected);
    }
}
