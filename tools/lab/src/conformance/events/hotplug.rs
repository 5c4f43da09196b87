// SPDX-License-Identifier: GPL-2.0
//! The device comes and goes.

use anyhow::{Result, ensure};
use rig::{RigKind, VsockDevice};

use super::rounds::rounds_with;
use super::traffic::{BULK, Traffic};
use crate::case::Case;
use crate::case::fixture::Fixture;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "unplugged and plugged in again under another CID, again and again",
            another_cid,
        )
        .only_on([RigKind::Wire]),
    ]
}

/// The guest's second device has another CID, and another slot.
fn another_cid(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    guest.unplug(VsockDevice::First)?;
    guest.plug(VsockDevice::Second)?;
    fixture.wait_bound()?;
    let cids = [guest.cid(), fixture.shown_cid()?];
    guest.unplug(VsockDevice::Second)?;
    guest.plug(VsockDevice::First)?;
    fixture.wait_bound()?;
    ensure!(
        fixture.shown_cid()? == guest.cid() && cids[0] != cids[1],
        "the guest's two devices have the CIDs {cids:?}, and now it shows {}",
        fixture.shown_cid()?
    );
    let exchange = |traffic: &Traffic<'_>, from, to| -> Result<()> {
        let before = traffic.seen()?;
        guest.unplug(from)?;
        traffic.all_noticed("every connection to notice that the device is gone")?;
        guest.plug(to)?;
        fixture.wait_bound()?;
        traffic.flows("traffic with the device's new CID", &before)
    };
    // Two exchanges a round.
    rounds_with(fixture, BULK, &cids, fixture.rounds(2, 5, 50), |traffic| {
        exchange(traffic, VsockDevice::First, VsockDevice::Second)?;
        exchange(traffic, VsockDevice::Second, VsockDevice::First)
    })
}
