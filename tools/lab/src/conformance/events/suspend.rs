// SPDX-License-Identifier: GPL-2.0
//! The guest is put to sleep, and woken.

use anyhow::{Context as _, Result, ensure};
use rig::{GuestSetup, Job, RigKind};
use vsock_peer::block::Blocking;
use vsock_peer::report::Line;

use super::blocked::{AllBlocked, SILENT};
use super::rounds::rounds;
use super::traffic::BULK;
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};
use crate::conformance::blocking::{block, hold};
use crate::conformance::device::Device;

/// What `recv()` and `send()` see that a program was blocked in: to be frozen, it is taken out of its call,
/// which begins anew when it is thawed, and then the socket is not connected.
const ENDED: &str = "ENOTCONN";

/// What the device does there.
const SAYS_NOTHING: &str = "
    accept a at=5000 answer=no
    wait reset within=60000";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "put to sleep again and again under traffic, the next connections work",
            under_traffic,
        )
        .quick(),
        Case::new(
            "put to sleep twice in a row, sockets see ECONNRESET, blocked calls come back, listeners work on",
            blocked,
        ),
    ];
    let cases = cases.into_iter().map(|case| {
        case.only_on([RigKind::Wire])
            .setup(GuestSetup::default().sleeper())
    });
    cases.collect()
}

fn under_traffic(fixture: &Fixture<'_>) -> Result<()> {
    rounds(fixture, BULK, fixture.rounds(2, 5, 50), |traffic| {
        let before = traffic.seen()?;
        sleep(fixture)?;
        traffic.flows("traffic after the guest was woken", &before)
    })
}

fn blocked(fixture: &Fixture<'_>) -> Result<()> {
    let mut listener = Listener::begin(fixture)?;
    for round in 1..=fixture.rounds(1, 3, 50) {
        let mut twice = || -> Result<()> {
            let call = listener.take(fixture)?;
            let silent = Device::of(fixture)?.run(SAYS_NOTHING)?;
            let blocked = AllBlocked::begin(fixture, SILENT)?;
            sleep(fixture)?;
            sleep(fixture)?;
            Device::of(fixture)?.finish(silent, PATIENCE)?;
            listener.sees_reset()?;
            // The far side was not told.
            call.kill()?;
            blocked.all_woken(fixture, ENDED)
        };
        let slept = twice();
        slept.with_context(|| format!("in round {round}"))?;
    }
    // The last of the rounds did not leave it deaf.
    listener.take(fixture)?.kill()?;
    listener.hold.kill()?;
    fixture.works()
}

/// Puts the guest to sleep and wakes it. Its driver has to let go of the device for that.
fn sleep(fixture: &Fixture<'_>) -> Result<()> {
    let device = Device::of(fixture)?;
    let before = device.counts()?.stops()?;
    fixture.guest().sleep_and_wake()?;
    ensure!(
        device.counts()?.stops()? > before,
        "the guest slept, and its driver did not let go of the device"
    );
    Ok(())
}

/// A program of the guest that listens, and holds what it has accepted.
struct Listener {
    hold: Job,
    port: u32,
}

impl Listener {
    fn begin(fixture: &Fixture<'_>) -> Result<Self> {
        let (hold, port) = hold(fixture.guest(), &["--read"])?;
        Ok(Self { hold, port })
    }

    /// Has the far side connect, and do no more; returns its program.
    fn take(&mut self, fixture: &Fixture<'_>) -> Result<Job> {
        let address = (fixture.guest().cid(), self.port);
        let call = block(fixture.far(), Blocking::Recv, address, &[])?;
        self.says("that it has a connection", |line| {
            matches!(line, Line::Held { .. }).then_some(())
        })?;
        Ok(call)
    }

    /// Waits until its connection has ended.
    fn sees_reset(&mut self) -> Result<()> {
        let how = self.says("that its connection has ended", |line| match line {
            Line::Ended { how, .. } => Some(how),
            _ => None,
        })?;
        ensure!(
            how == "ECONNRESET",
            "a connection that was accepted ended with {how} and not with ECONNRESET"
        );
        Ok(())
    }

    fn says<T>(&mut self, what: &str, wanted: impl Fn(Line) -> Option<T>) -> Result<T> {
        let said = self.hold.wait_line(what, PATIENCE, |line| {
            serde_json::from_str(line).ok().and_then(&wanted)
        });
        Ok(said?)
    }
}
