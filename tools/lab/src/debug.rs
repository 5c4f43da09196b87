// SPDX-License-Identifier: GPL-2.0
//! `lab check-debug`: the cases whose faults a debug kernel sees, with the C driver and with ours in
//! the same boot, so that what a checker reports of both stands side by side.
//!
//! A case of `lab check` or `lab conformance` belongs to it if it is short or quick, or marked by
//! `debug()`. What only a debug kernel can show is in the files of this folder.
//!
//! The kernel that looks for data races is another one. On it the same cases are run, except for those
//! that are about other checkers, and each race is a row of the matrix.

mod failures;
mod faults;
mod kunit;
mod leaks;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use regex::Regex;
use rig::{Cache, Expected, Kernel, Rig, RigKind, Stalls};

use crate::case::fixture::Length;
use crate::case::races::Races;
use crate::case::tap::Tap;
use crate::case::{Case, boots, table};
use crate::conformance::{Matrix, Runner};
use crate::services;
use crate::workbench::Workbench;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only cases whose name, as --list shows it, matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// Print the names of the cases and end.
    #[arg(long)]
    list: bool,
    /// Take this build of the module, instead of building it.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

/// Reports of the kernel's own doing, seen with either driver: a probe whose allocations fail may have
/// been without its interrupt's entry in `/proc/irq`, which the kernel then removes all the same.
const KERNELS_OWN: [&str; 1] = [r"WARNING: fs/proc/generic\.c:\d+ at remove_proc_entry"];

/// The line that would otherwise end the boot.
const RACE: &str = "BUG: KCSAN: ";

/// What a kernel that looks for races has nothing to say of.
const NOT_OF_RACES: [&str; 2] = ["failures", "leaks"];

/// What needs a debug kernel.
pub(crate) fn own_cases() -> Vec<Case> {
    table([
        ("kunit", kunit::cases()),
        ("failures", failures::cases()),
        ("leaks", leaks::cases()),
    ])
}

fn cases(only: Option<&Regex>) -> Vec<Case> {
    let mut cases = own_cases();
    let mut others = crate::check::cases();
    others.extend(crate::conformance::cases());
    for case in others {
        let known = cases.iter().any(|known| known.title() == case.title());
        if case.belongs_to_debug() && case.runs_on(RigKind::Wire) && !known {
            cases.push(case);
        }
    }
    cases.retain(|case| only.is_none_or(|pattern| pattern.is_match(&case.title())));
    cases
}

/// Runs the cases; returns whether ours passed all.
pub(crate) fn check_debug(options: &Options) -> Result<bool> {
    let kernel = std::env::var("KERNEL").unwrap_or_else(|_| "debug".into());
    let mut cases = cases(options.only.as_ref());
    if kernel == "kcsan" {
        cases.retain(|case| !NOT_OF_RACES.contains(&case.noun));
    }
    ensure!(
        !cases.is_empty(),
        "no case matches; `--list` shows those that there are"
    );
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.title()));
        return Ok(true);
    }
    let bench = Workbench::open_with("check-debug", &kernel)?;
    ensure!(
        bench.kernel.is_debug(),
        "KERNEL={kernel} is no debug kernel; leave it out, or take KERNEL=kcsan"
    );
    let module = bench.module_or(options.module.as_ref())?;
    let far_kernel = Kernel::prepare_named("", &Cache::open()?, &bench.progress)?;
    let about = format!(
        "{}, and {} on the far side; {}",
        bench.kernel_name(),
        far_kernel.release(),
        bench.choice.why()
    );
    let mut tap = Tap::new(std::io::stdout(), bench.progress.clone());
    tap.note(&about);
    let mut stalls = Stalls::default();
    let mut matrix = Matrix::default();
    let mut races = bench.kernel.looks_for_races().then(Races::default);
    let mut expected = Expected::new(KERNELS_OWN)?;
    if races.is_some() {
        expected = expected.and(&Expected::new([RACE])?);
    }
    for boot in boots(cases, false) {
        let mut config = bench.rig_config(Some(&module));
        config.lab_root = true;
        config.far_kernel = Some(far_kernel.clone());
        config.wire_options.extend(services::options());
        config.setup = boot[0].setup.clone();
        config.expected = expected.clone();
        let rig = Rig::open(RigKind::Wire, config, &bench.run, &bench.progress)?;
        let mut runner = Runner {
            tap: &mut tap,
            matrix: &mut matrix,
            rig: &rig,
            length: Length::Quick,
            races: races.as_mut(),
            stalls: &mut stalls,
            progress: &bench.progress,
        };
        runner.run(&boot);
    }
    for (c, ours) in races.iter().flat_map(Races::rows) {
        ours.iter().for_each(|result| tap.result(result));
        matrix.add(&c, &ours);
    }
    let notes = [
        about,
        format!("{stalls}; logs are in {}", bench.run.path().display()),
    ];
    let folder = bench
        .checkout
        .top()
        .join("build")
        .join(format!("check-{kernel}"));
    matrix.keep(&folder, &notes)?;
    tap.note(&format!("{}{}", matrix.text(), notes.join("\n")));
    tap.note(&format!("the matrix is kept in {}", folder.display()));
    Ok(tap.finish())
}
