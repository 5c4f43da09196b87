// SPDX-License-Identifier: GPL-2.0
//! The kernel's own `vsock_test`, each of its cases as a test of its own.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rig::{Driver, GuestSetup, Program, RigKind, Side};

use crate::case::fixture::{Fixture, PATIENCE, Subject};
use crate::case::tap::{TestResult, Verdict};
use crate::case::{Case, Outcome};

/// The longest that the whole program may take; a case of it gives up after ten seconds.
const WHOLE: Duration = Duration::from_secs(180);

/// After so many failed cases the rest is not tried: each takes its time to fail, and once more with the
/// C driver.
const ENOUGH: usize = 5;

/// Entries of a ring that is full most of the time; with fewer, the kernel cannot send the largest
/// packets without a copy, and the suite asks for that.
const NARROW: u16 = 32;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let case = |(role, server), rings: &str| {
        let name = format!("vsock_test with the guest as {role}{rings}");
        Case::with_outcome(name, move |fixture: &Fixture<'_>| {
            suite(fixture, server).map(Outcome::Each)
        })
    };
    let roles = [("client", Side::Far), ("server", Side::Dut)];
    let usual = roles.map(|role| case(role, "").quick().short());
    let narrow = GuestSetup::default().ring(NARROW).without_indirect();
    let narrow = roles.map(|role| {
        let rings = format!(", rings of {NARROW} and no indirect descriptors");
        let case = case(role, &rings).setup(narrow.clone());
        case.only_on([RigKind::Wire])
    });
    usual.into_iter().chain(narrow).collect()
}

/// A case of `vsock_test`, as it printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ran {
    number: usize,
    name: String,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ok,
    Skipped,
    /// The program ended in it.
    Broke,
}

/// A case that was tried.
struct Tried {
    number: usize,
    name: String,
    verdict: Verdict,
}

/// Runs every case; one that fails ends the program, which is then started again behind it.
fn suite(fixture: &Fixture<'_>, server: Side) -> Result<Vec<TestResult>> {
    let mut tried: Vec<Tried> = Vec::new();
    let mut failed = 0;
    let complete = loop {
        let skip = tried.iter().map(|case| format!("--skip={}", case.number));
        let (ran, said) = run(fixture, server, &skip.collect::<Vec<_>>())?;
        for case in &ran {
            let verdict = match case.end {
                End::Ok => Verdict::Pass,
                End::Broke => Verdict::Fail(said.clone()),
                End::Skipped => continue,
            };
            let (number, name) = (case.number, case.name.clone());
            tried.push(Tried {
                number,
                name,
                verdict,
            });
        }
        match ran.last() {
            None => bail!("vsock_test ran no case:\n{said}"),
            Some(last) if last.end == End::Broke => failed += 1,
            Some(_) => break true,
        }
        if failed == ENOUGH {
            break false;
        }
    };
    if failed > 0 && fixture.compare && fixture.subject != Subject::C {
        compare_with_c(fixture, server, &mut tried)?;
    }
    tried.sort_by_key(|case| case.number);
    let test = |name, verdict| TestResult {
        name,
        verdict,
        took: None,
    };
    let named = tried.into_iter();
    let named = named.map(|case| test(format!("{} {}", case.number, case.name), case.verdict));
    let mut named: Vec<TestResult> = named.collect();
    if !complete {
        let why = format!("not run: {failed} cases have failed");
        named.push(test("the cases after these".into(), Verdict::Fail(why)));
    }
    Ok(named)
}

/// Tries what failed once more with the C driver, in the same boot.
fn compare_with_c(fixture: &Fixture<'_>, server: Side, tried: &mut [Tried]) -> Result<()> {
    fixture.use_driver(&Driver::c())?;
    for case in tried {
        if let Verdict::Fail(why) = &case.verdict {
            let (ran, said) = run(fixture, server, &[format!("--pick={}", case.number)])?;
            let broke = |ran: &Ran| ran.number == case.number && ran.end == End::Broke;
            if ran.iter().any(broke) {
                let both = format!("{why}\nthe C driver:\n{said}");
                case.verdict = Verdict::FailsWithC(both);
            }
        }
    }
    fixture.reload([])
}

/// Runs `vsock_test` on both sides with the cases that `select` leaves; returns what the guest's side printed
/// of each case, and what both said when it did not go well.
fn run(fixture: &Fixture<'_>, server_side: Side, select: &[String]) -> Result<(Vec<Ran>, String)> {
    let (server, client) = (
        fixture.pair.side(server_side),
        fixture.pair.side(server_side.other()),
    );
    let control = fixture.pair.control_path(server_side);

    let serving = Program::new("vsock_test")
        .arg("--mode=server")
        .arg(format!("--control-port={}", control.listen))
        .arg(format!("--peer-cid={}", client.cid()))
        .args(select);
    let mut serving = server.spawn(serving)?;
    serving.wait_line("the control socket to listen", PATIENCE, |line| {
        line.starts_with("Control socket listening").then_some(())
    })?;
    let asking = Program::new("vsock_test")
        .arg("--mode=client")
        .arg(format!("--control-host={}", control.host))
        .arg(format!("--control-port={}", control.port))
        .arg(format!("--peer-cid={}", server.cid()))
        .args(select);
    let asking = client.spawn(asking)?;

    let asked = asking
        .wait(WHOLE)
        .context("waiting for vsock_test's client")?;
    // The server notices at once that its client is gone.
    let served = serving
        .wait(WHOLE)
        .context("waiting for vsock_test's server")?;
    let guest = match server_side {
        Side::Dut => &served,
        Side::Far => &asked,
    };
    let ran = parse(&guest.text());
    let said = format!(
        "server ({}): {}\nclient ({}): {}",
        served.exit,
        last_words(&served.text(), &served.errors()),
        asked.exit,
        last_words(&asked.text(), &asked.errors()),
    );
    Ok((ran, said))
}

fn last_words(out: &str, err: &str) -> String {
    let last = out.lines().last().unwrap_or_default();
    [last, err.trim()].join(" ").trim().to_owned()
}

/// Reads lines of the form `7 - NAME...ok`, of which the last may lack its end.
fn parse(text: &str) -> Vec<Ran> {
    let case = |line: &str| {
        let (number, rest) = line.split_once(" - ")?;
        let (name, end) = rest.rsplit_once("...")?;
        let end = match end.trim() {
            "ok" => End::Ok,
            "skipped" => End::Skipped,
            _ => End::Broke,
        };
        Some(Ran {
            number: number.parse().ok()?,
            name: name.to_owned(),
            end,
        })
    };
    text.lines().filter_map(case).collect()
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
        let ran: Vec<(usize, End)> = parse(text)
            .iter()
            .map(|ran| (ran.number, ran.end))
            .collect();
        assert_eq!(ran, [(0, End::Ok), (1, End::Skipped), (2, End::Broke)]);
        assert_eq!(
            parse(text)[1].name,
            "SOCK_STREAM ioctl(SIOCOUTQ) 0 unsent bytes"
        );
    }

    #[test]
    fn the_end_of_the_program_is_no_case() {
        assert!(parse("All tests have been executed. Waiting other peer...ok").is_empty());
    }
}
