// SPDX-License-Identifier: GPL-2.0
//! One driver's turn at a case, and what has to be done before and after it.

use std::time::Instant;

use anyhow::{Context as _, Result};
use rig::{Driver, RigKind};

use super::fixture::{Fixture, Subject};
use super::messages::Watch;
use super::tap::{TestResult, Verdict};
use super::{Case, Outcome};

/// Makes a booted pair ready for the first turn.
pub(crate) fn begin(fixture: &Fixture<'_>) -> Result<()> {
    if fixture.pair.kind() == RigKind::Wire {
        let far = fixture.far().use_driver(&Driver::c());
        far.context("loading the C driver on the far side")?;
    }
    fixture.settle()
}

/// What came of a turn.
pub(crate) struct Turn {
    /// Its results: one, or one for each test that the case consists of.
    pub results: Vec<TestResult>,
    /// The case broke off, and may have left anything behind.
    pub broke: bool,
}

/// Takes the turn.
pub(crate) fn take(fixture: &Fixture<'_>, case: &Case) -> Turn {
    let begin = Instant::now();
    let outcome = outcome(fixture, case);
    let name = format!("{}: {}", fixture.pair.kind(), case.title());
    let one = |verdict| TestResult {
        name: name.clone(),
        verdict,
        took: Some(begin.elapsed()),
    };
    let broke = outcome.is_err();
    let results = match outcome {
        Ok(Outcome::Holds) => vec![one(Verdict::Pass)],
        Ok(Outcome::Skipped(why)) => vec![one(Verdict::Skip(why))],
        Ok(Outcome::Each(tests)) => {
            let tests = tests.into_iter().map(|test| TestResult {
                name: format!("{name}: {}", test.name),
                ..test
            });
            tests.collect()
        }
        Err(error) => vec![one(Verdict::Fail(format!("{error:#}")))],
    };
    Turn { results, broke }
}

fn outcome(fixture: &Fixture<'_>, case: &Case) -> Result<Outcome> {
    if case.ours_only && fixture.subject == Subject::C {
        return Ok(Outcome::Skipped("the C driver has no such thing".into()));
    }
    fixture.settle()?;
    let watch = Watch::begin(fixture)?;
    let outcome = case.run(fixture)?;
    watch.end(&case.provokes)?;
    Ok(outcome)
}

/// What a case that broke off left behind must not fail the next one: either the driver, loaded anew,
/// still moves bytes, or this boot is over.
pub(crate) fn recover(fixture: &Fixture<'_>) -> Result<()> {
    // What failed may be the first sign of a CPU that stands still.
    fixture.pair.check_hearts()?;
    fixture.reload([])?;
    let works = fixture.works();
    works.context("the last failure left the guest without a working driver")
}
