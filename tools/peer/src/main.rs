// SPDX-License-Identifier: GPL-2.0
//! `vsock-peer`: one end of a byte-exact AF_VSOCK transfer.
//!
//! Every payload byte is a function of the seed, the connection, the sending
//! side and the offset, so the receiving end compares each byte at its own
//! offset without talking to the sender. Both ends get the same options; one is
//! told to `listen`, the other to `connect`.
//!
//! Standard output carries JSON lines: `{"listening":{"port":…}}` as soon as a
//! listener can be connected to, and at the end one report. The exit code is 0
//! only if everything arrived exactly as it was sent.

#![forbid(unsafe_code)]

mod cli;
mod echo;
mod pattern;
mod plan;
mod progress;
mod receive;
mod report;
mod run;
mod send;
mod socket;
#[cfg(test)]
mod tests;
mod zerocopy;

use std::process::ExitCode;

use clap::Parser;

/// 0: exact. 1: not exact, the report says why. 2 is clap's, for bad options.
fn main() -> ExitCode {
    let options = cli::Options::parse();
    let report = run::run(&options.plan(), options.place(), |port| {
        report::print_line(&report::Listening::on(port));
    });
    report::print_line(&report);
    if report.exact {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
