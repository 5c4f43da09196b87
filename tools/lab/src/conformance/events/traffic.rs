// SPDX-License-Identifier: GPL-2.0
//! Traffic that goes on whatever happens: connections from each side to the other, made again and
//! again, with bytes both ways on each.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Job, Machine, Program};
use vsock_peer::report::Line;
use vsock_peer::tally::Tally;

use crate::case::fixture::{Fixture, until};

/// The port on which each side listens.
const PORT: u32 = 7000;

/// How soon whatever should happen to the traffic has happened.
const SOON: Duration = Duration::from_secs(20);

/// How long a program that was asked to end may take.
const END: Duration = Duration::from_secs(40);

/// What the connections are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Connections that each side keeps up.
    pub connections: u32,
    /// Payload of a connection in each direction, after which it is ended in order.
    pub bytes: u64,
    /// Bytes of one write.
    pub write_size: usize,
}

/// A few connections with as much as goes through them.
pub(super) const BULK: Shape = Shape {
    connections: 2,
    bytes: 1 << 20,
    write_size: 4096,
};

/// Connections as fast as they can be made.
pub(super) const STORM: Shape = Shape {
    connections: 2,
    bytes: 1,
    write_size: 1,
};

/// The programs of one side.
struct End {
    listening: Job,
    connecting: Vec<Job>,
}

/// Traffic that goes on until it is ended.
pub(super) struct Traffic<'a> {
    fixture: &'a Fixture<'a>,
    shape: Shape,
    /// The addresses under which the guest can be reached, one at a time.
    cids: Vec<u32>,
    guest: Option<End>,
    far: Option<End>,
}

/// What the guest's programs have counted, together.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Connections that came in, and that were made.
    pub opened: [u64; 2],
    /// Bytes that arrived on those that came in, and on those that were made.
    pub received: [u64; 2],
    /// Connections that stand.
    pub standing: u64,
}

impl Seen {
    /// Whether, since `before`, new connections of both origins were made and carry bytes.
    pub(super) fn flows_since(&self, before: &Self) -> bool {
        [0, 1].iter().all(|&origin| {
            self.opened[origin] > before.opened[origin]
                && self.received[origin] > before.received[origin]
        })
    }
}

impl<'a> Traffic<'a> {
    /// Begins, with a guest that can be reached under one of several addresses; bytes flow from both
    /// sides to both sides when this returns.
    pub(super) fn begin(fixture: &'a Fixture<'a>, shape: Shape, cids: &[u32]) -> Result<Self> {
        let mut traffic = Self {
            fixture,
            shape,
            cids: cids.to_owned(),
            guest: None,
            far: None,
        };
        traffic.start_guest()?;
        traffic.start_far()?;
        traffic.flows("traffic to begin", &Seen::default())?;
        Ok(traffic)
    }

    /// Starts the guest's programs.
    pub(super) fn start_guest(&mut self) -> Result<()> {
        let cids = [self.fixture.far().cid()];
        // A connection of the guest's that stands still is one that nobody woke.
        let end = End::start(
            self.fixture.guest(),
            &cids,
            self.shape,
            &["--patience=10000"],
        )?;
        self.guest = Some(end);
        Ok(())
    }

    /// Starts the far side's programs.
    pub(super) fn start_far(&mut self) -> Result<()> {
        // A guest that loses its device cannot tell its peers.
        let options = ["--give-up", "--patience=500"];
        let end = End::start(self.fixture.far(), &self.cids, self.shape, &options)?;
        self.far = Some(end);
        Ok(())
    }

    /// Kills the guest's programs.
    pub(super) fn kill_guest(&mut self) -> Result<()> {
        self.guest.take().map_or(Ok(()), End::kill)
    }

    /// Kills the far side's programs.
    pub(super) fn kill_far(&mut self) -> Result<()> {
        self.far.take().map_or(Ok(()), End::kill)
    }

