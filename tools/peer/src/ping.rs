// SPDX-License-Identifier: GPL-2.0
//! One write at a time, each answered before the next.

use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use crate::pattern::Lane;
use crate::plan::Plan;
use crate::progress::{Progress, Step};
use crate::receive::{await_end, buffer};
use crate::report::{Fault, Outcome};
use crate::socket::{Received, Socket};

/// Pings with the whole payload, compares what comes back, and waits for the peer's end.
pub fn ping(socket: &Socket, lane: &Lane, plan: &Plan, progress: &Progress) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.fault = run(socket, lane, plan, progress, &mut outcome).err();
    outcome
}

fn run(
    socket: &Socket,
    lane: &Lane,
    plan: &Plan,
    progress: &Progress,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    let mut buffer = buffer(plan);
    while outcome.sent.bytes < plan.bytes {
        let offset = outcome.sent.bytes;
        let left = plan.bytes - offset;
        let len = usize::try_from(left).map_or(plan.write_size, |left| left.min(plan.write_size));
        progress.set(Step::Sending, offset);
        let begin = Instant::now();
        send(socket, lane.at(offset, len), outcome)?;
        progress.set(Step::Receiving, offset);
        while outcome.received.bytes < outcome.sent.bytes {
            let received = take(socket, &mut buffer, outcome.received.bytes)?;
            let at = outcome.received.bytes;
            outcome.received.add(received.len);
            if outcome.received.bytes > outcome.sent.bytes {
                return Err(Fault::Excess {
                    got: outcome.received.bytes,
                    expected: outcome.sent.bytes,
                });
            }
            if let Err(difference) = lane.compare(at, &buffer[..received.len]) {
                outcome.difference.get_or_insert(difference);
            }
        }
        outcome.times.add(begin.elapsed());
    }
    socket
        .half_close()
        .map_err(|errno| Fault::call("shutting down writing", errno))?;
    await_end(socket, lane, plan, progress)
}

fn send(socket: &Socket, mut bytes: &[u8], outcome: &mut Outcome) -> Result<(), Fault> {
    while !bytes.is_empty() {
        match socket.send(bytes, MsgFlags::empty()) {
            Ok(sent) => {
                outcome.sent.add(sent);
                bytes = &bytes[sent..];
            }
            Err(Errno::EINTR) => {}
            Err(errno) => {
                let doing = format!("send() of a ping at byte {}", outcome.sent.bytes);
                return Err(Fault::call(doing, errno));
            }
        }
    }
    Ok(())
}

fn take(socket: &Socket, buffer: &mut [u8], at: u64) -> Result<Received, Fault> {
    loop {
        match socket.receive(buffer) {
            Ok(Received { len: 0, .. }) => {
                let doing = format!("waiting for the answer at byte {at}: the stream ended");
                return Err(Fault::call(doing, Errno::ECONNRESET));
            }
            Ok(received) => return Ok(received),
            Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(Fault::call(
                    format!("recv() of an answer at byte {at}"),
                    errno,
                ));
            }
        }
    }
}
