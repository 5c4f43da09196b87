// SPDX-License-Identifier: GPL-2.0
//! `lab conformance`: what applications and operators do to vsock, with the C driver and with ours in
//! the same boot, and a matrix of both.
//!
//! A new case is a [`Case`] in the table of the file whose noun it is about.

mod blocking;
mod capture;
mod debian;
mod device;
mod events;
mod faults;
mod matrix;
mod programs;
mod run;
mod samples;
mod sockmap;
mod suites;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use regex::Regex;
use rig::{Rig, RigKind, Stalls};

use crate::case::fixture::Length;
use crate::case::tap::Tap;
use crate::case::{Case, boots, table};
use crate::services;
use crate::workbench::Workbench;
pub(crate) use matrix::Matrix;
pub(crate) use run::Runner;

/// Every case, in the order in which they are run.
pub(crate) fn cases() -> Vec<Case> {
    table([
        ("suites", suites::cases()),
        ("programs", programs::cases()),
        ("capture", capture::cases()),
        ("sockmap", sockmap::cases()),
        ("samples", samples::cases()),
        ("events", events::cases()),
        ("faults", faults::cases()),
    ])
}

/// Those that are quick enough to be a part of `lab check`.
pub(crate) fn quick_cases() -> Vec<Case> {
    let mut cases = cases();
    cases.retain(|case| case.quick);
    // The short pass of `lab check` has to stay one; a real host is the conformance's affair.
    cases.iter_mut().for_each(|case| case.short = false);
    cases
}

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// All that this rig has what it takes for: wire, nested or kvm. Otherwise everything on the wire,
    /// and then on a real host what is about it.
    #[arg(long)]
    rig: Option<RigKind>,
    /// Only cases whose name, as --list shows it, matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// Print the names of the cases and end.
    #[arg(long)]
    list: bool,
    /// Loops at their full length, which takes hours.
    #[arg(long)]
    full: bool,
    /// Take this build of the module, instead of building it.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

impl Options {
    /// The cases to run on a rig.
    fn cases(&self, kind: RigKind) -> Vec<Case> {
        let asked = self.rig.is_some();
        let mut cases = cases();
        cases.retain(|case| {
            let belongs = asked || kind == RigKind::Wire || case.short;
            let only = self.only.as_ref();
            let wanted = only.is_none_or(|pattern| pattern.is_match(&case.title()));
            belongs && wanted && case.runs_on(kind)
        });
        cases
    }

    fn length(&self) -> Length {
        match self.full {
            true => Length::Full,
            false => Length::Usual,
        }
    }

    fn list(&self) {
        let rigs = match self.rig {
            Some(kind) => vec![kind],
            None => vec![RigKind::Wire, RigKind::Nested],
        };
        for kind in rigs {
            for case in self.cases(kind) {
                println!("{kind}: {}", case.title());
            }
        }
    }
}

/// Runs the cases; returns whether ours passed all.
pub(crate) fn conformance(options: &Options) -> Result<bool> {
    if options.list {
        options.list();
        return Ok(true);
    }
    let workbench = Workbench::open("conformance")?;
    let kinds = match options.rig {
        Some(kind) => vec![kind],
        None => workbench.choice.kinds(),
    };
    let module = workbench.module_or(options.module.as_ref())?;
    let mut tap = Tap::new(std::io::stdout(), workbench.progress.clone());
    tap.note(&format!(
        "kernel {}; {}",
        workbench.kernel.release(),
        workbench.choice.why()
    ));
    let mut stalls = Stalls::default();
    let mut matrix = Matrix::default();
    for kind in kinds {
        let cases = options.cases(kind);
        let boots = match kind {
            // Where the emulation stalls, a boot's life has to be as short as can be.
            RigKind::Nested => cases.into_iter().map(|case| vec![case]).collect(),
            _ => boots(cases, false),
        };
        for boot in boots {
            let mut config = workbench.rig_config(Some(&module));
            config.lab_root = true;
            config.wire_options.extend(services::options());
            config.setup = boot[0].setup.clone();
            let rig = Rig::open(kind, config, &workbench.run, &workbench.progress)?;
            let mut runner = Runner {
                races: None,
                tap: &mut tap,
                matrix: &mut matrix,
                rig: &rig,
                length: options.length(),
                stalls: &mut stalls,
                progress: &workbench.progress,
            };
            runner.run(&boot);
        }
    }
    ensure!(
        !matrix.is_empty(),
        "no case matches; `--list` shows those that there are"
    );
    let notes = [
        format!("{}; {}", workbench.kernel_name(), workbench.choice.why()),
        format!("{stalls}; logs are in {}", workbench.run.path().display()),
    ];
    let folder = workbench.checkout.top().join("build/conformance");
    matrix.keep(&folder, &notes)?;
    tap.note(&format!("{}{}", matrix.text(), notes.join("\n")));
    tap.note(&format!("the matrix is kept in {}", folder.display()));
    Ok(tap.finish())
}
