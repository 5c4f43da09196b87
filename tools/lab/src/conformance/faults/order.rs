// SPDX-License-Identifier: GPL-2.0
//! No packet overtakes an older one of its stream when the ring is full or nearly full.

use std::time::Duration;

use anyhow::Result;
use rig::GuestSetup;
use vsock_peer::plan::{End, Kind};

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::transfer::{Direction, Transfer};

/// A ring in which a zero-copy packet of 64 KiB has just room, and a small one beside it.
const RING: u16 = 32;

/// No fewer than the bytes that a packet has on average, if writes are of mixed sizes.
const MEAN: u64 = 5500;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let small_ring = || GuestSetup::default().ring(RING).without_indirect();
    let case = |name: &str, zerocopy: bool| {
        let name = format!("a ring of {RING} without indirect descriptors, {name}: all in order");
        Case::new(name, move |fixture| order(fixture, zerocopy)).setup(small_ring())
    };
    vec![
        case("writes of 1 B to 64 KiB", false),
        case("the same with MSG_ZEROCOPY", true),
    ]
}

fn order(fixture: &Fixture<'_>, zerocopy: bool) -> Result<()> {
    let packets: u64 = fixture.rounds(2_000, 20_000, 10_000_000);
    let connections = 4;
    let bytes = packets * MEAN / u64::from(connections);
    let mut transfer =
        Transfer::new(Kind::Stream, Direction::FromGuest, 65_536, bytes).over(connections);
    transfer.habits.mixed = true;
    transfer.zerocopy = zerocopy;
    transfer.end = End::HalfClose;
    // A peer that is slow to read keeps the ring full.
    transfer.read_size = 4096;
    transfer.timeout = Duration::from_secs(fixture.rounds(60, 120, 3600));
    fixture.transfer(&transfer)?;
    // The last packets of a connection, and the close behind them.
    for _ in 0..fixture.rounds(3, 10, 200) {
        let mut transfer =
            Transfer::new(Kind::Stream, Direction::FromGuest, 65_536, 300_000).over(8);
        transfer.habits.mixed = true;
        transfer.zerocopy = zerocopy;
        transfer.end = End::Close;
        fixture.transfer(&transfer)?;
    }
    Ok(())
}
