// SPDX-License-Identifier: GPL-2.0
//! Allocations that fail: each of the probe once, those of traffic one by one, and all of them for a
//! while. Afterwards traffic goes on without the driver being loaded anew.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::GuestSetup;
use vsock_peer::plan::Kind;

use super::faults::Faults;
use super::leaks;
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, Subject, until};
use crate::transfer::{Direction, Transfer};

/// How long all allocations fail in the middle of a flood.
const DROUGHT: Duration = Duration::from_secs(2);

/// Rings that are filled by few allocations, each of which costs a probe, and a probe on a debug kernel a
/// second.
const RING: u16 = 16;

/// Fails are spread by these intervals over what the driver allocates.
const INTERVALS: [u32; 12] = [1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31];

/// Allocations tried in one go in the guest.
const STRIDE: u32 = 20;

/// More than any probe makes.
const MOST: u32 = 5000;

/// How many of the probes that came through in spite of a failure are tried with traffic.
const SAMPLES: usize = 8;

/// The kernel tells of a failed allocation at length; what a checker says is a fault all the same.
const ANYTHING: [&str; 1] = [""];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Fixture<'_>) -> Result<()>| {
        Case::new(name, move |fixture| leaks::around(fixture, || run(fixture))).provokes(ANYTHING)
    };
    vec![
        case("each allocation of the probe fails once", probe)
            .setup(GuestSetup::default().ring(RING)),
        case(
            "allocations beneath the driver fail one by one under traffic, which stays exact",
            one_by_one,
        ),
        case(
            "all allocations beneath the driver fail for two seconds of a flood, which goes on",
            drought,
        ),
    ]
}

/// What came of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Probe {
    /// The number of the allocation that was to fail.
    number: u32,
    /// That allocation was made.
    reached: bool,
    /// The driver took the device.
    bound: bool,
}

/// Binds the device `count` times, each time with another allocation failing. The shell counts
/// allocations of its own between setting the number and writing: it makes none.
fn script(driver: &str, device: &str, first: u32, count: u32) -> String {
    let end = first + count;
    format!(
        "cd /sys/bus/virtio/drivers/{driver}
        n={first}
        while [ $n -lt {end} ]; do
            exec 3<>/proc/self/fail-nth 4>bind
            echo $n >&3
            echo {device} >&4
            read left <&3
            echo 0 >&3
            exec 3>&- 4>&-
            bound=0
            if [ -e {device} ]; then bound=1; echo {device} > unbind; fi
            echo \"probe $n $left $bound\"
            n=$((n + 1))
        done"
    )
}

fn parse(text: &str) -> Result<Vec<Probe>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("probe "));
    let probe = |line: &str| -> Result<Probe> {
        let numbers: Result<Vec<u32>, _> = line.split(' ').map(str::parse).collect();
        let [number, left, bound] = numbers.context("a probe's line")?[..] else {
            anyhow::bail!("not a probe's line: {line}");
        };
        Ok(Probe {
            number,
            reached: left == 0,
            bound: bound == 1,
        })
    };
    lines.map(probe).collect()
}

