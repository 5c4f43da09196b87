// SPDX-License-Identifier: GPL-2.0
//! Counts what nothing counts by itself, by tracing.
//!
//! Probes cost time, so what they count is counted in a round of its own, whose times are not used.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::{Machine, RigKind};
use serde::Serialize;

use crate::site::Site;

const TRACING: &str = "/sys/kernel/tracing";
const PATIENCE: Duration = Duration::from_secs(30);

/// From `<linux/virtio_vsock.h>`: VIRTIO_VSOCK_OP_CREDIT_UPDATE.
const CREDIT_UPDATE: &str = "6";
/// AF_VSOCK.
const FAMILY: &str = "40";
/// The names that vsock drivers give their queues. Those of other devices' drivers are different.
const QUEUES: [&str; 3] = ["rx", "tx", "event"];

/// An event, and what its hits are told apart by.
type Event = (&'static str, &'static str);

const KICK: &str = "bench/kick";
const ALLOC: &str = "vsock/virtio_transport_alloc_pkt";
const RECEIVE: &str = "vsock/virtio_transport_recv_pkt";
const READY: &str = "sock/sk_data_ready";

/// What is probed in a guest. The first argument of `vp_notify()` is a struct virtqueue, with its name
/// after a list head and a pointer.
const IN_GUEST: Probes = Probes {
    kick: "p:bench/kick vp_notify name=+0(+24(%di)):string",
    events: &[
        (KICK, "name"),
        (ALLOC, "op"),
        (RECEIVE, "op"),
        (READY, "family"),
    ],
};
/// What is probed in a guest's host instead, when the guest is a nested one: an emulated nested guest
/// now and then reboots when its kernel changes its own code, which probes and tracepoints do. KVM
/// signals a notification to the eventfd that vhost polls; the second argument is the poll's mode.
const IN_HOST: Probes = Probes {
    kick: "p:bench/kick vhost_poll_wakeup mode=%si:u32",
    events: &[(KICK, "mode")],
};

struct Probes {
    kick: &'static str,
    events: &'static [Event],
}

impl Probes {
    /// A line of shell for each event.
    fn each(&self, line: &str) -> String {
        let lines = self
            .events
            .iter()
            .map(|(event, key)| line.replace("KEY", key).replace("EVENT", event));
        lines.collect()
    }
}

/// What was counted during a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Notifications of the device by the guest.
    pub kicks: u64,
    /// What else, if the guest itself was probed.
    pub calls: Option<Calls>,
}

/// What is called in a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Calls {
    /// Credit updates that the guest sent.
    pub updates_sent: u64,
    /// Credit updates that the guest received.
    pub updates_received: u64,
    /// Calls that tell a vsock socket's user that there is data.
    pub data_ready: u64,
}

/// Probes at work; the driver must be loaded, and stay so, while they are.
pub(crate) struct Meter<'a> {
    machine: &'a Machine,
    probes: Probes,
}

impl<'a> Meter<'a> {
    /// Lays the probes and begins to count.
    pub(crate) fn begin(site: Site<'a>, kind: RigKind) -> Result<Self> {
        let (machine, probes) = match (site, kind) {
            (Site::Pair(pair), RigKind::Nested) => (pair.far(), IN_HOST),
            _ => (site.guest(), IN_GUEST),
        };
        let script = format!(
            "test -e {TRACING}/kprobe_events || mount -t tracefs tracefs {TRACING}\n\
             cd {TRACING}\n\
             echo '{}' > kprobe_events\n\
             {}",
            probes.kick,
            probes.each("echo 'hist:keys=KEY' > events/EVENT/trigger\n")
        );
        shell(machine, &script).context("laying probes in the kernel")?;
        Ok(Meter { machine, probes })
    }

    /// Reads the counts and takes the probes away.
    pub(crate) fn end(self) -> Result<Counts> {
        let script = format!(
            "cd {TRACING}\n\
             {}{}\
             echo > kprobe_events\n",
            self.probes
                .each("echo event EVENT; cat events/EVENT/hist\n"),
            self.probes
                .each("echo '!hist:keys=KEY' > events/EVENT/trigger\n")
        );
        let text = shell(self.machine, &script).context("reading the probes in the kernel")?;
        Ok(parse(&text))
    }
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
            if event != KICK {
                counts.calls.get_or_insert_default();
            }
            continue;
        }
        let hits = || {
            let (key, hits) = line.strip_prefix('{')?.split_once("} hitcount:")?;
            let (field, key) = key.split_once(':')?;
            Some((field.trim(), key.trim(), hits.trim().parse::<u64>().ok()?))
        };
        let Some((field, key, hits)) = hits() else {
            continue;
        };
        match (event, &mut counts.calls) {
            (KICK, _) if field != "name" || QUEUES.contains(&key) => counts.kicks += hits,
            (ALLOC, Some(calls)) if key == CREDIT_UPDATE => calls.updates_sent += hits,
            (RECEIVE, Some(calls)) if key == CREDIT_UPDATE => calls.updates_received += hits,
            (READY, Some(calls)) if key == FAMILY => calls.data_ready += hits,
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
        let calls = Calls {
            updates_sent: 4,
            updates_received: 2,
            data_ready: 77,
        };
        let expected = Counts {
            kicks: 15,
            calls: Some(calls),
        };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_hosts_histogram_is_understood() {
        let text = "event bench/kick\n{ mode:          1 } hitcount:         12\n";
        let expected = Counts {
            kicks: 12,
            calls: None,
        };
        assert_eq!(parse(text), expected);
    }
}
