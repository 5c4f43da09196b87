// SPDX-License-Identifier: GPL-2.0
//! A connecting socket when the device goes away.

use anyhow::{Result, ensure};
use rig::{Program, RigKind};
use vsock_peer::block::Blocking;
use vsock_peer::report::Line;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};
use crate::conformance::events::blocked::woken;
use crate::conformance::events::rounds::device_name;

/// Milliseconds after which the kernel gives up to connect by itself, and what a loaded machine may
/// take on top of that.
const GIVES_UP: u64 = 2000 + 4000;

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
    let driver = fixture.subject.driver();
    let path = |file: &str| format!("/sys/bus/virtio/drivers/{}/{file}", driver.name());
    for _ in 0..fixture.rounds(1, 3, 20) {
        let device = device_name(fixture)?;
        far.hold()?;
        let program = Program::from(["vsock-peer", "block", "connect", "--port=1"])
            .arg(format!("--cid={}", far.cid()));
        let blocked = || -> Result<_> {
            let mut job = guest.spawn(program)?;
            job.wait_line("word that it is about to connect", PATIENCE, |line| {
                let told = serde_json::from_str(line);
                matches!(told, Ok(Line::Blocked(Blocking::Connect))).then_some(())
            })?;
            guest.write(&path("unbind"), &device)?;
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
        guest.write(&path("bind"), &device)?;
        for transfer in crate::transfer::smoke() {
            fixture.transfer(&transfer)?;
        }
    }
    // Nobody holds on to the driver.
    fixture.unload()?;
    fixture.reload([])
}
