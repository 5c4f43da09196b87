// SPDX-License-Identifier: GPL-2.0
//! A connecting socket when the device goes away.

use anyhow::{Result, ensure};
use rig::RigKind;
use vsock_peer::block::Blocking;

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::conformance::blocking::{GIVES_UP, block, woken};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a connecting socket whose device goes away comes back in time",
            connecting,
        )
        .only_on([RigKind::Wire]),
    ]
}

/// The far side's machine stands still, so that nobody answers; then the driver leaves the device.
fn connecting(fixture: &Fixture<'_>) -> Result<()> {
    let (guest, far) = (fixture.guest(), fixture.far());
    for _ in 0..fixture.rounds(1, 3, 20) {
        let device = fixture.device()?;
        far.hold()?;
        let blocked = || -> Result<_> {
            let job = block(guest, Blocking::Connect, (far.cid(), 1), &[])?;
            fixture.unbind(&device)?;
            woken(job)
        };
        let came_back = blocked();
        far.resume()?;
        let woken = came_back?;
        ensure!(
            woken.errno.is_some() && woken.ms < GIVES_UP,
            "connect() came back after {} ms with {:?}",
            woken.ms,
            woken.errno
        );
        fixture.bind(&device)?;
        for transfer in crate::transfer::smoke() {
            fixture.transfer(&transfer)?;
        }
    }
    // Nobody holds on to the driver.
    fixture.unload()?;
    fixture.reload([])
}
