// SPDX-License-Identifier: GPL-2.0
//! Programs of the guest that are blocked in a call, and what wakes them.

use anyhow::{Context as _, Result, ensure};
use rig::Job;
use vsock_peer::block::Blocking;

use crate::case::fixture::Fixture;
use crate::conformance::blocking::{block, hold, woken};

/// A program in `recv()` and one in `send()`, each on a connection with nothing else on it.
pub(super) struct Blocked {
    calls: Vec<(Blocking, Job)>,
    /// Holds the other ends.
    hold: Job,
}

impl Blocked {
    /// Blocks them; both are in their calls when this returns.
    pub(super) fn begin(fixture: &Fixture<'_>) -> Result<Self> {
        let (hold, port) = hold(fixture.far(), &[])?;
        let address = (fixture.far().cid(), port);
        let begin = |call| Ok((call, block(fixture.guest(), call, address, &[])?));
        let calls = [Blocking::Recv, Blocking::Send].into_iter().map(begin);
        Ok(Self {
            calls: calls.collect::<Result<_>>()?,
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
