// SPDX-License-Identifier: GPL-2.0
//! What has to work after all that: a MiB to the host and back, compared byte by byte.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::{Machine, Program};

use crate::services::{ECHO, HOST_CID};
use crate::transfer::report;

/// The end of every wait of the transfer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A MiB goes to the host and comes back.
pub(crate) fn transfer(guest: &Machine) -> Result<()> {
    let timeout = TIMEOUT.as_secs();
    let program = Program::new("vsock-peer").args([
        "connect",
        &format!("--cid={HOST_CID}"),
        &format!("--port={ECHO}"),
        "--flow=bounce",
        "--partner=service",
        "--bytes=1M",
        "--write-size=4096",
        &format!("--timeout={timeout}"),
    ]);
    let what = "an honest connection, 1 MiB and back";
    let report = report(guest.spawn(program)?, TIMEOUT * 2).context(what)?;
    if report.exact {
        return Ok(());
    }
    Err(anyhow::Error::msg(report.complaints().join("\n")).context(what))
}
