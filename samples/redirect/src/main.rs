// SPDX-License-Identifier: GPL-2.0
//! `redirect`: sends every datagram that comes to a UNIX socket to a vsock server.
//!
//! By BPF, the kernel moves them from one socket to the other, and this program sleeps meanwhile; by
//! copying, it receives each and sends it again. `samples/README` says what to expect of either.

#![forbid(unsafe_code)]

mod bpf;
mod copy;
mod count;
mod ends;
mod error;
mod until;

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use bpf::Redirection;
use count::Counts;
use ends::{Inbox, connect_to};
use error::Error;
use until::{End, Signals, Until};

/// Send every datagram that comes to a UNIX socket to a vsock server, until SIGINT, SIGTERM or the
/// server's end.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Who moves the datagrams: the kernel, or this program.
    #[arg(long, value_enum)]
    via: Via,
    /// Where to make the UNIX socket.
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// Context ID of the server; the host's is 2.
    #[arg(long)]
    cid: u32,
    /// Its port.
    #[arg(long)]
    port: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Via {
    /// A BPF program at the UNIX socket, which needs CAP_BPF and CAP_NET_ADMIN.
    Bpf,
    /// recv() and send().
    Copy,
}

fn main() -> ExitCode {
    match redirect(&Options::parse()) {
        Ok((counts, end)) => {
            if end == End::Closed {
                eprintln!("redirect: the vsock peer has closed the connection");
            }
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("redirect: {error}");
            ExitCode::FAILURE
        }
    }
}

fn redirect(options: &Options) -> Result<(Counts, End), Error> {
    let signals = Signals::catch().map_err(|errno| Error::call("catching signals", errno))?;
    let mut inbox = Inbox::new()?;
    let host = connect_to(options.cid, options.port)?;
    let until = Until::new(&signals, host.as_fd());
    match options.via {
        Via::Bpf => {
            let redirection = Redirection::begin(inbox.as_fd(), host.as_fd())?;
            inbox.bind(&options.from)?;
            announce(options);
            let end = until.end()?;
            Ok((redirection.counts()?, end))
        }
        Via::Copy => {
            inbox.bind(&options.from)?;
            announce(options);
            copy::copy(inbox.as_fd(), host.as_fd(), &until)
        }
    }
}

/// Says that datagrams can come.
fn announce(options: &Options) {
    let Options {
        from, cid, port, ..
    } = options;
    println!("redirecting {} to CID {cid} port {port}", from.display());
}
