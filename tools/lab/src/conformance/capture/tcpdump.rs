// SPDX-License-Identifier: GPL-2.0
//! Debian's tcpdump on a vsockmon device of the guest.

use std::sync::LazyLock;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use regex::Regex;
use rig::Job;

use crate::case::fixture::{PATIENCE, until};
use crate::conformance::debian::Debian;

const FILE: &str = "/tmp/vsockmon.pcap";
const DEVICE: &str = "vsockmon0";

/// What tcpdump prints when it is asked how far it is, and at its end.
static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
    let counts =
        r"(?s)(\d+) packets? captured\D+(\d+) packets? received by filter\D+(\d+) packets? dropped";
    Regex::new(counts).expect("a fixed pattern")
});

/// A capture under way.
pub(super) struct Tcpdump<'a, 'm> {
    debian: &'a Debian<'m>,
    job: Job,
}

/// A capture that has ended.
pub(super) struct Caught {
    /// The file.
    pub file: Vec<u8>,
    /// The packets that tcpdump itself decodes.
    pub decoded: usize,
}

/// How far tcpdump is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    captured: u64,
    received: u64,
    dropped: u64,
}

impl<'a, 'm> Tcpdump<'a, 'm> {
    /// Captures everything from when this returns.
    pub(super) fn start(debian: &'a Debian<'m>) -> Result<Self> {
        debian.machine().need("vsockmon")?;
        debian.sh(&format!(
            "ip link add {DEVICE} type vsockmon; ip link set {DEVICE} up"
        ))?;
        // With a buffer of 64 MiB, an emulated guest drops nothing.
        let line = format!("exec tcpdump -i {DEVICE} -U -s 0 -B 65536 -w {FILE} 2>&1");
        let mut job = debian.start(&line)?;
        job.wait_line("that it captures", PATIENCE, |line| {
            line.contains("listening on").then_some(())
        })?;
        Ok(Self { debian, job })
    }

    /// Ends it when it has written all that there was, and lets tcpdump decode what it wrote.
    pub(super) fn finish(self) -> Result<Caught> {
        let counts = self.settle();
        let ended = self.end();
        self.debian.sh(&format!("ip link delete {DEVICE}"))?;
        let counts = counts?;
        ended?;
        ensure!(
            counts.dropped == 0,
            "the capture is not whole, it says nothing of the driver: {counts:?}"
        );
        let decoded = self.debian.sh(&format!("tcpdump -n -t -r {FILE}"))?;
        let strange = decoded.lines().find(|line| !is_decoded(line));
        if let Some(line) = strange {
            anyhow::bail!("tcpdump does not know what to make of a packet: {line}");
        }
        let file = self.debian.read(FILE)?;
        Ok(Caught {
            file,
            decoded: decoded.lines().count(),
        })
    }

    /// Waits until nothing new comes and all that came is written.
    fn settle(&self) -> Result<Counts> {
        let mut last = None;
        until("tcpdump to have written everything", PATIENCE, || {
            let asked = self.counts_printed();
            self.job.signal(Signal::SIGUSR1)?;
            let counts = until("tcpdump to say how far it is", PATIENCE, || {
                let counts = self.counts();
                Ok((counts.len() > asked)
                    .then(|| counts.last().copied())
                    .flatten())
            })?;
            let settled = counts.captured == counts.received && last == Some(counts);
            last = Some(counts);
            Ok(settled.then_some(counts))
        })
    }

    fn counts_printed(&self) -> usize {
        self.counts().len()
    }

    fn counts(&self) -> Vec<Counts> {
        counts(&String::from_utf8_lossy(&self.job.said().0))
    }

    fn end(&self) -> Result<()> {
        self.job.signal(Signal::SIGINT)?;
        until("the end of tcpdump", PATIENCE, || Ok(self.job.exit()))
            .and_then(|exit| {
                ensure!(exit.success(), "tcpdump: {exit}: {}", self.job.tail());
                Ok(())
            })
            .context("ending the capture")
    }
}

fn counts(said: &str) -> Vec<Counts> {
    let counts = |found: regex::Captures<'_>| {
        let number = |group: usize| found[group].parse().ok();
        Some(Counts {
            captured: number(1)?,
            received: number(2)?,
            dropped: number(3)?,
        })
    };
    COUNTS.captures_iter(said).filter_map(counts).collect()
}

/// Whether it is the line of a packet that tcpdump understands.
fn is_decoded(line: &str) -> bool {
    static DECODED: LazyLock<Regex> = LazyLock::new(|| {
        let line = r"^VIRTIO \d+\.\d+ > \d+\.\d+ (CONNECT|DISCONNECT|CONTROL|PAYLOAD), length \d+$";
        Regex::new(line).expect("a fixed pattern")
    });
    DECODED.is_match(line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_counts_are_understood() {
        let said = "tcpdump: 1 packet captured, 2 packets received by filter, 0 packets dropped by kernel\n\
                    12 packets captured\n12 packets received by filter\n3 packets dropped by kernel\n";
        let found = counts(said);
        let told: Vec<[u64; 3]> = found
            .iter()
            .map(|counts| [counts.captured, counts.received, counts.dropped])
            .collect();
        assert_eq!(told, [[1, 2, 0], [12, 12, 3]]);
    }

    #[test]
    fn what_is_not_understood_is_told_from_what_is() {
        assert!(is_decoded("VIRTIO 3.1024 > 4.1234 PAYLOAD, length 1076"));
        assert!(!is_decoded("VIRTIO 3.1024 > 4.1234 UNKNOWN, length 76"));
        assert!(!is_decoded("[|vsock]"));
    }
}
