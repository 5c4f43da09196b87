// SPDX-License-Identifier: GPL-2.0
//! `vsock-peer`: one end of a byte-exact AF_VSOCK transfer.
//!
//! Both ends get the same options; one is told to `listen`, the other to
//! `connect`. Standard output carries JSON lines: `{"listening":{"port":…}}` as
//! soon as a listener can be connected to, and at the end one report. The exit
//! code is 0 only if everything arrived exactly as it was sent.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use vsock_peer::block::block;
use vsock_peer::churn::churn;
use vsock_peer::cli::{self, Options, Place, Request};
use vsock_peer::datagrams::datagrams;
use vsock_peer::echo::serve;
use vsock_peer::hold;
use vsock_peer::plan::{Kind, Plan};
use vsock_peer::pledge::pledge;
use vsock_peer::report::{Fault, Line, print};
use vsock_peer::run::run;

/// 0: exact. 1: not exact, the report says why. 2 is clap's, for bad options.
fn main() -> ExitCode {
    match Options::parse().request() {
        Request::Transfer(plan, place) => transfer(&plan, place),
        Request::Echo { port, kind } => echo(port, kind),
        Request::Hold(request) => holding(&request),
        Request::Cid => cid(),
        Request::Block {
            call,
            cid,
            port,
            kind,
        } => ended(block(call, kind, cid, port).map(|()| true)),
        Request::Pledge(request) => ended(pledge(&request).map(|()| true)),
        Request::Leave(leave) => ended(leave.price().map(|price| {
            print(&Line::Price(price));
            true
        })),
        Request::Datagrams(request) => ended(datagrams(&request).map(|()| true)),
        Request::Churn(plan, place) => ended(churn(&plan, place, listening)),
    }
}

fn listening(port: u32) {
    print(&Line::Listening { port });
}

fn ended(result: Result<bool, Fault>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("vsock-peer: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn transfer(plan: &Plan, place: Place) -> ExitCode {
    let report = run(plan, place, listening);
    let code = if report.exact {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    print(&Line::Report(Box::new(report)));
    code
}

fn echo(port: u32, kind: Kind) -> ExitCode {
    let Err(fault) = serve(port, kind, listening);
    eprintln!("vsock-peer: {fault}");
    ExitCode::FAILURE
}

fn holding(request: &cli::Hold) -> ExitCode {
    match hold::hold(request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("vsock-peer: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn cid() -> ExitCode {
    match vsock::get_local_cid() {
        Ok(cid) => {
            print(&Line::Cid(cid));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!(
                "vsock-peer: no context ID from /dev/vsock: {error}; is a vsock driver loaded?"
            );
            ExitCode::FAILURE
        }
    }
}