    /// What the guest's programs have counted.
    pub(super) fn seen(&self) -> Result<Seen> {
        let guest = self.guest.as_ref().context("the guest's programs run")?;
        guest.check(self.fixture.guest())?;
        let came = tally(&guest.listening);
        let made = guest.connecting.first().map(tally).unwrap_or_default();
        Ok(Seen {
            opened: [came.opened, made.opened],
            received: [came.received, made.received],
            standing: came.standing + made.standing,
        })
    }

    /// Waits until new connections of both origins carry bytes.
    pub(super) fn flows(&self, what: &str, before: &Seen) -> Result<()> {
        self.until(what, |seen| seen.flows_since(before))
    }

    /// Waits until the guest has no connection any more.
    pub(super) fn all_noticed(&self, what: &str) -> Result<()> {
        self.until(what, |seen| seen.standing == 0)
    }

    fn until(&self, what: &str, done: impl Fn(&Seen) -> bool) -> Result<()> {
        let mut last = Seen::default();
        let waited = until(what, SOON, || {
            last = self.seen()?;
            Ok(done(&last).then_some(()))
        });
        waited.with_context(|| {
            format!(
                "the traffic as the guest saw it last: {last:?}\n{}",
                self.shown()
            )
        })
    }

    /// Ends all programs; fails if any of them saw a wrong byte or a call that did not come back.
    pub(super) fn end(mut self) -> Result<()> {
        let mut faults = Vec::new();
        let shown = self.shown();
        // The connecting ends first, so that they do not find the other end gone.
        for (name, end) in [("far side", self.far.take()), ("guest", self.guest.take())] {
            let end = end.with_context(|| format!("the programs of the {name} run"))?;
            for fault in end.end()? {
                faults.push(format!("{name}: {fault}"));
            }
        }
        ensure!(faults.is_empty(), "{}\n{shown}", faults.join("\n"));
        Ok(())
    }

    /// What all programs have counted, for a message.
    fn shown(&self) -> String {
        let ends = [("guest", &self.guest), ("far side", &self.far)];
        let mut lines = Vec::new();
        for (name, end) in ends {
            let Some(end) = end else { continue };
            lines.push(format!("{name}, listening: {}", shown(&end.listening)));
            let connecting = end.connecting.iter().map(shown);
            lines.extend(connecting.map(|tally| format!("{name}, connecting: {tally}")));
        }
        lines.join("\n")
    }
}

/// Connections of the far side's alone, to a listener of the guest's.
pub(super) struct Storm {
    listening: Job,
    connecting: Job,
}

impl Storm {
    /// Begins, whether the guest can be reached or not.
    pub(super) fn begin(fixture: &Fixture<'_>, shape: Shape) -> Result<Self> {
        let listening = start(fixture.guest(), None, shape, &[])?;
        let cid = Some(fixture.guest().cid());
        let connecting = start(fixture.far(), cid, shape, &[])?;
        Ok(Self {
            listening,
            connecting,
        })
    }

    /// Waits until so many connections were made and ended in order.
    pub(super) fn completes(&self, count: u64) -> Result<()> {
        until_counted(&self.connecting, &format!("{count} connections"), |tally| {
            tally.completed >= count
        })
    }

    /// Ends it; fails if an attempt to connect was never answered.
    pub(super) fn end_without_timeouts(self) -> Result<()> {
        let (far, guest) = (finish(self.connecting)?, finish(self.listening)?);
        let late = far.errors.keys().any(|error| error.contains("ETIMEDOUT"));
        let faults = far.faults.len() + guest.faults.len();
        ensure!(!late && faults == 0, "far side: {far:?}\nguest: {guest:?}");
        Ok(())
    }
}

/// Attempts of the far side to connect to a port of the guest on which nobody listens.
pub(super) struct Attempts(Job);

impl Attempts {
    /// Begins, whether the guest can be reached or not.
    pub(super) fn begin(fixture: &Fixture<'_>) -> Result<Self> {
        let cid = Some(fixture.guest().cid());
        Ok(Self(start(fixture.far(), cid, STORM, &[])?))
    }

