// SPDX-License-Identifier: GPL-2.0
//! What a machine spends on a transfer, as its kernel counts it anyway.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

use crate::threads;

/// The virtio ID of a vsock device.
const VSOCK_DEVICE: &str = "0x0013";

/// Counters of the machine and of this program: as they stand, or the growth between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usage {
    /// Time that all CPUs together were busy, in microseconds (`/proc/stat`).
    pub cpu_us: u64,
    /// Time that this program ran, in microseconds (`getrusage`).
    pub own_us: u64,
    /// Time that the vhost workers of this machine's guests ran, in microseconds (`schedstat`).
    pub vhost_us: u64,
    /// Time that the other threads of these guests ran, their CPUs above all, in microseconds.
    pub guest_us: u64,
    /// Context switches of the machine (`/proc/stat`).
    pub switches: u64,
    /// Interrupts of its vsock device (`/proc/interrupts`); none if it has no such device.
    pub interrupts: Option<u64>,
    /// Interrupts of the CPUs' own timers (`/proc/interrupts`).
    pub timer: u64,
    /// Interrupts that the CPUs sent each other, to wake or call (`/proc/interrupts`).
    pub ipis: u64,
    /// Times that this program blocked, and so was woken (`getrusage`).
    pub wakeups: u64,
}

impl Usage {
    /// The counters as they stand; what cannot be read counts as nothing.
    pub fn now() -> Self {
        // First, as the first look takes a while, which is not to be counted as this program's.
        let (vhost_us, guest_us) = threads::serving_us();
        let own_us = threads::own_us();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let hz = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100);
        let tick_us = 1_000_000 / u64::try_from(hz).unwrap_or(100).max(1);
        let blocked = getrusage(UsageWho::RUSAGE_SELF).map_or(0, |usage| {
            u64::try_from(usage.voluntary_context_switches()).unwrap_or(0)
        });
        let table = fs::read_to_string("/proc/interrupts").unwrap_or_default();
        Self {
            cpu_us: busy_ticks(&stat).unwrap_or(0) * tick_us,
            own_us,
            vhost_us,
            guest_us,
            switches: value(&stat, "ctxt").unwrap_or(0),
            interrupts: vsock_device().map(|device| interrupts(&table, &device)),
            timer: local(&table, "LOC:"),
            ipis: local(&table, "RES:") + local(&table, "CAL:"),
            wakeups: blocked,
        }
    }

    /// The growth since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        let interrupts = self.interrupts.zip(before.interrupts);
        Self {
            cpu_us: grown(self.cpu_us, before.cpu_us),
            own_us: grown(self.own_us, before.own_us),
            vhost_us: grown(self.vhost_us, before.vhost_us),
            guest_us: grown(self.guest_us, before.guest_us),
            switches: grown(self.switches, before.switches),
            interrupts: interrupts.map(|(now, before)| grown(now, before)),
            timer: grown(self.timer, before.timer),
            ipis: grown(self.ipis, before.ipis),
            wakeups: grown(self.wakeups, before.wakeups),
        }
    }
}

/// Ticks of all CPUs in which they were busy: user, which has the guests' in it, nice, system, interrupts
/// and soft interrupts.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|tick| tick.parse().ok())
        .collect();
    match ticks[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, ..] => {
            Some(user + nice + system + irq + softirq)
        }
        _ => None,
    }
}

fn value(stat: &str, name: &str) -> Option<u64> {
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// The kernel's name of the machine's vsock device, such as `virtio2`.
fn vsock_device() -> Option<String> {
    let devices = fs::read_dir("/sys/bus/virtio/devices").ok()?;
    devices.flatten().find_map(|device| {
        let id = fs::read_to_string(device.path().join("device")).ok()?;
        let name = device.file_name().into_string().ok()?;
        (id.trim() == VSOCK_DEVICE).then_some(name)
    })
}

/// The interrupts of all vectors of a virtio device, on all CPUs.
fn interrupts(table: &str, device: &str) -> u64 {
    let prefix = format!("{device}-");
    let of_device = |line: &&str| {
        let name = line.split_whitespace().last();
        name.is_some_and(|name| name.starts_with(&prefix))
    };
    let lines = table.lines().filter(of_device);
    let counts = lines.flat_map(|line| {
        let fields = line.split_whitespace().skip(1);
        fields.map_while(|field| field.parse::<u64>().ok())
    });
    counts.sum()
}

/// The interrupts of a kind that has a name instead of a number, on all CPUs.
fn local(table: &str, name: &str) -> u64 {
    let line = table
        .lines()
        .find(|line| line.trim_start().starts_with(name));
    let fields = line.map(|line| line.split_whitespace().skip(1));
    let counts = fields.map(|fields| fields.map_while(|field| field.parse::<u64>().ok()));
    counts.map_or(0, Iterator::sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_understood() {
        let stat = "cpu  10 2 20 500 7 3 4 9 5 1\ncpu0 5 1 10 250 3 1 2 0 0 0\nctxt 12345\n";
        assert_eq!(busy_ticks(stat), Some(39));
        assert_eq!(value(stat, "ctxt"), Some(12345));
        let table = "           CPU0       CPU1\n \
                     24:          0          1  PCI-MSIX-0000:00:04.0   0-edge      virtio2-config\n \
                     25:        100         23  PCI-MSIX-0000:00:04.0   1-edge      virtio2-rx\n \
                     26:          5          0  PCI-MSIX-0000:00:05.0   1-edge      virtio21-rx\n\
                     LOC:         10          5   Local timer interrupts\n";
        assert_eq!(interrupts(table, "virtio2"), 124);
        assert_eq!((local(table, "LOC:"), local(table, "RES:")), (15, 0));
    }

    #[test]
    fn this_machine_has_been_busy() {
        let before = Usage::now();
        assert!(before.cpu_us > 0 && before.switches > 0);
        let after = Usage::now();
        assert!(after.since(&before).cpu_us <= after.cpu_us);
    }
}
