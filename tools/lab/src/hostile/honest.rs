// SPDX-License-Identifier: GPL-2.0
//! What has to work after all that: a MiB to the host and back, compared byte by byte.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::{Machine, Program};

use crate::transfer::report;

/// The port of the wire's service that sends everything back.
const ECHO: u32 = 1001;

/// The end of every wait of the transfer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The options that make the wire offer the service.
pub(crate) fn services() -> [String; 2] {
    ["--service".into(), format!("echo={ECHO}")]
}

/// A MiB goes to the host and comes back.
pub(crate) fn transfer(guest: &Machine) -> Result<()> {
    let timeout = TIMEOUT.as_secs();
    let program = Program::new("vsock-peer").args([
        "connect",
        "--cid=2",
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
