// SPDX-License-Identifier: GPL-2.0
//! Calls that block until something wakes them, and what they return then.

use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::MsgFlags;
use serde::{Deserialize, Serialize};

use crate::plan::{Kind, Plan};
use crate::report::{Fault, Line, print};
use crate::socket::Socket;
use crate::zerocopy::Ledger;

/// A call that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Blocking {
    /// `recv()` from a peer that sends nothing.
    Recv,
    /// `send()` to a peer that reads nothing.
    Send,
    /// `connect()` to a peer that does not answer.
    Connect,
    /// Waiting for the completions of `MSG_ZEROCOPY` sends to a peer that reads nothing. They are made
    /// after a line of standard input, and it is told once before and once after.
    Completions,
}

/// How a call came back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Woken {
    /// Which call.
    pub call: Blocking,
    /// The symbolic name of its error; none if it succeeded.
    pub errno: Option<String>,
    /// What it returned if it succeeded.
    pub bytes: usize,
    /// Milliseconds for which it was blocked.
    pub ms: u64,
}

/// Makes one call that blocks, says when it is about to, and then how it came back.
pub fn block(call: Blocking, kind: Kind, cid: u32, port: u32) -> Result<(), Fault> {
    let mut plan = Plan::echo(kind, 1);
    if call == Blocking::Completions {
        // What may be in flight is bounded by the sender's own buffer, too.
        plan.buffer_size = Some(AHEAD);
    }
    let blocked = || print(&Line::Blocked(call));
    let connect = || {
        Socket::connect(&plan, cid, port)
            .map_err(|errno| Fault::call(format!("connecting to CID {cid} port {port}"), errno))
    };
    let (begin, result) = match call {
        Blocking::Recv => {
            let socket = connect()?;
            blocked();
            let begin = Instant::now();
            let received = socket.receive(&mut [0; 64]);
            (begin, received.map(|received| received.len))
        }
        Blocking::Send => {
            let socket = connect()?;
            fill(&socket)?;
            blocked();
            (Instant::now(), socket.send(&[0; 64], MsgFlags::empty()))
        }
        Blocking::Connect => {
            blocked();
            let begin = Instant::now();
            (begin, Socket::connect(&plan, cid, port).map(|_| 0))
        }
        Blocking::Completions => {
            let socket = connect()?;
            let mut ledger = Ledger::open(&socket)?;
            // Whoever asked can keep the peer from taking anything now.
            blocked();
            let _ = std::io::stdin().read_line(&mut String::new());
            fill_without_copying(&socket, &mut ledger)?;
            blocked();
            let begin = Instant::now();
            await_completions(&socket, &mut ledger)?;
            let completed = usize::try_from(ledger.counts().completed);
            (begin, Ok(completed.unwrap_or(usize::MAX)))
        }
    };
    let ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    print(&Line::Woken(Woken {
        call,
        errno: result.err().map(|errno| format!("{errno:?}")),
        bytes: result.unwrap_or(0),
        ms,
    }));
    Ok(())
}

/// Sends until the peer's whole credit is used.
fn fill(socket: &Socket) -> Result<(), Fault> {
    loop {
        match socket.send(&[0; 4096], MsgFlags::MSG_DONTWAIT) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(()),
            Err(errno) => return Err(Fault::call("filling the peer's buffer", errno)),
        }
    }
}

/// Bytes that zero-copy sends may be ahead of the peer's reading, if that has as much room.
const AHEAD: u64 = 4 << 20;

/// The longest wait for completions.
const COMPLETIONS: Duration = Duration::from_secs(60);

/// Sends large pieces with `MSG_ZEROCOPY` until the peer's whole credit is used.
fn fill_without_copying(socket: &Socket, ledger: &mut Ledger) -> Result<(), Fault> {
    let piece = vec![1; 65_536];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
    loop {
        match socket.send(&piece, flags) {
            Ok(_) => ledger.sent(),
            Err(Errno::EINTR) => {}
            // The credit is used, or as many completions are outstanding as may be.
            Err(Errno::EAGAIN | Errno::ENOBUFS) => return Ok(()),
            Err(errno) => return Err(Fault::call("sending with MSG_ZEROCOPY", errno)),
        }
    }
}

/// Waits until each send has its completion, and none has two. They outlive the connection.
fn await_completions(socket: &Socket, ledger: &mut Ledger) -> Result<(), Fault> {
    let deadline = Instant::now() + COMPLETIONS;
    while !ledger.settled() {
        ledger.drain(socket)?;
        if Instant::now() > deadline {
            let what = format!("{:?} of {} sends", ledger.counts(), ledger.sends());
            return Err(Fault::Completion(format!("after a minute: {what}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // One that is told twice would come now.
    std::thread::sleep(Duration::from_millis(100));
    ledger.drain(socket)
}
