// SPDX-License-Identifier: GPL-2.0
//! What the guest has heard from its device by the event queue.

use anyhow::Result;

use crate::case::fixture::{Fixture, PATIENCE, Subject, until};

/// The transport resets that ours has counted.
pub(super) fn resets(fixture: &Fixture<'_>) -> Result<Option<u64>> {
    match fixture.subject {
        Subject::Rust => fixture.counters()?.get("transport_resets").map(Some),
        Subject::C => Ok(None),
    }
}

/// Waits until the guest shows this CID.
pub(super) fn shows(fixture: &Fixture<'_>, cid: u32) -> Result<()> {
    until("the guest to show its CID", PATIENCE, || {
        Ok((fixture.shown_cid()? == cid).then_some(()))
    })
}