    /// Waits until the guest has refused so many more.
    pub(super) fn refused_more(&self, count: u64) -> Result<()> {
        let refused = |tally: &Tally| tally.errors.get("connect ECONNRESET").copied().unwrap_or(0);
        let before = refused(&tally(&self.0));
        until_counted(&self.0, &format!("{count} refused attempts"), |tally| {
            refused(tally) >= before + count
        })
    }

    /// Ends them; fails if one of them connected.
    pub(super) fn end(self) -> Result<()> {
        let tally = finish(self.0)?;
        ensure!(tally.opened == 0 && tally.faults.is_empty(), "{tally:?}");
        Ok(())
    }
}

/// Starts a program that connects to `cid`, or listens.
fn start(machine: &Machine, cid: Option<u32>, shape: Shape, options: &[&str]) -> Result<Job> {
    let Shape {
        connections,
        bytes,
        write_size,
    } = shape;
    let end = if cid.is_some() { "connect" } else { "listen" };
    let program = Program::new("vsock-peer")
        .args(["churn", end])
        .args(cid.map(|cid| format!("--cid={cid}")))
        .args([format!("--port={PORT}"), format!("--bytes={bytes}")])
        .arg(format!("--connections={connections}"))
        .arg(format!("--write-size={write_size}"))
        .args(options.iter().copied());
    Ok(machine.spawn(program)?)
}

/// Ends a program in order, and returns what it has counted.
fn finish(job: Job) -> Result<Tally> {
    job.input(b"", true)?;
    let output = job.wait(END)?;
    match last_tally(&output.stdout) {
        Some(tally) => Ok(tally),
        None => bail!("no counts ({}): {}", output.exit, output.errors()),
    }
}

impl End {
    fn start(machine: &Machine, peers: &[u32], shape: Shape, options: &[&str]) -> Result<Self> {
        let listening = start(machine, None, shape, options)?;
        let connecting = peers
            .iter()
            .map(|&cid| start(machine, Some(cid), shape, options));
        Ok(Self {
            listening,
            connecting: connecting.collect::<Result<_>>()?,
        })
    }

    fn jobs(self) -> impl Iterator<Item = Job> {
        self.connecting.into_iter().chain([self.listening])
    }

    fn check(&self, machine: &Machine) -> Result<()> {
        for job in self.connecting.iter().chain([&self.listening]) {
            if let Some(exit) = job.exit() {
                bail!(
                    "a program of {} ended by itself ({exit}): {}",
                    machine.name(),
                    job.tail()
                );
            }
        }
        Ok(())
    }

    fn kill(self) -> Result<()> {
        for job in self.jobs() {
            job.kill()?;
        }
        Ok(())
    }

    /// Ends the programs in order, and returns what they found wrong.
    fn end(self) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for job in self.jobs() {
            faults.extend(finish(job)?.faults);
        }
        Ok(faults)
    }
}

/// What a program has counted up to now.
fn tally(job: &Job) -> Tally {
    let (stdout, _) = job.said();
    last_tally(&stdout).unwrap_or_default()
}

/// Waits until a program of the far side has counted enough.
fn until_counted(job: &Job, what: &str, enough: impl Fn(&Tally) -> bool) -> Result<()> {
    let mut last = Tally::default();
    let waited = until(what, SOON, || {
        last = tally(job);
        Ok(enough(&last).then_some(()))
    });
    waited.with_context(|| format!("the far side: {last:?}"))
}

fn shown(job: &Job) -> String {
    let (stdout, stderr) = job.said();
    let told = last_tally(&stdout).map(|tally| format!("{tally:?}"));
    told.unwrap_or_else(|| String::from_utf8_lossy(&stderr).into_owned())
}

/// The last whole line of counts.
fn last_tally(stdout: &[u8]) -> Option<Tally> {
    let whole = stdout.iter().rposition(|&byte| byte == b'\n')?;
    let lines = stdout[..whole].rsplit(|&byte| byte == b'\n');
    let mut tallies = lines.filter_map(|line| match serde_json::from_slice(line) {
        Ok(Line::Churn(tally)) => Some(*tally),
        _ => None,
    });
    tallies.next()
}
