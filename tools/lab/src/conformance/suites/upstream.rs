// SPDX-License-Identifier: GPL-2.0
//! A program of `tools/testing/vsock`, run on two sides that talk over TCP about what they do.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rig::{ControlPath, Error, Job, Machine, Program, Side};

use crate::case::fixture::{Fixture, PATIENCE};
use crate::case::tap::{TestResult, Verdict};

/// The longest that a whole program may take; a case of it gives up after ten seconds.
const WHOLE: Duration = Duration::from_secs(180);

/// The vsock address of a machine's own loopback.
const LOOPBACK_CID: u32 = 1;

/// Where the two sides of a program run.
pub(super) struct Ends<'a> {
    server: &'a Machine,
    client: &'a Machine,
    /// The addresses by which they reach each other.
    server_cid: u32,
    client_cid: u32,
    control: ControlPath,
    /// The side that is the guest's, whose word counts.
    guest: Side,
}

impl<'a> Ends<'a> {
    /// The guest and the far side, of which `server` is the program's server.
    pub(super) fn between(fixture: &Fixture<'a>, server: Side) -> Self {
        let pair = fixture.pair;
        let (server_machine, client) = (pair.side(server), pair.side(server.other()));
        Self {
            server: server_machine,
            client,
            server_cid: server_machine.cid(),
            client_cid: client.cid(),
            control: pair.control_path(server).clone(),
            guest: server,
        }
    }

    /// The guest alone, over its loopback.
    pub(super) fn loopback(fixture: &Fixture<'a>) -> Self {
        const PORT: u16 = 60000;
        Self {
            server: fixture.guest(),
            client: fixture.guest(),
            server_cid: LOOPBACK_CID,
            client_cid: LOOPBACK_CID,
            control: ControlPath {
                listen: PORT,
                host: "127.0.0.1".into(),
                port: PORT,
            },
            guest: Side::Far,
        }
    }

    /// Whether the guest's side is the server.
    fn guest_serves(&self) -> bool {
        self.guest == Side::Dut
    }
}

/// A case of a program, as it printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Its number, by which the program picks or skips it.
    pub number: usize,
    /// What it is about.
    pub name: String,
    /// How it went.
    pub end: End,
    /// How long it took, unless it broke.
    pub took: Option<Duration>,
}

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Well.
    Ok,
    /// It was not wanted.
    Skipped,
    /// The program ended in it.
    Broke,
}

/// A run of a program.
pub(super) struct Ran {
    /// What the guest's side printed of each case.
    pub tests: Vec<Test>,
    /// Both sides said at their end that all was well.
    pub well: bool,
    /// The last words of both.
    pub said: String,
}

impl Ran {
    /// Fails if what came after the last case did not go well, or if there was none.
    pub(super) fn whole(&self) -> Result<()> {
        let last = self.tests.last();
        let last = last.with_context(|| format!("no case was run:\n{}", self.said))?;
        ensure!(
            self.well || last.end == End::Broke,
            "every case went well, and the program did not end well:\n{}",
            self.said
        );
        Ok(())
    }

    /// What came of each case.
    pub(super) fn results(&self) -> Vec<TestResult> {
        let result = |test: &Test| TestResult {
            name: format!("{} {}", test.number, test.name),
            verdict: match test.end {
                End::Ok => Verdict::Pass,
                End::Skipped => Verdict::Skip("the program skipped it".into()),
                End::Broke => Verdict::Fail(self.said.clone()),
            },
            took: test.took,
        };
        self.tests.iter().map(result).collect()
    }
}

