// SPDX-License-Identifier: GPL-2.0
//! The kernel's own `vsock_perf`, one transfer at a time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rig::{Exit, Machine, Program};

/// Free on both sides: nothing else in the lab listens there.
const PORT: u32 = 7700;

/// The longest that one transfer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program.
pub const PROGRAM: &str = "vsock_perf";

/// One end of a transfer.
#[derive(Clone, Debug)]
pub struct End<'a> {
    /// Where it is.
    pub machine: &'a Machine,
    /// How the program is started there.
    pub program: Program,
}

impl<'a> End<'a> {
    /// One that is like any other program there.
    pub fn of(machine: &'a Machine) -> Self {
        End {
            machine,
            program: Program::new(PROGRAM),
        }
    }
}

/// A transfer to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Bytes of one `write()`.
    pub write_size: u64,
    /// Bytes in all.
    pub bytes: u64,
}

/// Sends from one end to the other; returns the gigabits a second that the receiver measured.
pub fn measure(run: Run, from: End<'_>, to: End<'_>) -> Result<f64> {
    let port = format!("--port={PORT}");
    let receiver = to
        .program
        .arg(&port)
        .args(["--buf-size=64K", "--vsk-size=1M", "--rcvlowat=1"]);
    let receiver = to.machine.spawn(receiver)?;
    let sender = from.program.arg(&port).args([
        format!("--sender={}", to.machine.cid()),
        format!("--buf-size={}", run.write_size),
        format!("--bytes={}", run.bytes),
        "--vsk-size=1M".into(),
    ]);

    // vsock_perf does not say when it listens, so the sender tries until it does.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let sent = from.machine.run(sender.clone(), PATIENCE)?;
        if sent.exit.success() {
            break;
        }
        if let Some(exit) = receiver.exit() {
            bail!(
                "vsock_perf's receiver ended ({exit}) before the sender came:\n{}",
                receiver.tail()
            );
        }
        let refused = sent.exit == Exit::Code(1) && sent.errors().starts_with("connect:");
        if !refused || Instant::now() > deadline {
            sent.success().context("vsock_perf could not send")?;
        }
    }
    let received = receiver.wait(PATIENCE)?.success()?;
    parse(&received.text())
}

fn parse(text: &str) -> Result<f64> {
    let rate = text.lines().find_map(|line| {
        let rest = line.strip_prefix("rx performance: ")?;
        rest.strip_suffix(" Gbits/s")?.parse().ok()
    });
    rate.with_context(|| format!("vsock_perf printed no rate:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found() {
        let text = "Run as receiver\nListen port 1\ntotal bytes received: 5\n\
                    rx performance: 0.031250 Gbits/s\nPOLLIN wakeups: 3\n";
        assert_eq!(parse(text).unwrap(), 0.03125);
        assert!(parse("Run as receiver\n").is_err());
    }
}
