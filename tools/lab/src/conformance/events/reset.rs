// SPDX-License-Identifier: GPL-2.0
//! The guest goes on in another place under another CID, of which its device tells by TRANSPORT_RESET.

use anyhow::{Context as _, Result, ensure};
use rig::RigKind;

use super::blocked::AllBlocked;
use super::heard::{resets, shows};
use super::rounds::rounds_with;
use super::traffic::BULK;
use crate::case::Case;
use crate::case::fixture::Fixture;

/// The CIDs that the guest gets one after the other; the last is that which it begins with.
const CIDS: [u32; 3] = [5, 6, 3];

/// An address with a CID that nobody has: the host says nothing to who connects to it.
const NOBODY: (u32, u32) = (99, 7100);

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
    let blocked = AllBlocked::begin(fixture, NOBODY)?;
    move_to(fixture, cid)?;
    blocked.all_woken(fixture, "ECONNRESET")?;
    fixture.works()
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
    let before = resets(fixture)?;
    fixture.pair.move_guest(cid)?;
    shows(fixture, cid)?;
    let after = resets(fixture)?;
    ensure!(
        after == before.map(|count| count + 1),
        "transport resets: {before:?} before and {after:?} after"
    );
    Ok(())
}
