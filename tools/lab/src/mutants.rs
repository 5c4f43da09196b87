// SPDX-License-Identifier: GPL-2.0
//! `lab mutants`: takes one thing out of the driver at a time, and finds out whether a test notices.
//!
//! The list is `tools/lab/mutants.toml`. A mutant that no test notices is alive, and that fails the
//! run, unless the list says in a sentence why it cannot be seen.

mod build;
mod list;
mod table;
mod trial;

use anyhow::{Context as _, Result, bail, ensure};
use regex::Regex;
use rig::{GuestSetup, RigKind, Stalls};

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
    /// The guest that all of these cases need.
    setup: GuestSetup,
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
        let (setup, cases) = noticing;
        suspects.push(Suspect {
            mutant,
            setup,
            cases,
        });
    }
    // Those for the same guest next to each other, and those for the ordinary one first.
    suspects.sort_by(|one: &Suspect, other| one.setup.cmp(&other.setup));
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

/// The cases that should notice a mutant, at least one for each of its patterns, and the guest that they
/// share: an ordinary one, if that will do.
fn noticing(mutant: &Mutant, cases: &[Case]) -> Result<(GuestSetup, Vec<usize>)> {
    let patterns = mutant.tests.iter().map(|pattern| Regex::new(pattern));
    let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
    let matching = |pattern: &Regex, setup: &GuestSetup| -> Vec<usize> {
        let fits =
            |case: &Case| pattern.is_match(&case.title()) && case.can_share(RigKind::Wire, setup);
        let places = 0..cases.len();
        places.filter(|place| fits(&cases[*place])).collect()
    };
    let ordinary = GuestSetup::default();
    let odd = cases.iter().map(|case| &case.setup);
    for setup in std::iter::once(&ordinary).chain(odd) {
        let found = patterns.iter().map(|pattern| matching(pattern, setup));
        let found: Vec<Vec<usize>> = found.collect();
        if found.iter().all(|places| !places.is_empty()) {
            return Ok((setup.clone(), found.concat()));
        }
    }
    bail!(
        "no guest of the wire rig has cases to share a boot that match each of {:?}",
        mutant.tests
    )
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
    let mut rest = &built[..];
    // Those with the same guest share its boots.
    for suspects in suspects.chunk_by(|one, next| one.setup == next.setup) {
        let (built, others) = rest.split_at(suspects.len());
        rest = others;
        let trials = trial::Trials {
            bench: &bench,
            honest: &honest,
            suspects,
            built,
            cases,
        };
        for (suspect, fate) in suspects.iter().zip(trials.run(&mut stalls)?) {
            table.add(Row {
                mutant: suspect.mutant.clone(),
                fate,
            });
        }
    }
    bench.progress.say(format!(
        "{stalls}; logs are in {}",
        bench.run.path().display()
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(tests: &[&str]) -> Mutant {
        Mutant {
            name: "no lock".into(),
            file: "rust/x.rs".into(),
            find: "1".into(),
            replace: "2".into(),
            tests: tests.iter().map(ToString::to_string).collect(),
            kernel: Kernel::Stock,
            alive: None,
        }
    }

    fn cases() -> Vec<Case> {
        let case = |name: &str| Case::new(name, |_| Ok(()));
        let odd = || GuestSetup::default().without_indirect();
        let cases = vec![case("a"), case("b").setup(odd()), case("ab").setup(odd())];
        crate::case::table([("one", cases)])
    }

    #[test]
    fn every_mutant_of_the_list_has_cases() {
        let cases = pool();
        for mutant in list::read().unwrap() {
            noticing(&mutant, &cases).unwrap();
        }
    }

    #[test]
    fn an_ordinary_guest_is_taken_if_it_will_do() {
        let find = |tests: &[&str]| noticing(&suspect(tests), &cases());
        let (setup, places) = find(&["a$"]).unwrap();
        assert_eq!((setup, places), (GuestSetup::default(), vec![0]));
        let (setup, places) = find(&["a", "b"]).unwrap();
        assert_eq!(places, [2, 1, 2]);
        assert_ne!(setup, GuestSetup::default());
        assert!(find(&["^one: a$", "^one: b$"]).is_err());
        assert!(find(&["c"]).is_err());
    }
}
