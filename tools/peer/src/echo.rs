// SPDX-License-Identifier: GPL-2.0
//! Sending back what comes, for a peer that compares it.

use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use crate::plan::{Kind, Plan};
use crate::progress::{Progress, Step};
use crate::receive::buffer;
use crate::report::{Fault, Outcome};
use crate::socket::{Listener, Received, Socket};

/// Echoes until the peer's end, then ends too.
pub fn echo(socket: &Socket, plan: &Plan, progress: &Progress) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.fault = run(socket, plan, progress, &mut outcome).err();
    outcome
}

/// Echoes to whoever connects, to all of them at once, until the listener fails.
pub fn serve(port: u32, kind: Kind, listening: impl FnOnce(u32)) -> Result<Infallible, Fault> {
    /// Connections that may wait to be accepted.
    const BACKLOG: u32 = 128;
    let plan = Arc::new(Plan::echo(kind, BACKLOG));
    let listener = Listener::open(&plan, port, listening).map_err(|(_, fault)| fault)?;
    loop {
        let socket = match listener.accept(Instant::now() + plan.timeout) {
            Ok(socket) => socket,
            Err(Errno::ETIMEDOUT) => continue,
            Err(errno) => return Err(Fault::call("waiting for a connection", errno)),
        };
        let plan = Arc::clone(&plan);
        thread::spawn(move || {
            let outcome = echo(&socket, &plan, &Progress::new(None));
            if let Some(fault) = outcome.fault {
                eprintln!("vsock-peer: {fault}");
            }
        });
    }
}

fn run(
    socket: &Socket,
    plan: &Plan,
    progress: &Progress,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    let mut buffer = buffer(plan);
    loop {
        let offset = outcome.received.bytes;
        progress.set(Step::Receiving, offset);
        match socket.receive(&mut buffer) {
            Ok(Received { len: 0, .. }) => break,
            Ok(received) => {
                outcome.received.add(received.len);
                progress.set(Step::Sending, offset);
                send_back(socket, &buffer[..received.len], received.eor, outcome)?;
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(Fault::call(format!("recv() at byte {offset}"), errno)),
        }
    }
    socket
        .half_close()
        .map_err(|errno| Fault::call("shutting down writing", errno))
}

fn send_back(
    socket: &Socket,
    mut bytes: &[u8],
    eor: bool,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    let mut flags = MsgFlags::empty();
    flags.set(MsgFlags::MSG_EOR, eor);
    while !bytes.is_empty() {
        match socket.send(bytes, flags) {
            Ok(sent) => {
                outcome.sent.add(sent);
                bytes = &bytes[sent..];
            }
            Err(Errno::EINTR) => {}
            Err(errno) => {
                let doing = format!("send() of the echo at byte {}", outcome.sent.bytes);
                return Err(Fault::call(doing, errno));
            }
        }
    }
    Ok(())
}
