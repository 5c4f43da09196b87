// SPDX-License-Identifier: GPL-2.0
//! Programs of the guest that are blocked in a call, and what wakes them.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Job, Program};
use vsock_peer::block::{Blocking, Woken};
use vsock_peer::report::Line;

use crate::case::fixture::{Fixture, PATIENCE};
use crate::transfer::listening_port;

/// How soon a blocked call has to come back; a connect has its own end after two seconds, which an
/// emulated and loaded machine may find late.
const SOON: Duration = Duration::from_secs(20);

/// A program in `recv()` and one in `send()`, each on a connection with nothing else on it.
pub(super) struct Blocked {
    calls: Vec<(Blocking, Job)>,
    /// Holds the other ends.
    hold: Job,
}

impl Blocked {
    /// Blocks them; both are in their calls when this returns.
    pub(super) fn begin(fixture: &Fixture<'_>) -> Result<Self> {
        let hold = Program::from(["vsock-peer", "hold", "--listen=0", "--count=64"]);
        let mut hold = fixture.far().spawn(hold)?;
        let port = hold.wait_line("the port it listens on", PATIENCE, listening_port)?;
        let begin = |(call, name): (Blocking, &str)| -> Result<(Blocking, Job)> {
            let program = Program::from(["vsock-peer", "block", name])
                .arg(format!("--cid={}", fixture.far().cid()))
                .arg(format!("--port={port}"));
            let mut job = fixture.guest().spawn(program)?;
            job.wait_line("word that it is about to block", PATIENCE, |line| {
                match serde_json::from_str(line) {
                    Ok(Line::Blocked(_)) => Some(()),
                    _ => None,
                }
            })?;
            Ok((call, job))
        };
        let calls = [(Blocking::Recv, "recv"), (Blocking::Send, "send")];
        Ok(Self {
            calls: calls.into_iter().map(begin).collect::<Result<_>>()?,
            hold,
        })
    }

    /// Waits until both calls have come back with `ECONNRESET`.
    pub(super) fn all_reset(self) -> Result<()> {
        for (call, job) in self.calls {
            let woken = woken(job).with_context(|| format!("a blocked {call:?}"))?;
            ensure!(
                woken.errno.as_deref() == Some("ECONNRESET"),
                "a blocked {call:?} came back with {:?} ({} bytes) and not with ECONNRESET",
                woken.errno,
                woken.bytes
            );
        }
        self.hold.kill()?;
        Ok(())
    }
}

/// Waits for a program's call to come back.
pub(in crate::conformance) fn woken(job: Job) -> Result<Woken> {
    let output = job.wait(SOON)?;
    let text = output.text();
    let last = text.lines().last().unwrap_or_default();
    match serde_json::from_str(last) {
        Ok(Line::Woken(woken)) => Ok(woken),
        _ => bail!(
            "it did not tell ({}): {text}{}",
            output.exit,
            output.errors()
        ),
    }
}
