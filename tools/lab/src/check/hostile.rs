// SPDX-License-Identifier: GPL-2.0
//! A device that breaks the rules: the quick half of `lab hostile`, without its control.

use std::time::Instant;

use anyhow::{Context as _, Result};
use rig::{Checkout, RigKind};

use crate::case::fixture::Fixture;
use crate::case::tap::{TestResult, Verdict};
use crate::case::{Case, Outcome};
use crate::hostile::script;
use crate::hostile::stage::Stage;

/// The scripts that are played here.
const QUICK: [&str; 9] = [
    "used-length-short",
    "used-length-long",
    "header-length",
    "unknown-flows",
    "types",
    "credit-overflow",
    "credit-overflow-in-batch",
    "payload-after-reset",
    "replies-pile-up",
];

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let case = Case::with_outcome(
        "what the device sends does no harm, and is answered as it should be",
        scripts,
    );
    vec![case.only_on([RigKind::Wire]).debug()]
}

fn scripts(fixture: &Fixture<'_>) -> Result<Outcome> {
    let wire = fixture.pair.wire().context("this rig has no wire")?;
    let scripts = script::all(&Checkout::find()?)?;
    let mut stage = Stage::set(fixture.guest(), wire, fixture.subject)?;
    let mut results = Vec::new();
    for name in QUICK {
        let script = scripts.iter().find(|script| script.name == name);
        let script = script.with_context(|| format!("there is no script {name}"))?;
        let begin = Instant::now();
        let seen = stage.play(script).with_context(|| name.to_owned())?;
        results.push(TestResult {
            name: name.to_owned(),
            verdict: match &seen.faults[..] {
                [] => Verdict::Pass,
                faults => Verdict::Fail(faults.join("\n")),
            },
            took: Some(begin.elapsed()),
        });
    }
    Ok(Outcome::Each(results))
}