fn probe(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let driver = fixture.subject.driver();
    let driver = driver.name();
    let device = fixture.device()?;
    let _faults = Faults::new(fixture)?;
    fixture.unbind(&device)?;
    let mut probes = Vec::new();
    for first in (1..MOST).step_by(STRIDE as usize) {
        let line = script(driver, &device, first, STRIDE);
        let output = guest.run(["sh", "-c", &line], PATIENCE)?;
        // What the shell says of refused binds.
        let said = output.errors();
        let odd = said.lines().find(|line| {
            !line.contains("Cannot allocate memory") && !line.contains("Out of memory")
        });
        if let Some(odd) = odd {
            anyhow::bail!("a bind whose allocation failed ends otherwise than by ENOMEM: {odd}");
        }
        let text = output.success()?.text();
        probes.extend(parse(&text)?);
        if probes.last().is_some_and(|probe: &Probe| !probe.reached) {
            break;
        }
    }
    let reached = probes.iter().filter(|probe| probe.reached).count();
    ensure!(reached > 20, "only {reached} allocations failed");
    let whole = probes
        .last()
        .is_some_and(|probe| !probe.reached && probe.bound);
    ensure!(
        whole,
        "a probe with no failure left did not take the device"
    );
    // One that came through has to work, or to mend itself.
    let through: Vec<u32> = probes
        .iter()
        .filter(|probe| probe.reached && probe.bound)
        .map(|probe| probe.number)
        .collect();
    for number in through
        .iter()
        .step_by(through.len().div_ceil(SAMPLES).max(1))
    {
        let line = format!(
            "exec 3<>/proc/self/fail-nth 4>/sys/bus/virtio/drivers/{driver}/bind
            echo {number} >&3; echo {device} >&4; echo 0 >&3"
        );
        fixture.guest_shell(&line)?;
        fixture
            .works()
            .with_context(|| format!("with allocation {number} of the probe failed"))?;
        fixture.unbind(&device)?;
    }
    fixture.bind(&device)?;
    moves_bytes(fixture)
}

/// A transfer of small packets both ways over several connections, which goes on for a while.
fn flood() -> Transfer {
    let mut flood = Transfer::new(Kind::Stream, Direction::BothWays, 1000, 4 << 20).over(4);
    flood.timeout = Duration::from_secs(150);
    flood
}

fn moves_bytes(fixture: &Fixture<'_>) -> Result<()> {
    fixture
        .works()
        .context("after allocations had failed, without a reload")
}

/// Waits until the connections of a transfer stand: what fails before may refuse them, rightly.
fn stands(fixture: &Fixture<'_>, connections: u64) -> Result<()> {
    let name = fixture.subject.driver().name().to_owned();
    until("the connections to stand", PATIENCE, || {
        let modules = fixture.guest().modules()?;
        let held = |info: &rig::ModuleInfo| info.name == name && info.references >= connections;
        Ok(modules.iter().any(held).then_some(()))
    })
}

fn one_by_one(fixture: &Fixture<'_>) -> Result<()> {
    let faults = Faults::new(fixture)?;
    faults.only_beneath(fixture.subject.driver().name())?;
    let flood = flood();
    let running = fixture.begin(&flood)?;
    stands(fixture, 4)?;
    let mut failed = 0;
    for interval in INTERVALS {
        faults.on(interval, 1)?;
        let hit = until("an allocation to fail", Duration::from_secs(2), || {
            let ended = running.guest.exit().is_some();
            Ok((ended || faults.left()? < 2).then_some(!ended))
        });
        failed += usize::from(hit.unwrap_or(false));
        faults.off()?;
    }
    running.finish()?;
    ensure!(failed > 0, "nothing that the driver allocates has failed");
    drop(faults);
    moves_bytes(fixture)
}

fn drought(fixture: &Fixture<'_>) -> Result<()> {
    let faults = Faults::new(fixture)?;
    faults.only_beneath(fixture.subject.driver().name())?;
    let before = match fixture.subject {
        Subject::Rust => Some(fixture.counters()?),
        Subject::C => None,
    };
    let flood = flood();
    let running = fixture.begin(&flood)?;
    stands(fixture, 4)?;
    faults.on(1, -1)?;
    std::thread::sleep(DROUGHT);
    faults.off()?;
    let over = running.guest.exit().is_some();
    ensure!(!over, "the flood was over before the drought was");
    let finished = running.finish();
    if let Some(before) = before {
        let added = fixture.counters()?.since(&before);
        let hit = added.get("rx_refill_failed")? + added.get("tx_direct_full")?;
        ensure!(hit > 0, "no allocation failed: {}", added.shown());
    }
    finished?;
    drop(faults);
    moves_bytes(fixture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_read() {
        let probes = parse("probe 1 0 0\nnoise\nprobe 2 1 1\n").unwrap();
        assert_eq!(probes.len(), 2);
        assert!(probes[0].reached && !probes[0].bound);
        assert!(!probes[1].reached && probes[1].bound);
        assert!(parse("probe 1 0\n").is_err());
    }
}
