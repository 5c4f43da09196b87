// SPDX-License-Identifier: GPL-2.0
//! A connection that does well is not harmed by others.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bench::spread::Spread;
use rig::{Job, Machine, Program, RigKind};
use vsock_peer::block::Blocking;
use vsock_peer::latency::Latency;
use vsock_peer::report::Line;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::conformance::blocking::{block, hold};
use crate::conformance::device::Device;
use crate::services::{ECHO, HOST_CID, SMALL, SOURCE};
use crate::transfer::report;

/// How many times longer a round trip may take beside others than alone, at the 99th percentile.
const TIMES: f64 = 3.0;

/// How long all round trips of a measurement may take.
const LONGEST: Duration = Duration::from_secs(90);

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "pings beside a reader that never reads stay within three times their idle p99",
            beside_a_sleeper,
        ),
        Case::new(
            "pings beside a stream of small packets stay within three times their idle p99",
            beside_a_stream,
        )
        .only_on([RigKind::Wire]),
    ]
}

/// Round trips of a machine to an echo.
struct Pings<'a> {
    fixture: &'a Fixture<'a>,
    from: &'a Machine,
    /// The echo's address.
    to: (u32, u32),
    /// What the program is told of the echo.
    partner: &'static str,
}

impl Pings<'_> {
    fn measure(&self) -> Result<Latency> {
        let count: usize = self.fixture.rounds(300, 500, 2000);
        let (cid, port) = self.to;
        let program = Program::from(["vsock-peer", "connect", "--flow=ping"])
            .args([format!("--cid={cid}"), format!("--port={port}")])
            .arg(format!("--partner={}", self.partner))
            .arg(format!("--write-size={SMALL}"))
            .arg(format!("--bytes={}", count * SMALL));
        let report = report(self.from.spawn(program)?, LONGEST)?;
        ensure!(report.exact, "{}", report.complaints().join("\n"));
        report.latency.context("no round trip was timed")
    }

    /// Measures by turns alone and beside what `noise` begins and `end` ends.
    fn compare<T>(
        &self,
        what: &str,
        noise: impl Fn() -> Result<T>,
        end: impl Fn(T) -> Result<()>,
    ) -> Result<()> {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..self.fixture.rounds(3, 5, 21) {
            alone.push(self.measure()?.p99_us);
            let noise = noise()?;
            let measured = self.measure();
            end(noise).with_context(|| what.to_owned())?;
            let measured = measured.with_context(|| format!("beside {what}"))?;
            beside.push(measured.p99_us);
        }
        // The machine has other work at times, which makes single measurements several times as long.
        let medians = Spread::of(alone.clone()).zip(Spread::of(beside.clone()));
        let (idle, busy) = medians.context("nothing was measured")?;
        ensure!(
            busy.median() <= TIMES * idle.median(),
            "p99 of a round trip in microseconds, by turns: alone {alone:.0?}, beside {what} {beside:.0?}"
        );
        Ok(())
    }
}

fn beside_a_sleeper(fixture: &Fixture<'_>) -> Result<()> {
    let (guest, far) = (fixture.guest(), fixture.far());
    let mut echo = guest.spawn(["vsock-peer", "echo", "--port=0"])?;
    let port = echo.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
    let pings = Pings {
        fixture,
        from: far,
        to: (guest.cid(), port),
        partner: "peer",
    };
    let fill = || -> Result<_> {
        let (hold, port) = hold(guest, &[])?;
        let sender = block(far, Blocking::Send, (guest.cid(), port), &[]);
        Ok([sender.context("filling the reader's buffer")?, hold])
    };
    let end = |jobs: [Job; 2]| {
        for job in jobs {
            job.kill()?;
        }
        Ok(())
    };
    pings.compare("a reader that never reads", fill, end)?;
    echo.kill()?;
    Ok(())
}

/// Both come from the wire, which gives both connections their turns: a guest has a queue of its own,
/// with thousands of the stream's packets in front of each ping.
fn beside_a_stream(fixture: &Fixture<'_>) -> Result<()> {
    let pings = Pings {
        fixture,
        from: fixture.guest(),
        to: (HOST_CID, ECHO),
        partner: "service",
    };
    let begin = || Stream::begin(fixture);
    pings.compare("a stream of small packets", begin, Stream::end)
}

/// A reader of as many small packets as it can take.
struct Stream<'a> {
    device: Device<'a>,
    reader: Job,
    begun: u64,
}

/// Bytes that no reader has before it is ended.
const ENDLESS: u64 = 1 << 40;

/// Packets that a stream has at least beside a measurement.
const FLOWS: u64 = 1000;

impl<'a> Stream<'a> {
    /// Begins; packets flow when this returns.
    fn begin(fixture: &Fixture<'a>) -> Result<Self> {
        let program = Program::from(["vsock-peer", "connect", "--flow=receive"])
            .args([format!("--cid={HOST_CID}"), format!("--port={SOURCE}")])
            .args(["--partner=service", "--timeout=3600"])
            .args([
                format!("--write-size={SMALL}"),
                format!("--bytes={ENDLESS}"),
            ]);
        let device = Device::of(fixture)?;
        let idle = device.counts()?.sent_by(SOURCE)?;
        let reader = fixture.guest().spawn(program)?;
        let begun = until("the stream to begin", PATIENCE, || {
            let sent = device.counts()?.sent_by(SOURCE)?;
            Ok((sent > idle + FLOWS).then_some(sent))
        })?;
        Ok(Self {
            device,
            reader,
            begun,
        })
    }

    fn end(self) -> Result<()> {
        let sent = self.device.counts()?.sent_by(SOURCE)? - self.begun;
        let ended = self.reader.exit();
        ensure!(
            ended.is_none() && sent > FLOWS,
            "it stood still, or ended ({ended:?}), after {sent} packets:\n{}",
            self.reader.tail()
        );
        self.reader.kill()?;
        Ok(())
    }
}
