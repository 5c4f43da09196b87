// SPDX-License-Identifier: GPL-2.0
//! Which of the guest's CPUs a program runs on, and which takes the interrupts.
//!
//! A program beside the work that the interrupts start, and one on a CPU of its own, differ by far more
//! than any two drivers, and which it is to be the scheduler decides by chance. Here it is the rounds
//! that decide: in as many the one as the other.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::{Machine, Program};
use serde::Serialize;

use crate::case::Case;

/// Setting it up only writes a few files.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has the interrupts of the guest's vsock devices, by their type's number in the standard, go to the
/// CPU `$1`.
const BIND: &str = r#"
    for device in /sys/bus/virtio/devices/*; do
        [ "$(cat $device/device)" = 0x0013 ] || continue
        grep "${device##*/}-" /proc/interrupts
    done | while IFS=' :' read -r number rest; do
        echo "$1" > /proc/irq/$number/smp_affinity_list && echo "$number"
    done"#;

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Placement {
    /// Wherever the scheduler likes.
    Free,
    /// On a CPU that takes no interrupts of the device.
    Apart,
    /// On the CPU that takes them.
    Together,
}

impl Placement {
    /// That of a case in a round: for what is one program with one connection, two rounds apart and
    /// two together, so that each comes with every order of the drivers.
    pub(crate) fn of(case: Case, round: u32) -> Self {
        let one = match case {
            Case::Stream { streams, .. } => streams == 1,
            Case::PingPong { beside_bulk, .. } => !beside_bulk,
            Case::Perf { .. } | Case::Connect => true,
        };
        match (one, round / 2 % 2) {
            (false, _) => Placement::Free,
            (true, 0) => Placement::Apart,
            (true, _) => Placement::Together,
        }
    }

    /// The CPU that it names in a guest of so many, if it names one.
    pub(crate) fn cpu(self, cpus: u32) -> Option<u32> {
        match self {
            Placement::Free => None,
            Placement::Apart => (cpus > 1).then_some(0),
            Placement::Together => Some(interrupted(cpus)),
        }
    }
}

/// A program on this CPU, or on any.
pub(crate) fn program(name: &str, cpu: Option<u32>) -> Program {
    match cpu {
        Some(cpu) => Program::new("taskset").args(["-c", &cpu.to_string(), name]),
        None => Program::new(name),
    }
}

/// The CPU that takes the interrupts.
fn interrupted(cpus: u32) -> u32 {
    cpus.saturating_sub(1)
}

/// Has the interrupts of the guest's vsock device, whose driver was just loaded, go to one CPU.
pub(crate) fn bind_interrupts(guest: &Machine, cpus: u32) -> Result<()> {
    let cpu = interrupted(cpus).to_string();
    let program = Program::new("sh").args(["-c", BIND, "sh", &cpu]);
    let bound = guest.run(program, PATIENCE)?.success()?.text();
    let mut lines = bound.lines();
    lines.next().map(drop).with_context(|| {
        format!("no interrupt of the vsock device could be bound to CPU {cpu} in the guest")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Reads, Way};

    #[test]
    fn single_connections_are_placed_in_turn() {
        let stream = |streams| Case::Stream {
            way: Way::FromGuest,
            write_size: 64,
            reads: Reads::Fixed,
            streams,
        };
        let placed = |case| (0..8).map(move |round| Placement::of(case, round));
        use Placement::{Apart, Free, Together};
        let turns = [Apart, Apart, Together, Together].repeat(2);
        assert_eq!(placed(stream(1)).collect::<Vec<_>>(), turns);
        assert_eq!(placed(Case::Connect).collect::<Vec<_>>(), turns);
        assert!(placed(stream(2)).all(|placement| placement == Free));
    }

    #[test]
    fn a_guest_with_one_cpu_has_no_other() {
        assert_eq!(Placement::Apart.cpu(2), Some(0));
        assert_eq!(Placement::Together.cpu(2), Some(1));
        assert_eq!(Placement::Apart.cpu(1), None);
        assert_eq!(Placement::Together.cpu(1), Some(0));
        assert_eq!(Placement::Free.cpu(4), None);
    }
}
