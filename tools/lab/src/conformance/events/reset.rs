// SPDX-License-Identifier: GPL-2.0
//! The guest goes on in another place under another CID, of which its device tells by TRANSPORT_RESET.

use anyhow::{Context as _, Result, ensure};
use rig::RigKind;
use vsock_peer::block::Blocking;

use super::blocked::Blocked;
use super::rounds::rounds_with;
use super::traffic::BULK;
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, Subject, until};
use crate::conformance::blocking::{GIVES_UP, block, woken};

/// The CIDs that the guest gets one after the other; the last is that which it begins with.
const CIDS: [u32; 3] = [5, 6, 3];

/// One that nobody has: the host says nothing to who connects to it.
const NOBODY: u32 = 99;

/// Where the guest listens, under all of its addresses.
const PORT: u32 = 7100;
const ANY: u32 = u32::MAX;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "moved to another host again and again, blocked calls come back and a listener keeps working",
            blocked,
        ),
        Case::new(
            "moved to another host again and again under traffic, the next connections work",
            under_traffic,
        ),
    ];
    // It needs a device that tells, which is the kernel's.
    let cases = cases.into_iter();
    cases.map(|case| case.only_on([RigKind::Nested])).collect()
}

fn blocked(fixture: &Fixture<'_>) -> Result<()> {
    for cid in CIDS {
        blocked_once(fixture, cid).with_context(|| format!("when it got the CID {cid}"))?;
    }
    Ok(())
}

fn blocked_once(fixture: &Fixture<'_>, cid: u32) -> Result<()> {
    let (guest, far) = (fixture.guest(), fixture.far());
    let accepting = block(guest, Blocking::Accept, (ANY, PORT), &[])?;
    let blocked = Blocked::begin(fixture)?;
    // The last, as it gives up by itself.
    let connecting = block(guest, Blocking::Connect, (NOBODY, PORT), &[])?;
    move_to(fixture, cid)?;
    blocked.all_reset()?;
    let connect = woken(connecting).context("a blocked connect()")?;
    ensure!(
        connect.errno.is_some() && connect.ms < GIVES_UP,
        "connect() came back after {} ms with {:?}",
        connect.ms,
        connect.errno
    );
    ensure!(
        accepting.exit().is_none(),
        "a blocked accept() came back without a connection: {}",
        accepting.tail()
    );
    let call = block(far, Blocking::Recv, (cid, PORT), &[])?;
    let accept = woken(accepting).context("a blocked accept()")?;
    ensure!(
        accept.errno.is_none(),
        "a blocked accept() came back with {:?} and not with the next connection",
        accept.errno
    );
    call.kill()?;
    for transfer in crate::transfer::smoke() {
        fixture.transfer(&transfer)?;
    }
    Ok(())
}

fn under_traffic(fixture: &Fixture<'_>) -> Result<()> {
    let next = |cid: u32| {
        CIDS.iter()
            .cycle()
            .skip_while(move |&&one| one != cid)
            .nth(1)
    };
    rounds_with(fixture, BULK, &CIDS, CIDS.len(), |traffic| {
        let before = traffic.seen()?;
        let cid = next(fixture.guest().cid()).context("the CIDs go round")?;
        move_to(fixture, *cid)?;
        traffic.flows("traffic under the new CID", &before)
    })
}

/// Moves the guest, which has to see that it has another CID, and ours to count that it was told.
fn move_to(fixture: &Fixture<'_>, cid: u32) -> Result<()> {
    let resets = || match fixture.subject {
        Subject::Rust => fixture.counters()?.get("transport_resets").map(Some),
        Subject::C => Ok(None),
    };
    let before = resets()?;
    fixture.pair.move_guest(cid)?;
    until("the guest to see its new CID", PATIENCE, || {
        Ok((fixture.shown_cid()? == cid).then_some(()))
    })?;
    let after = resets()?;
    ensure!(
        after == before.map(|count| count + 1),
        "transport resets: {before:?} before and {after:?} after"
    );
    Ok(())
}
