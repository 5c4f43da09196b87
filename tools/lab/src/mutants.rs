// SPDX-License-Identifier: GPL-2.0
//! `lab mutants`: takes one thing out of the driver at a time, and finds out whether a test notices.
//!
//! The list is `tools/lab/mutants.toml`. A mutant that no test notices is alive, and that fails the
//! run, unless the list says in a sentence why it cannot be seen.

mod build;
mod list;
mod table;
mod trial;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use rig::{RigKind, Stalls};

use crate::case::Case;
use crate::workbench::Workbench;
use build::Nursery;
use list::{Kernel, Mutant};
use table::{Row, Table};

/// Which mutants to try.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only mutants whose name matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// Print the names of the mutants, with what should notice them, and end.
    #[arg(long)]
    list: bool,
}

/// A mutant, and the cases that should notice it.
struct Suspect {
    mutant: Mutant,
    /// Places in the table of all cases.
    cases: Vec<usize>,
}

/// Every case that could notice one.
fn pool() -> Vec<Case> {
    let mut cases = crate::debug::own_cases();
    let others = crate::check::cases().into_iter();
    for case in others.chain(crate::conformance::cases()) {
        if !cases.iter().any(|known| known.title() == case.title()) {
            cases.push(case);
        }
    }
    cases
}

/// Tries the mutants; returns whether each is killed, or excused.
pub(crate) fn mutants(options: &Options) -> Result<bool> {
    let cases = pool();
    let mut suspects = Vec::new();
    for mutant in list::read()? {
        let wanted = |pattern: &Regex| pattern.is_match(&mutant.name);
        if !options.only.as_ref().is_none_or(wanted) {
            continue;
        }
        let noticing = noticing(&mutant, &cases)
            .with_context(|| format!("mutant {:?} of {}", mutant.name, list::PLACE))?;
        let cases = noticing;
        suspects.push(Suspect { mutant, cases });
    }
    ensure!(
        !suspects.is_empty(),
        "no mutant matches; `--list` shows those that there are"
    );
    if options.list {
        for suspect in &suspects {
            println!("{}", suspect.mutant.name);
            for case in &suspect.cases {
                println!("    {}", cases[*case].title());
            }
        }
        return Ok(true);
    }
    let mut table = Table::default();
    for kernel in [Kernel::Stock, Kernel::Debug] {
        let (these, rest) = suspects
            .into_iter()
            .partition(|suspect: &Suspect| suspect.mutant.kernel == kernel);
        suspects = rest;
        try_all(kernel, these, &cases, &mut table)?;
    }
    Ok(table.finish())
}

/// The cases that should notice a mutant: at least one for each of its patterns.
fn noticing(mutant: &Mutant, cases: &[Case]) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for pattern in &mutant.tests {
        let pattern = Regex::new(pattern)?;
        let fits = |case: &Case| pattern.is_match(&case.title()) && case.is_plain(RigKind::Wire);
        let places = (0..cases.len()).filter(|place| fits(&cases[*place]));
        let before = found.len();
        found.extend(places);
        ensure!(
            found.len() > before,
            "no case that can share a boot on the wire rig matches {pattern}"
        );
    }
    Ok(found)
}

/// Tries the mutants of one kernel.
fn try_all(
    kernel: Kernel,
    suspects: Vec<Suspect>,
    cases: &[Case],
    table: &mut Table,
) -> Result<()> {
    if suspects.is_empty() {
        return Ok(());
    }
    let bench = match kernel {
        Kernel::Stock => Workbench::open("mutants")?,
        Kernel::Debug => Workbench::open_with("mutants", "debug")?,
    };
    let honest = bench.module()?;
    let nursery = Nursery::new(&bench)?;
    let mut built = Vec::new();
    let step = bench.progress.step("building the mutants");
    for (number, suspect) in suspects.iter().enumerate() {
        let name = &suspect.mutant.name;
        step.detail(format!("{} of {}: {name}", number + 1, suspects.len()));
        let file = nursery.build(&suspect.mutant, number);
        built.push(file.with_context(|| format!("building the mutant {name:?}"))?);
    }
    step.done();
    let mut stalls = Stalls::default();
    let trials = trial::Trials {
        bench: &bench,
        honest: &honest,
        suspects: &suspects,
        built: &built,
        cases,
    };
    for (suspect, fate) in suspects.iter().zip(trials.run(&mut stalls)?) {
        table.add(Row {
            mutant: suspect.mutant.clone(),
            fate,
        });
    }
    bench.progress.say(format!(
        "{stalls}; logs are in {}",
        bench.run.path().display()
    ));
    Ok(())
}
