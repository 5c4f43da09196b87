// SPDX-License-Identifier: GPL-2.0
//! What is checked without a guest: lints, formatting, documentation, unit tests.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;
use rig::logged;

use crate::case::tap::{TestResult, Verdict};
use crate::workbench::Workbench;

/// One command whose success is a test.
struct Step {
    name: &'static str,
    command: fn(&Workbench) -> Command,
}

/// The commands, the quick ones first.
const STEPS: [Step; 6] = [
    Step {
        name: "the module's sources are formatted",
        command: |bench| make(bench, "fmt-check"),
    },
    Step {
        name: "the tools' sources are formatted",
        command: |bench| cargo(bench, "fmt", &["--all", "--check"]),
    },
    Step {
        name: "the kernel's lints find nothing in the module",
        command: |bench| make(bench, "clippy"),
    },
    Step {
        name: "the module's documentation builds without a warning",
        command: |bench| make(bench, "doc"),
    },
    Step {
        name: "clippy finds nothing in the tools",
        command: |bench| cargo(bench, "clippy", &["--all-targets", "--", "-D", "warnings"]),
    },
    Step {
        name: "the tools' unit tests pass",
        command: |bench| cargo(bench, "test", &["--quiet"]),
    },
];

/// The names of the tests, for a list.
pub(crate) fn names() -> impl Iterator<Item = String> {
    STEPS.iter().map(title)
}

/// Runs those that are wanted.
pub(crate) fn run(
    workbench: &Workbench,
    wanted: impl Fn(&str) -> bool,
    mut report: impl FnMut(&TestResult),
) {
    for step in STEPS.iter().filter(|step| wanted(&title(step))) {
        let begin = Instant::now();
        let verdict = match attempt(workbench, step) {
            Ok(()) => Verdict::Pass,
            Err(error) => Verdict::Fail(format!("{error:#}")),
        };
        report(&TestResult {
            name: title(step),
            verdict,
            took: Some(begin.elapsed()),
        });
    }
}

fn title(step: &Step) -> String {
    format!("build: {}", step.name)
}

fn attempt(workbench: &Workbench, step: &Step) -> Result<()> {
    let shown = workbench.progress.step(step.name);
    let log = workbench.run.path().join("build.log");
    logged(&mut (step.command)(workbench), &log, &shown)?;
    shown.done();
    Ok(())
}

fn make(workbench: &Workbench, target: &str) -> Command {
    let mut make = workbench.make();
    make.arg(target);
    make
}

fn cargo(workbench: &Workbench, command: &str, args: &[&str]) -> Command {
    let manifest = workbench.checkout.top().join("tools/Cargo.toml");
    let mut cargo = Command::new("cargo");
    cargo
        .arg(command)
        .arg("--manifest-path")
        .arg(manifest)
        .args(args);
    cargo
}
