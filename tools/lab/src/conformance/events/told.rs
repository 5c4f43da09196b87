// SPDX-License-Identifier: GPL-2.0
//! The device tells of a TRANSPORT_RESET, or of something like it, by the event queue.

use anyhow::{Context as _, Result, ensure};
use rig::{GuestSetup, RigKind};
use vsock_peer::plan::Kind;

use super::blocked::{AllBlocked, SILENT};
use super::heard::{resets, shows};
use super::rounds::rounds_with;
use super::traffic::BULK;
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::conformance::device::Device;
use crate::transfer::{Direction, Transfer};

/// The CID with which the guest begins, and another one.
const CIDS: [u32; 2] = [3, 7];

/// Three resets in a row, as soon as a program of the guest is about to wait for that host. The last leaves
/// the guest the CID that it had.
const THREE_IN_A_ROW: &str = "
    accept a at=5000 answer=no
    event cid=7
    event
    event cid=3";

/// Events that are none: of every other length, and of other numbers.
const MALFORMED: &str = "
    repeat 500
      event used=0
      event used=3
      event used=5
      event used=max
      event id=1
      event id=max
      event id=max used=3
    end";

/// Resets, one after the other as fast as the guest has buffers for them.
const FLOOD: u64 = 5000;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "told of a transport reset and another CID again and again under traffic, the next connections work",
            under_traffic,
        )
        .debug(),
        Case::new(
            "told of three transport resets in a row, blocked calls come back and a listener keeps working",
            blocked,
        )
        .debug(),
        Case::new(
            "events of a wrong length and unknown events change nothing, however many",
            malformed,
        )
        .debug(),
        Case::new("a flood of transport resets ends, and then all works", flood).debug(),
    ];
    let cases = cases.into_iter().map(|case| {
        // A device with rings of a size that is asked for is one whose event queue leaves QEMU.
        let setup = GuestSetup::default().ring(128);
        case.only_on([RigKind::Wire]).setup(setup)
    });
    cases.collect()
}

fn under_traffic(fixture: &Fixture<'_>) -> Result<()> {
    rounds_with(
        fixture,
        BULK,
        &CIDS,
        fixture.rounds(2, 10, 100),
        |traffic| {
            // It ends with the CID that it began with: two resets a round.
            for cid in [CIDS[1], CIDS[0]] {
                let before = traffic.seen()?;
                tell(fixture, &format!("event cid={cid}"), 1)?;
                fixture.guest().set_cid(cid);
                shows(fixture, cid)?;
                traffic.flows("traffic under the new CID", &before)?;
            }
            Ok(())
        },
    )
}

fn blocked(fixture: &Fixture<'_>) -> Result<()> {
    for round in 1..=fixture.rounds(1, 5, 50) {
        let thrice = || -> Result<()> {
            let device = Device::of(fixture)?;
            let before = resets(fixture)?;
            let script = device.run(THREE_IN_A_ROW)?;
            let blocked = AllBlocked::begin(fixture, SILENT)?;
            device.finish(script, PATIENCE)?;
            counted(fixture, before, 3)?;
            shows(fixture, CIDS[0])?;
            blocked.all_woken(fixture, "ECONNRESET")?;
            fixture.works()
        };
        thrice().with_context(|| format!("in round {round}"))?;
    }
    Ok(())
}

fn malformed(fixture: &Fixture<'_>) -> Result<()> {
    let bytes = fixture.rounds(1 << 20, 8 << 20, 64 << 20);
    let transfer = Transfer::new(Kind::Stream, Direction::BothWays, 4096, bytes);
    let running = fixture.begin(&transfer)?;
    let told = tell(fixture, MALFORMED, 0);
    // It would not survive a reset.
    let moved = running.finish();
    told?;
    moved.with_context(|| format!("{transfer}, while the device told of them"))?;
    shows(fixture, CIDS[0])?;
    // The event queue is none the worse for it.
    tell(fixture, "event", 1)?;
    fixture.works()
}

fn flood(fixture: &Fixture<'_>) -> Result<()> {
    for cid in [CIDS[1], CIDS[0]] {
        let script = format!("repeat {FLOOD}\nevent cid={cid}\nend");
        tell(fixture, &script, FLOOD)?;
        fixture.guest().set_cid(cid);
        shows(fixture, cid)?;
        let works = fixture.works();
        works.with_context(|| format!("after {FLOOD} resets with the CID {cid}"))?;
    }
    Ok(())
}

/// Has the device tell what a script says; ours has to count so many transport resets.
fn tell(fixture: &Fixture<'_>, script: &str, wanted: u64) -> Result<()> {
    let before = resets(fixture)?;
    let device = Device::of(fixture)?;
    device.finish(device.run(script)?, 2 * PATIENCE)?;
    counted(fixture, before, wanted)
}

/// Waits until ours has counted so many more, and fails if these are too many.
fn counted(fixture: &Fixture<'_>, before: Option<u64>, wanted: u64) -> Result<()> {
    let mut after = before;
    let waited = until("the transport resets to be counted", PATIENCE, || {
        after = resets(fixture)?;
        Ok((after >= before.map(|count| count + wanted)).then_some(()))
    });
    waited.with_context(|| format!("{before:?} before and {after:?} after {wanted}"))?;
    ensure!(
        after == before.map(|count| count + wanted),
        "transport resets: {before:?} before and {after:?} after {wanted}"
    );
    Ok(())
}
