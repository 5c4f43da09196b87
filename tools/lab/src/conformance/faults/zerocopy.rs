// SPDX-License-Identifier: GPL-2.0
//! `MSG_ZEROCOPY` with a device that keeps what it has taken.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Job, Program, RigKind, Script};
use vsock_peer::pledge::Pledged;
use vsock_peer::report::Line;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::conformance::device::Device;
use crate::conformance::events::leaves_nothing;
use crate::services::HOST_CID;

/// Sends of a program, and bytes of each: together as much as the device has room for, which keeps a
/// program from waiting, and each of them one packet.
const SENDS: u32 = 16;
const SIZE: usize = 16 << 10;

/// The port at which the device takes them.
const PORT: u32 = 5000;

/// The device takes the packets and keeps their buffers, until the script is dropped. A connection that
/// the guest closes has its answer, so that it does not wait for it.
const KEEPING: &str = "
hold
accept a at=5000
wait a op=rw count=16
";

/// What a script does next.
const UNTIL_CLOSED: &str = "
wait a op=shutdown within=600000
send a op=rst
wait ms=600000
";
const UNTIL_DROPPED: &str = "
wait ms=600000
";
const RESET: &str = "
send a op=rst
wait ms=600000
";

/// What ends a connection whose sends are not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Unbind,
    PeerReset,
}

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let ends = [
        (End::Close, "closed: no page is lost"),
        (
            End::Unbind,
            "the driver unbound: each is completed once, and no page is lost",
        ),
        (
            End::PeerReset,
            "reset by the peer: each is completed once, and no page is lost",
        ),
    ];
    let case = |(end, what): (End, &str)| {
        let name = format!("MSG_ZEROCOPY sends that the device does not complete, and {what}");
        Case::new(name, move |fixture| rounds(fixture, end)).only_on([RigKind::Wire])
    };
    ends.into_iter().map(case).collect()
}

/// Each round has 256 KiB of pages in the device's hands.
fn rounds(fixture: &Fixture<'_>, end: End) -> Result<()> {
    let mut number = 0;
    leaves_nothing(fixture, 2, fixture.rounds(2, 6, 100), |count| {
        for _ in 0..count {
            number += 1;
            round(fixture, end).with_context(|| format!("in round {number}"))?;
        }
        Ok(())
    })
}

fn round(fixture: &Fixture<'_>, end: End) -> Result<()> {
    let device = Device::of(fixture)?;
    let then = match end {
        End::Close => UNTIL_CLOSED,
        End::Unbind => UNTIL_DROPPED,
        End::PeerReset => RESET,
    };
    let script = device.run(&format!("{KEEPING}{then}"))?;
    let mut sender = Sender::start(fixture)?;
    let pending = sender.next("word that all was sent")?;
    ensure!(
        pending.completions.completed == 0,
        "completed, although the device keeps all of it: {pending:?}"
    );
    until("the device to have taken all of it", PATIENCE, || {
        let kept = device.counts()?.kept()?;
        Ok((kept >= u64::from(SENDS)).then_some(()))
    })?;
    match end {
        End::Close => {
            let last = sender.end()?;
            let what = "completed, although the device keeps all of it";
            ensure!(last.completions.completed == 0, "{what}: {last:?}");
            release(device, script)
        }
        End::Unbind => {
            let bound = fixture.device()?;
            fixture.unbind(&bound)?;
            let completed = sender.all_completed();
            drop(script);
            fixture.bind(&bound)?;
            fixture.wait_bound()?;
            completed
        }
        End::PeerReset => {
            release(device, script)?;
            sender.all_completed()
        }
    }
}

/// Has the device give everything back.
fn release(device: Device<'_>, script: Script) -> Result<()> {
    drop(script);
    until("the device to give all back", PATIENCE, || {
        Ok((device.counts()?.kept()? == 0).then_some(()))
    })
}

/// The program that sends.
struct Sender(Job);

impl Sender {
    fn start(fixture: &Fixture<'_>) -> Result<Self> {
        let program = Program::from(["vsock-peer", "pledge"])
            .args([format!("--cid={HOST_CID}"), format!("--port={PORT}")])
            .args([format!("--sends={SENDS}"), format!("--size={SIZE}")]);
        Ok(Self(fixture.guest().spawn(program)?))
    }

    /// What it says next.
    fn next(&mut self, what: &str) -> Result<Pledged> {
        let said = self.0.wait_line(what, PATIENCE, pledged);
        Ok(said?)
    }

    /// Waits until every send is completed, and has it end; none may be completed twice.
    fn all_completed(mut self) -> Result<()> {
        self.next("every send's completion")?;
        let last = self.end()?;
        let once = last.completions.completed == u64::from(SENDS);
        ensure!(
            last.settled && once,
            "{SENDS} sends have other completions: {last:?}"
        );
        Ok(())
    }

    /// Has it end; returns the last that it says.
    fn end(self) -> Result<Pledged> {
        self.0.input(&[], true)?;
        let output = self.0.wait(Duration::from_secs(30))?.success()?;
        match output.text().lines().filter_map(pledged).next_back() {
            Some(last) => Ok(last),
            None => bail!("it said nothing: {}", output.errors()),
        }
    }
}

fn pledged(line: &str) -> Option<Pledged> {
    match serde_json::from_str(line) {
        Ok(Line::Pledged(pledged)) => Some(pledged),
        _ => None,
    }
}
