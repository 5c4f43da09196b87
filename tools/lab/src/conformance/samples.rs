// SPDX-License-Identifier: GPL-2.0
//! What is in `samples/`.

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use rig::{Job, Program};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};
use crate::transfer::{Direction, Transfer, listen, report};

/// Where the datagrams go.
const PATH: &str = "/tmp/redirect.sock";

/// Bytes of a transfer.
const BYTES: u64 = 2 << 20;

/// What a transfer by datagrams is like.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes of a datagram.
    size: usize,
    /// Whether an empty one comes before each.
    empty: bool,
    /// Whether the host reads nothing before it has no room left.
    slow: bool,
}

const WAYS: [Way; 3] = [
    Way {
        size: 1024,
        empty: true,
        slow: false,
    },
    Way {
        size: 65_000,
        empty: false,
        slow: false,
    },
    Way {
        size: 9000,
        empty: false,
        slow: true,
    },
];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("datagrams are redirected to the host by BPF", |fixture| {
            redirect(fixture, "bpf")
        })
        .quick(),
        Case::new(
            "datagrams are redirected to the host by copying",
            |fixture| redirect(fixture, "copy"),
        )
        .quick(),
        Case::new("a redirector ends with the host's server", ends).quick(),
    ]
}

/// Each way, every byte has to arrive in its place, and the redirector to tell how many did.
fn redirect(fixture: &Fixture<'_>, via: &str) -> Result<()> {
    for way in WAYS {
        pass(fixture, via, way).with_context(|| format!("datagrams of {} bytes", way.size))?;
    }
    Ok(())
}

fn pass(fixture: &Fixture<'_>, via: &str, way: Way) -> Result<()> {
    let size = way.size;
    let (server, port) = serve(fixture, way)?;
    let redirector = start(fixture, via, port)?;
    let mut sender = Program::from(["vsock-peer", "datagrams", "--to", PATH])
        .args([format!("--bytes={BYTES}"), format!("--size={size}")]);
    if way.empty {
        sender = sender.arg("--empty");
    }
    let sent = fixture.guest().run(sender, PATIENCE)?;
    // What the server got says more than that a sender was refused.
    redirector.signal(Signal::SIGTERM)?;
    let ended = redirector.wait(PATIENCE)?.success()?.text();
    let got = report(server, PATIENCE)?;
    ensure!(
        got.exact,
        "the server: {}\nthe redirector: {ended}",
        got.complaints().join("\n")
    );
    sent.success()?;
    let datagrams = BYTES.div_ceil(size as u64);
    let mut told = format!("redirected {datagrams} datagrams, {BYTES} bytes");
    if way.empty {
        told += &format!("; dropped {datagrams} that were empty");
    }
    let last = ended.lines().last().unwrap_or_default();
    ensure!(last == told, "it says `{last}`, which is not `{told}`");
    Ok(())
}

/// A server that goes away takes the redirector with it, which says so, and its path.
fn ends(fixture: &Fixture<'_>) -> Result<()> {
    for via in ["bpf", "copy"] {
        let (server, port) = serve(fixture, WAYS[0])?;
        let redirector = start(fixture, via, port)?;
        server.kill()?;
        let ended = redirector.wait(PATIENCE)?.success()?;
        let (said, left) = (ended.errors(), format!("test ! -e {PATH}"));
        ensure!(
            said.contains("has closed the connection"),
            "{via}: it says nothing of the server's end: {said}{}",
            ended.text()
        );
        fixture.guest_shell(&left)?;
    }
    Ok(())
}

/// Starts a server on the far side that compares what comes.
fn serve(fixture: &Fixture<'_>, way: Way) -> Result<(Job, u32)> {
    let mut transfer = Transfer::new(Kind::Stream, Direction::FromGuest, way.size, BYTES);
    transfer.habits.read_when_full = way.slow;
    listen(&transfer, fixture.far())
}

/// Starts the sample in the guest; datagrams can come when it returns.
fn start(fixture: &Fixture<'_>, via: &str, port: u32) -> Result<Job> {
    // One that was killed by a case that failed has left its path behind.
    fixture.guest_shell(&format!("rm -f {PATH}"))?;
    let program = Program::from(["redirect", "--via", via, "--from", PATH]).args([
        format!("--cid={}", fixture.far().cid()),
        format!("--port={port}"),
    ]);
    let mut job = fixture.guest().spawn(program)?;
    job.wait_line("that it redirects", PATIENCE, |line| {
        line.starts_with("redirecting ").then_some(())
    })?;
    Ok(job)
}