/// Runs a program on both sides with the cases that `select` leaves.
pub(super) fn run(program: &str, ends: &Ends<'_>, select: &[String]) -> Result<Ran> {
    let control = &ends.control;
    let serving = Program::new(program)
        .arg("--mode=server")
        .arg(format!("--control-port={}", control.listen))
        .arg(format!("--peer-cid={}", ends.client_cid))
        .args(select);
    let mut serving = ends.server.spawn(serving)?;
    serving.wait_line("the control socket to listen", PATIENCE, |line| {
        line.starts_with("Control socket listening").then_some(())
    })?;
    let asking = Program::new(program)
        .arg("--mode=client")
        .arg(format!("--control-host={}", control.host))
        .arg(format!("--control-port={}", control.port))
        .arg(format!("--peer-cid={}", ends.server_cid))
        .args(select);
    let mut asking = ends.client.spawn(asking)?;

    let times = times(match ends.guest_serves() {
        true => &mut serving,
        false => &mut asking,
    })?;
    let asked = asking.wait(WHOLE).context("waiting for the client")?;
    // The server notices at once that its client is gone.
    let served = serving.wait(WHOLE).context("waiting for the server")?;
    let guest = match ends.guest_serves() {
        true => &served,
        false => &asked,
    };
    let mut tests = parse(&guest.text());
    for (test, took) in tests.iter_mut().zip(times) {
        test.took = Some(took);
    }
    Ok(Ran {
        tests,
        well: asked.exit.success() && served.exit.success(),
        said: format!(
            "server ({}): {}\nclient ({}): {}",
            served.exit,
            last_words(&served.text(), &served.errors()),
            asked.exit,
            last_words(&asked.text(), &asked.errors()),
        ),
    })
}

/// Follows a program to its end; returns how long each case took that came to its end.
fn times(job: &mut Job) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    loop {
        let since = Instant::now();
        let line = job.wait_line("the end of a case", WHOLE, |line| {
            let ended = parse(line)
                .first()
                .is_some_and(|test| test.end != End::Broke);
            let all = line.starts_with("All tests have been executed");
            (ended || all).then_some(ended)
        });
        match line {
            Ok(true) => times.push(since.elapsed()),
            Ok(false) | Err(Error::ProgramFailed { .. }) => return Ok(times),
            Err(error) => bail!(error),
        }
    }
}

fn last_words(out: &str, err: &str) -> String {
    let last = out.lines().last().unwrap_or_default();
    [last, err.trim()].join(" ").trim().to_owned()
}

/// Reads lines of the form `7 - NAME...ok`, of which the last may lack its end.
fn parse(text: &str) -> Vec<Test> {
    let test = |line: &str| {
        let (number, rest) = line.split_once(" - ")?;
        let (name, end) = rest.rsplit_once("...")?;
        let end = match end.trim() {
            "ok" => End::Ok,
            "skipped" => End::Skipped,
            _ => End::Broke,
        };
        Some(Test {
            number: number.parse().ok()?,
            name: name.to_owned(),
            end,
            took: None,
        })
    };
    text.lines().filter_map(test).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_found() {
        let text = "Control socket listening on 0.0.0.0:1234\n\
                    0 - SOCK_STREAM connection reset...ok\n\
                    1 - SOCK_STREAM ioctl(SIOCOUTQ) 0 unsent bytes...skipped\n\
                    2 - SOCK_STREAM bind only...";
        let tests = parse(text);
        let ends: Vec<(usize, End)> = tests.iter().map(|test| (test.number, test.end)).collect();
        assert_eq!(ends, [(0, End::Ok), (1, End::Skipped), (2, End::Broke)]);
        assert_eq!(tests[1].name, "SOCK_STREAM ioctl(SIOCOUTQ) 0 unsent bytes");
    }

    #[test]
    fn the_end_of_the_program_is_no_case() {
        assert!(parse("All tests have been executed. Waiting other peer...ok").is_empty());
    }

    fn ran(end: End, well: bool) -> Ran {
        let text = "0 - connection reset...";
        let mut tests = parse(text);
        tests[0].end = end;
        let said = "server: lost".into();
        Ran { tests, well, said }
    }

    #[test]
    fn a_bad_end_behind_good_cases_is_not_good() {
        assert!(ran(End::Ok, true).whole().is_ok());
        assert!(ran(End::Ok, false).whole().is_err());
        assert!(ran(End::Broke, false).whole().is_ok());
    }

    #[test]
    fn the_case_in_which_it_broke_has_failed() {
        let results = ran(End::Broke, false).results();
        assert_eq!(results[0].verdict, Verdict::Fail("server: lost".into()));
    }
}
