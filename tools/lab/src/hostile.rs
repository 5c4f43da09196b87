// SPDX-License-Identifier: GPL-2.0
//! `lab hostile`: what a device can do to the driver, by the scripts in `tools/wire/scripts`.
//!
//! Each [`script`] runs with the C driver, as control, and with ours. The [`stage`] plays it and looks
//! at what it left behind; [`seen`] holds the two drivers against each other.

pub(crate) mod fuzz;
mod honest;
mod leftovers;
mod programs;
mod run;
pub(crate) mod script;
mod seen;
mod shrink;
pub(crate) mod stage;
mod table;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use regex::Regex;
use rig::{Rig, RigKind, Stalls};

use crate::services;
use crate::workbench::Workbench;
use script::Scripted;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only scripts whose name, as --list shows it, matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    only: Option<Regex>,
    /// Print the names of the scripts and end.
    #[arg(long)]
    list: bool,
    /// Run these scripts instead of the project's.
    #[arg(value_name = "SCRIPT")]
    files: Vec<PathBuf>,
    /// Take this build of the module, instead of building it.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
}

/// Runs the scripts; returns whether our driver passed all of them.
pub(crate) fn hostile(options: &Options) -> Result<bool> {
    let mut scripts = match &options.files[..] {
        [] => script::all(&rig::Checkout::find()?)?,
        files => files
            .iter()
            .map(|file| Scripted::read(file))
            .collect::<Result<_>>()?,
    };
    if let Some(pattern) = &options.only {
        scripts.retain(|script| pattern.is_match(&script.name));
    }
    if options.list {
        scripts
            .iter()
            .for_each(|script| println!("{}", script.name));
        return Ok(true);
    }
    ensure!(
        !scripts.is_empty(),
        "no script has such a name; --list shows them"
    );
    let workbench = Workbench::open("hostile")?;
    let module = workbench.module_or(options.module.as_ref())?;
    let mut config = workbench.rig_config(Some(&module));
    config.wire_options.extend(services::options());
    let kind = RigKind::GuestBound;
    let rig = Rig::open(kind, config, &workbench.run, &workbench.progress)?;
    let mut stalls = Stalls::default();
    let rows = run::all(&rig, &scripts, &mut stalls, &workbench.progress)?;
    println!("{}", table::text(&rows));
    println!(
        "kernel {}; {stalls}; logs are in {}",
        workbench.kernel.release(),
        workbench.run.path().display()
    );
    let failed = rows.iter().filter(|row| !row.passed()).count();
    println!("{} passed, {failed} failed", rows.len() - failed);
    Ok(failed == 0)
}
