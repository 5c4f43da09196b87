// SPDX-License-Identifier: GPL-2.0
//! Calls that block until something wakes them, and what they return then.

use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use serde::{Deserialize, Serialize};

use crate::plan::{Kind, Plan};
use crate::report::{Fault, Line, print};
use crate::socket::{Listener, Socket};

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
    /// `accept()` of a connection that nobody makes.
    Accept,
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

/// Makes one call that blocks, says when it is about to, and then how it came back. The address is that
/// of the peer; of an accept, it is the own one, of which the port counts.
pub fn block(call: Blocking, kind: Kind, cid: u32, port: u32) -> Result<(), Fault> {
    let plan = Plan::echo(kind, 1);
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
        Blocking::Accept => {
            let listener = Listener::bind(&plan, port)
                .map_err(|errno| Fault::call(format!("listening on port {port}"), errno))?;
            blocked();
            let begin = Instant::now();
            (begin, listener.take().map(|_| 0))
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
