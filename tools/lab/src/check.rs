// SPDX-License-Identifier: GPL-2.0
//! `lab check`: proves a build, on the wire rig and then, shortly, against a real vhost-vsock.
//!
//! A new check is a [`case::Case`] in the table of the file whose noun it is about, and a new noun is
//! a file and a line in [`cases`].

mod build;
mod counters;
mod device;
mod hostile;
mod load;
mod refusal;
mod reload;
mod run;
mod transfer;

use std::path::PathBuf;

use anyhow::Result;
use regex::Regex;
use rig::{Rig, RigKind, Stalls};

use crate::case::fixture::Subject;
use crate::case::tap::Tap;
use crate::case::{Case, boots, table};
use crate::services;
use crate::workbench::Workbench;
use run::Runner;

/// The table of everything that is checked, in the order in which it is.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = table([
        ("load", load::cases()),
        ("transfer", transfer::cases()),
        ("counters", counters::cases()),
        ("refusal", refusal::cases()),
        ("reload", reload::cases()),
        ("device", device::cases()),
        ("hostile", hostile::cases()),
    ]);
    cases.extend(crate::conformance::quick_cases());
    cases
}

/// What to check.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only on this rig: wire, nested or kvm. Otherwise on the wire, then shortly on a real host.
    #[arg(long)]
    rig: Option<RigKind>,
    /// Only cases whose name, as --list shows it, matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// Print the names of the cases and end.
    #[arg(long)]
    list: bool,
    /// Everything on every rig, instead of the short pass against a real host.
    #[arg(long)]
    full: bool,
    /// Check this build of the module, instead of building it; nothing else of the sources is checked.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The driver to check; with c, it is the checks that are put to the test.
    #[arg(long, value_enum, default_value = "rust")]
    driver: Subject,
}

impl Options {
    /// The cases to run on a rig, without what was not asked for, by the boots that they share.
    fn boots(&self, kind: RigKind) -> Vec<Vec<Case>> {
        let short = kind != RigKind::Wire && !self.full;
        let mut cases = cases();
        cases.retain(|case| {
            let belongs = if short { case.short } else { case.whole };
            belongs && case.runs_on(kind) && self.wanted(&case.title())
        });
        // Where the emulation stalls, a boot's life has to be short.
        boots(cases, kind == RigKind::Nested && !short)
    }

    fn wanted(&self, title: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(title))
    }

    fn list(&self) {
        build::names()
            .filter(|name| self.wanted(name))
            .for_each(|name| println!("{name}"));
        let boots = self.boots(self.rig.unwrap_or(RigKind::Wire));
        for case in boots.iter().flatten() {
            println!("{}", case.title());
        }
    }
}

/// Checks; returns whether everything passed.
pub(crate) fn check(options: &Options) -> Result<bool> {
    if options.list {
        options.list();
        return Ok(true);
    }
    let workbench = Workbench::open("check")?;
    let kinds = match options.rig {
        Some(kind) => vec![kind],
        None => workbench.choice.kinds(),
    };
    let module = match options.driver {
        Subject::Rust => Some(workbench.module_or(options.module.as_ref())?),
        Subject::C => None,
    };
    let mut tap = Tap::new(std::io::stdout(), workbench.progress.clone());
    tap.note(&format!(
        "kernel {}; {}",
        workbench.kernel.release(),
        workbench.choice.why()
    ));
    let mut stalls = Stalls::default();
    if options.driver == Subject::Rust && options.module.is_none() {
        build::run(
            &workbench,
            |title| options.wanted(title),
            |result| tap.result(result),
        );
    }
    for kind in kinds {
        for boot in options.boots(kind) {
            let mut config = workbench.rig_config(module.as_deref());
            config.lab_root = true;
            config.setup = boot[0].setup.clone();
            config.wire_options.extend(services::options());
            let rig = Rig::open(kind, config, &workbench.run, &workbench.progress)?;
            let mut runner = Runner {
                tap: &mut tap,
                rig: &rig,
                subject: options.driver,
                stalls: &mut stalls,
                progress: &workbench.progress,
            };
            runner.run(&boot);
        }
    }
    tap.note(&format!(
        "{stalls}; logs are in {}",
        workbench.run.path().display()
    ));
    Ok(tap.finish())
}
