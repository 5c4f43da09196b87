// SPDX-License-Identifier: GPL-2.0
//! Sends with `MSG_ZEROCOPY` that are completed late, or by the end of their device.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::MsgFlags;
use serde::{Deserialize, Serialize};

use crate::cli::Pledge;
use crate::plan::{Kind, Plan};
use crate::report::{Fault, Line, print};
use crate::socket::Socket;
use crate::zerocopy::{Completions, Ledger};

/// What became of the sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Pledged {
    /// How many were made.
    pub sends: u32,
    /// Their completions so far, none of which came twice.
    pub completions: Completions,
    /// Whether none is missing.
    pub settled: bool,
}

/// Names of what is waited for.
const STDIN: u64 = 0;
const SOCKET: u64 = 1;

/// Makes the sends and says so, and again when all of them are completed; at the end of the standard
/// input it says what was completed, whatever that is, and ends.
pub fn pledge(request: &Pledge) -> Result<(), Fault> {
    let failed = |errno| Fault::call("waiting", errno);
    let stdin = std::io::stdin();
    let socket = Socket::connect(&Plan::echo(Kind::Stream, 1), request.cid, request.port)
        .map_err(|errno| Fault::call("connecting", errno))?;
    // A connection that is gone has something to tell all the time; only news count.
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
    let errors = EpollFlags::EPOLLERR | EpollFlags::EPOLLET;
    for (file, wanted, name) in [
        (stdin.as_fd(), EpollFlags::EPOLLIN, STDIN),
        (socket.as_fd(), errors, SOCKET),
    ] {
        let event = EpollEvent::new(wanted, name);
        epoll.add(file, event).map_err(failed)?;
    }
    let mut ledger = Ledger::open(&socket)?;
    let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
    let payload = vec![0x5a; request.size];
    for number in 0..request.sends {
        let sent = socket.send(&payload, flags);
        let sent = sent.map_err(|errno| Fault::call(format!("send {number}"), errno))?;
        if sent < payload.len() {
            let what = format!("send {number} took {sent} of {} bytes", payload.len());
            return Err(Fault::Completion(what));
        }
        ledger.sent();
    }
    let told = |ledger: &Ledger| Pledged {
        sends: request.sends,
        completions: ledger.counts(),
        settled: ledger.settled(),
    };
    print(&Line::Pledged(told(&ledger)));
    loop {
        let mut events = [EpollEvent::empty()];
        match epoll.wait(&mut events, EpollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let before = ledger.settled();
        ledger.drain(&socket)?;
        let over = events[0].data() == STDIN && !events[0].events().is_empty();
        if over || ledger.settled() != before {
            print(&Line::Pledged(told(&ledger)));
        }
        if over {
            return Ok(());
        }
    }
}
