// SPDX-License-Identifier: GPL-2.0
//! Rounds of one event under traffic, with a look at what they leave behind.

use anyhow::{Context as _, Result, ensure};
use rig::Machine;

use super::traffic::{Shape, Traffic};
use crate::case::fixture::Fixture;
use crate::case::memory::Memory;

/// Kilobytes by which the pages that nothing accounts for may grow in all rounds together: as many as one RX
/// ring's buffers, which are 128 pages. In rounds that leak nothing they change by up to 250.
const PAGES_MAY_GROW: u64 = 512;

/// Objects of a kind that may come and go with anything else that the guest does, a slab or two: only
/// long runs show leaks of a few objects a round.
const NOISE: usize = 100;

/// Repeats an event under traffic. Before, in the middle and at the end, with the traffic ended and the
/// driver unloaded, what is in use of the guest's memory and sockets is looked at.
pub(super) fn rounds(
    fixture: &Fixture<'_>,
    shape: Shape,
    count: usize,
    event: impl Fn(&mut Traffic<'_>) -> Result<()>,
) -> Result<()> {
    rounds_with(fixture, shape, &[fixture.guest().cid()], count, event)
}

/// The same with a guest that can be reached under one of several addresses.
pub(super) fn rounds_with(
    fixture: &Fixture<'_>,
    shape: Shape,
    cids: &[u32],
    count: usize,
    event: impl Fn(&mut Traffic<'_>) -> Result<()>,
) -> Result<()> {
    // The first rounds fill caches that stay.
    let warm = (count / 5).max(1);
    let half = (count - warm).div_ceil(2);
    let mut round = 0;
    leaves_nothing(fixture, warm, half, |count| {
        let mut traffic = Traffic::begin(fixture, shape, cids)?;
        for _ in 0..count {
            round += 1;
            event(&mut traffic).with_context(|| format!("in round {round}"))?;
        }
        traffic
            .end()
            .with_context(|| format!("the traffic of the rounds up to {round}"))
    })
}

/// Does something `warm` times, and then twice `half` times, and fails if what is in use with the driver
/// unloaded grew steadily from one look after it to the next.
pub(in crate::conformance) fn leaves_nothing(
    fixture: &Fixture<'_>,
    warm: usize,
    half: usize,
    mut stretch: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let mut look = |count| {
        stretch(count)?;
        Left::behind(fixture)
    };
    let (first, second, third) = (look(warm)?, look(half)?, look(half)?);
    first.compare(&second, &third, half)
}

/// What is in use with the driver unloaded.
struct Left {
    memory: Memory,
    sockets: u64,
}

impl Left {
    /// Looks, and loads the driver again.
    fn behind(fixture: &Fixture<'_>) -> Result<Self> {
        let guest = fixture.guest();
        fixture.unload()?;
        let left = Self {
            memory: Memory::of(guest)?,
            sockets: number(guest, "/proc/net/sockstat", "sockets: used")?,
        };
        fixture.reload([])?;
        Ok(left)
    }

    /// Fails if something grew steadily from one look to the next, of which each two have so many
    /// rounds between them.
    fn compare(&self, middle: &Self, end: &Self, rounds: usize) -> Result<()> {
        let points = [self, middle, end].map(|left| left.memory.clone());
        let mut lost = Memory::lost(&points, rounds.max(NOISE));
        if end.sockets > self.sockets {
            lost.push(format!("sockets: {}, then {}", self.sockets, end.sockets));
        }
        let pages = [self, middle, end].map(|left| left.memory.unaccounted());
        let [first, half, last] = pages;
        if first + PAGES_MAY_GROW < last && first < half && half < last {
            lost.push(format!(
                "pages that nothing accounts for: {first}, then {half}, then {last} kB"
            ));
        }
        ensure!(
            lost.is_empty(),
            "left behind by each {rounds} rounds:\n{}",
            lost.join("\n")
        );
        Ok(())
    }
}

/// The number that stands behind a name in a file of the kernel.
fn number(machine: &Machine, path: &str, name: &str) -> Result<u64> {
    let text = machine.read_text(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    let number = word.and_then(|word| word.parse().ok());
    number.with_context(|| format!("no {name:?} in {path}:\n{text}"))
}
