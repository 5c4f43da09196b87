// SPDX-License-Identifier: GPL-2.0
//! Programs of the guest that are blocked in a call, and what wakes them.

use anyhow::{Context as _, Result, ensure};
use rig::Job;
use vsock_peer::block::Blocking;

use crate::case::fixture::Fixture;
use crate::conformance::blocking::{GIVES_UP, block, hold, woken};
use crate::services::HOST_CID;

/// Where the host, if it is the wire and a script has it so, hears of a connection and says nothing to it.
pub(super) const SILENT: (u32, u32) = (HOST_CID, 5000);

/// Where the guest's program accepts, under all of its addresses.
const PORT: u32 = 7100;
const ANY: u32 = u32::MAX;

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
        self.all_ended("ECONNRESET")
    }

    /// Waits until both calls have come back with this error.
    pub(super) fn all_ended(self, how: &str) -> Result<()> {
        for (call, job) in self.calls {
            let woken = woken(job).with_context(|| format!("a blocked {call:?}"))?;
            ensure!(
                woken.errno.as_deref() == Some(how),
                "a blocked {call:?} came back with {:?} ({} bytes) and not with {how}",
                woken.errno,
                woken.bytes
            );
        }
        self.hold.kill()?;
        Ok(())
    }
}

/// Programs in all four calls that block.
pub(super) struct AllBlocked {
    accepting: Job,
    transferring: Blocked,
    connecting: Job,
}

impl AllBlocked {
    /// Blocks them. At the address `silent` nobody answers.
    pub(super) fn begin(fixture: &Fixture<'_>, silent: (u32, u32)) -> Result<Self> {
        let guest = fixture.guest();
        Ok(Self {
            accepting: block(guest, Blocking::Accept, (ANY, PORT), &[])?,
            transferring: Blocked::begin(fixture)?,
            // The last, as it gives up by itself.
            connecting: block(guest, Blocking::Connect, silent, &[])?,
        })
    }

    /// Waits until they have come back after all connections were reset: `recv()` and `send()` with the
    /// error `how`, `connect()` with any, and `accept()` with the next connection and not before.
    pub(super) fn all_woken(self, fixture: &Fixture<'_>, how: &str) -> Result<()> {
        self.transferring.all_ended(how)?;
        let connect = woken(self.connecting).context("a blocked connect()")?;
        ensure!(
            connect.errno.is_some() && connect.ms < GIVES_UP,
            "connect() came back after {} ms with {:?}",
            connect.ms,
            connect.errno
        );
        ensure!(
            self.accepting.exit().is_none(),
            "a blocked accept() came back without a connection: {}",
            self.accepting.tail()
        );
        let address = (fixture.guest().cid(), PORT);
        let call = block(fixture.far(), Blocking::Recv, address, &[])?;
        let accept = woken(self.accepting).context("a blocked accept()")?;
        ensure!(
            accept.errno.is_none(),
            "a blocked accept() came back with {:?} and not with the next connection",
            accept.errno
        );
        call.kill()?;
        Ok(())
    }
}
