// SPDX-License-Identifier: GPL-2.0
//! Programs that are blocked in a call, and the ends that keep them there.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum as _;
use rig::{Job, Machine, Program};
use vsock_peer::block::{Blocking, Woken};
use vsock_peer::report::Line;

use crate::case::fixture::PATIENCE;

/// How soon a blocked call has to come back; a connect has its own end after two seconds, which an
/// emulated and loaded machine may find late.
const SOON: Duration = Duration::from_secs(20);

/// Milliseconds after which the kernel gives up to connect by itself, and what a loaded machine may
/// take on top of that.
pub(super) const GIVES_UP: u64 = 2000 + 4000;

/// Has a machine take connections and do nothing with them; returns the port.
pub(super) fn hold(machine: &Machine, options: &[&str]) -> Result<(Job, u32)> {
    let program = Program::from(["vsock-peer", "hold", "--listen=0", "--count=64"]);
    let mut hold = machine.spawn(program.args(options.iter().copied()))?;
    let port = hold.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
    Ok((hold, port))
}

/// Has a machine make a call towards an address; it is about to block in it when this returns.
pub(super) fn block(
    machine: &Machine,
    call: Blocking,
    (cid, port): (u32, u32),
    options: &[&str],
) -> Result<Job> {
    let name = call.to_possible_value().context("a call has a name")?;
    let program = Program::from(["vsock-peer", "block", name.get_name()])
        .args([format!("--cid={cid}"), format!("--port={port}")])
        .args(options.iter().copied());
    let mut job = machine.spawn(program)?;
    job.wait_line("word that it is about to block", PATIENCE, |line| {
        let told = serde_json::from_str(line);
        matches!(told, Ok(Line::Blocked(blocked)) if blocked == call).then_some(())
    })?;
    Ok(job)
}

/// Waits for a program's call to come back.
pub(super) fn woken(job: Job) -> Result<Woken> {
    let output = job.wait(SOON)?;
    let text = output.text();
    match Line::last(&text) {
        Some(Line::Woken(woken)) => Ok(woken),
        _ => bail!(
            "it did not tell ({}): {text}{}",
            output.exit,
            output.errors()
        ),
    }
}
