// SPDX-License-Identifier: GPL-2.0
//! A connection that does well is not harmed by others.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::{Job, Program};
use vsock_peer::block::Blocking;
use vsock_peer::latency::Latency;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};
use crate::conformance::blocking::{block, hold};
use crate::transfer::{listening_port, report};

/// How many times longer a round trip may take beside others than alone, at the 99th percentile.
const TIMES: f64 = 3.0;

/// Bytes of a ping.
const SIZE: u64 = 64;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(
        "pings beside a reader that never reads stay within three times their idle p99",
        beside_a_sleeper,
    )]
}

/// Round trips of the far side to an echo in the guest.
struct Pings<'a> {
    fixture: &'a Fixture<'a>,
    echo: Job,
    port: u32,
}

impl<'a> Pings<'a> {
    fn begin(fixture: &'a Fixture<'a>) -> Result<Self> {
        let mut echo = fixture.guest().spawn(["vsock-peer", "echo", "--port=0"])?;
        let port = echo.wait_line("the port it listens on", PATIENCE, listening_port)?;
        Ok(Self {
            fixture,
            echo,
            port,
        })
    }

    fn measure(&self) -> Result<Latency> {
        let count: u64 = self.fixture.rounds(300, 1000, 10_000);
        let program = Program::from(["vsock-peer", "connect", "--flow=ping"])
            .arg(format!("--cid={}", self.fixture.guest().cid()))
            .arg(format!("--port={}", self.port))
            .arg(format!("--write-size={SIZE}"))
            .arg(format!("--bytes={}", count * SIZE));
        let job = self.fixture.far().spawn(program)?;
        let report = report(job, Duration::from_secs(90))?;
        ensure!(report.exact, "{}", report.complaints().join("\n"));
        report.latency.context("no round trip was timed")
    }

    fn compare(self, what: &str, noise: impl FnOnce() -> Result<Noise>) -> Result<()> {
        let before = self.measure()?;
        let noise = noise()?;
        let beside = self.measure();
        noise.end()?;
        let beside = beside.with_context(|| format!("beside {what}"))?;
        let after = self.measure()?;
        // The machine may be busier at one time than at another.
        let alone = before.p99_us.max(after.p99_us);
        self.echo.kill()?;
        ensure!(
            beside.p99_us <= TIMES * alone,
            "p99 of a round trip: {:.0} us before, {:.0} us beside {what}, {:.0} us after",
            before.p99_us,
            beside.p99_us,
            after.p99_us
        );
        Ok(())
    }
}

/// What else goes on.
struct Noise(Vec<Job>);

impl Noise {
    fn end(self) -> Result<()> {
        for job in self.0 {
            job.kill()?;
        }
        Ok(())
    }
}

fn beside_a_sleeper(fixture: &Fixture<'_>) -> Result<()> {
    Pings::begin(fixture)?.compare("a reader that never reads", || {
        let (hold, port) = hold(fixture.guest(), &[])?;
        let address = (fixture.guest().cid(), port);
        let sender = block(fixture.far(), Blocking::Send, address, &[])
            .context("filling the reader's buffer")?;
        Ok(Noise(vec![sender, hold]))
    })
}
