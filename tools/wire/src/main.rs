// SPDX-License-Identifier: GPL-2.0
//! The `vsock-wire` program; everything it does stands in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = vsock_wire::Args::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match vsock_wire::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vsock-wire: {error:#}");
            ExitCode::FAILURE
        }
    }
}
