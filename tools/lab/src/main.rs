// SPDX-License-Identifier: GPL-2.0
//! `lab`: prepare, build, try out, check. Run it by `make`, or in the lab root by
//! `tools/labroot.sh run cargo run --release --manifest-path tools/Cargo.toml -p lab -- …`.

#![forbid(unsafe_code)]

mod bench;
mod case;
mod check;
mod conformance;
mod counters;
mod debug;
mod demo;
mod hostile;
mod mutants;
mod services;
mod shell;
mod transfer;
mod used_batch;
mod workbench;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use workbench::Workbench;

/// A kernel, guests and rigs for virtio_vsock_rs.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prepare the kernel and build the guests' programs; every other command does so by itself.
    Prepare,
    /// Build the module for the guests' kernel, and print where it is.
    Build,
    /// Run on a debug kernel what its checkers can see, with both drivers.
    CheckDebug(debug::Options),
    /// Measure the C driver and this one in the same guest, and print a table.
    Demo(demo::Options),
    /// Measure more drivers more thoroughly, with intervals and plots.
    Bench(::bench::Options),
    /// Prove the build: TAP on standard output, the sums in the last line.
    Check(check::Options),
    /// What applications and operators do, with both drivers: a matrix of verdicts.
    Conformance(conformance::Options),
    /// Do to both drivers what a broken or malicious device could, and hold them against each other.
    Hostile(hostile::Options),
    /// The same with packets drawn at random, for as long as is said.
    Fuzz(hostile::fuzz::Options),
    /// Measure what it brings that the device publishes used entries in batches.
    UsedBatch(used_batch::Options),
    /// Take one thing out of the driver at a time, and see whether a test notices.
    Mutants(mutants::Options),
    /// A prompt in a guest with the module loaded and the far side ready.
    Shell(shell::Options),
}

fn main() -> ExitCode {
    // In the lab root this is process 1 of a PID namespace, to which the kernel gives no signal that it
    // has not asked for. Its end takes everything that it has started with it.
    let interrupted = ctrlc::set_handler(|| {
        eprintln!("lab: interrupted");
        std::process::exit(130);
    });
    if let Err(error) = interrupted {
        eprintln!("lab: Ctrl-C will not work: {error}");
    }
    match run(&Options::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked; false means that it was done and the result is bad.
fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Prepare => Workbench::open("prepare").map(|_| true),
        Command::Build => {
            println!("{}", Workbench::open("build")?.module()?.display());
            Ok(true)
        }
        Command::CheckDebug(options) => debug::check_debug(options),
        Command::Demo(options) => demo::demo(options).map(|()| true),
        Command::Bench(options) => bench::bench(options).map(|()| true),
        Command::Check(options) => check::check(options),
        Command::Conformance(options) => conformance::conformance(options),
        Command::Fuzz(options) => hostile::fuzz::fuzz(options),
        Command::Hostile(options) => hostile::hostile(options),
        Command::UsedBatch(options) => used_batch::used_batch(options).map(|()| true),
        Command::Mutants(options) => mutants::mutants(options),
        Command::Shell(options) => shell::shell(options).map(|()| true),
    }
}
