// SPDX-License-Identifier: GPL-2.0
//! The kernel's own `vsock_test`, each of its cases as a test of its own.

use anyhow::Result;
use rig::{Driver, GuestSetup, RigKind, Side};

use super::upstream::{self, End, Ends, Test};
use crate::case::fixture::{Fixture, Subject};
use crate::case::tap::{TestResult, Verdict};
use crate::case::{Case, Outcome};

/// After so many failed cases the rest is not tried: each takes its time to fail, and once more with the
/// C driver.
const ENOUGH: usize = 5;

/// Entries of a ring that is full most of the time; with fewer, the kernel cannot send the largest
/// packets without a copy, and the suite asks for that.
const NARROW: u16 = 32;

const PROGRAM: &str = "vsock_test";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let case = |(role, server), rings: &str| {
        let name = format!("{PROGRAM} with the guest as {role}{rings}");
        Case::with_outcome(name, move |fixture: &Fixture<'_>| {
            suite(fixture, &Ends::between(fixture, server)).map(Outcome::Each)
        })
    };
    let roles = [("client", Side::Far), ("server", Side::Dut)];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(roles.map(|role| case(role, "").quick().short()));
    let loopback = format!("{PROGRAM} over the guest's loopback, with the driver loaded");
    cases.push(Case::with_outcome(loopback, over_loopback));
    let narrow = GuestSetup::default().ring(NARROW).without_indirect();
    cases.extend(roles.map(|role| {
        let rings = format!(", rings of {NARROW} and no indirect descriptors");
        let case = case(role, &rings).setup(narrow.clone());
        case.only_on([RigKind::Wire])
    }));
    cases
}

fn over_loopback(fixture: &Fixture<'_>) -> Result<Outcome> {
    const LOOPBACK: &str = "vsock_loopback";
    fixture.guest().need(LOOPBACK)?;
    let results = suite(fixture, &Ends::loopback(fixture));
    // Left in, it would answer for addresses that other cases expect nobody at.
    fixture.unload_module(LOOPBACK)?;
    results.map(Outcome::Each)
}

/// A case that was tried.
struct Tried {
    test: Test,
    verdict: Verdict,
}

/// Runs every case; one that fails ends the program, which is then started again behind it.
fn suite(fixture: &Fixture<'_>, ends: &Ends<'_>) -> Result<Vec<TestResult>> {
    let mut tried: Vec<Tried> = Vec::new();
    let mut failed = 0;
    let complete = loop {
        let skip = tried
            .iter()
            .map(|case| format!("--skip={}", case.test.number));
        let ran = upstream::run(PROGRAM, ends, &skip.collect::<Vec<_>>())?;
        ran.whole()?;
        let broke = ran.tests.last().is_some_and(|last| last.end == End::Broke);
        for test in ran.tests {
            let verdict = match test.end {
                End::Ok => Verdict::Pass,
                End::Broke => Verdict::Fail(ran.said.clone()),
                End::Skipped => continue,
            };
            tried.push(Tried { test, verdict });
        }
        if !broke {
            break true;
        }
        failed += 1;
        if failed == ENOUGH {
            break false;
        }
    };
    if failed > 0 && fixture.compare && fixture.subject != Subject::C {
        compare_with_c(fixture, ends, &mut tried)?;
    }
    tried.sort_by_key(|case| case.test.number);
    let result = |case: Tried| TestResult {
        name: format!("{} {}", case.test.number, case.test.name),
        verdict: case.verdict,
        took: case.test.took,
    };
    let mut results: Vec<TestResult> = tried.into_iter().map(result).collect();
    if !complete {
        let why = format!("not run: {failed} cases have failed");
        results.push(TestResult {
            name: "the cases after these".into(),
            verdict: Verdict::Fail(why),
            took: None,
        });
    }
    Ok(results)
}

/// Tries what failed once more with the C driver, in the same boot.
fn compare_with_c(fixture: &Fixture<'_>, ends: &Ends<'_>, tried: &mut [Tried]) -> Result<()> {
    fixture.use_driver(&Driver::c())?;
    for case in tried {
        if let Verdict::Fail(why) = &case.verdict {
            let number = case.test.number;
            let ran = upstream::run(PROGRAM, ends, &[format!("--pick={number}")])?;
            let broke = |test: &Test| test.number == number && test.end == End::Broke;
            if ran.tests.iter().any(broke) {
                let both = format!("{why}\nthe C driver:\n{}", ran.said);
                case.verdict = Verdict::FailsWithC(both);
            }
        }
    }
    fixture.reload([])
}
