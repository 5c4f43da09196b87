// SPDX-License-Identifier: GPL-2.0
//! A device that asks for replies and takes none.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rig::{GuestSetup, RigKind};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::conformance::device::Device;
use crate::transfer::{Direction, Transfer, smoke};

/// Packets that belong to no connection, each of which the guest owes a reset; many more than it may
/// take before the device has taken replies.
const ASKING: &str = "
deaf
repeat 1000000
  send src_port=1 dst_port=1
end
";

/// Entries of each of the device's rings.
const RING: u64 = 128;

/// Packets that a guest takes at most without a reply being taken: so many have their reply in the TX
/// ring, as many wait for room in it, and as many again fill the RX ring. One ring more is for what the
/// transfers beside them have, and for packets whose replies a worker has in its hands.
const MOST: u64 = 4 * RING;

/// How long nothing is taken by a guest that has stopped to.
const STILL: Duration = Duration::from_secs(1);

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Fixture<'_>) -> Result<()>| {
        // With an interrupt for both queues, taking the replies would have the driver look for packets,
        // whether it starts to receive again by itself or not.
        let setup = GuestSetup::default().own_interrupts();
        Case::new(name, run).setup(setup).only_on([RigKind::Wire])
    };
    vec![
        case(
            "replies that the device does not take stop the guest, which goes on by itself after that",
            pile_up,
        ),
        case(
            "the same beside a transfer, which stands still meanwhile and loses nothing",
            beside_a_transfer,
        ),
    ]
}

fn pile_up(fixture: &Fixture<'_>) -> Result<()> {
    for round in 1..=fixture.rounds(1, 5, 50) {
        let device = Device::of(fixture)?;
        // Before the script begins: it may have got everything in before it is asked for again.
        let before = device.counts()?.filled()?;
        let asking = device.run(ASKING)?;
        let stopped = stops(device, before).with_context(|| format!("in round {round}"));
        // From here on the device takes what is sent to it.
        drop(asking);
        stopped?;
        // The far side begins, so that it is the guest's receiving that has to go on.
        for transfer in smoke() {
            fixture
                .transfer(&transfer)
                .with_context(|| format!("after round {round}"))?;
        }
    }
    Ok(())
}

fn beside_a_transfer(fixture: &Fixture<'_>) -> Result<()> {
    for round in 1..=fixture.rounds(1, 3, 30) {
        let bytes = fixture.rounds(4 << 20, 8 << 20, 64 << 20);
        let transfer = Transfer::new(Kind::Stream, Direction::BothWays, 4096, bytes);
        let running = fixture.begin(&transfer)?;
        let device = Device::of(fixture)?;
        let asking = device.run(ASKING)?;
        let stopped = until_still(device).with_context(|| format!("in round {round}"));
        drop(asking);
        stopped?;
        running
            .finish()
            .with_context(|| format!("{transfer}, in round {round}"))?;
    }
    Ok(())
}

/// Waits until the guest takes no more, which has to be before it has taken too much since the device
/// had filled `before`.
fn stops(device: Device<'_>, before: u64) -> Result<()> {
    let taken = until_still(device)? - before;
    ensure!(
        (RING..=MOST).contains(&taken),
        "the guest stopped after {taken} packets that it owes replies for, not within {MOST}"
    );
    Ok(())
}

/// Waits until the device finds no more buffers; returns how many it has filled in all.
fn until_still(device: Device<'_>) -> Result<u64> {
    let mut seen = (device.counts()?.filled()?, Instant::now());
    until("the guest to take no more", PATIENCE, || {
        let filled = device.counts()?.filled()?;
        if filled != seen.0 {
            seen = (filled, Instant::now());
        }
        Ok((seen.1.elapsed() > STILL).then_some(filled))
    })
}
