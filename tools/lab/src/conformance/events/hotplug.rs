// SPDX-License-Identifier: GPL-2.0
//! The device comes and goes.

use anyhow::{Result, bail, ensure};
use rig::{RigKind, VsockDevice};
use vsock_peer::report::Line;

use super::rounds::rounds_with;
use super::traffic::{BULK, Traffic};
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};

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
    let cids = [guest.cid(), shown_cid(fixture)?];
    guest.unplug(VsockDevice::Second)?;
    guest.plug(VsockDevice::First)?;
    fixture.wait_bound()?;
    ensure!(
        shown_cid(fixture)? == guest.cid() && cids[0] != cids[1],
        "the guest's two devices have the CIDs {cids:?}, and now it shows {}",
        shown_cid(fixture)?
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

/// The CID that the guest has now.
fn shown_cid(fixture: &Fixture<'_>) -> Result<u32> {
    let output = fixture.guest().run(["vsock-peer", "cid"], PATIENCE)?;
    let text = output.success()?.text();
    match serde_json::from_str(&text) {
        Ok(Line::Cid(cid)) => Ok(cid),
        _ => bail!("the guest shows no CID: {text}"),
    }
}
