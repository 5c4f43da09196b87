// SPDX-License-Identifier: GPL-2.0
//! The receiving half of a connection.

use std::os::fd::AsFd as _;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::habits::await_full;
use crate::pattern::Lane;
use crate::plan::{Kind, Partner, Plan};
use crate::progress::{Progress, Step};
use crate::report::{Fault, Outcome};
use crate::socket::{Received, Socket, wait};
use crate::sockmap::Sockmap;

/// Receives the whole payload, to the end of the stream, and compares every byte with the lane.
pub fn receive(
    socket: &Socket,
    lane: &Lane,
    plan: &Plan,
    deadline: Instant,
    progress: &Progress,
) -> Outcome {
    let mut receiver = Receiver::new(lane, plan.bytes, plan);
    let prepared = receiver.prepare(socket, deadline);
    receiver.outcome.fault = prepared.and_then(|()| receiver.run(socket, progress)).err();
    receiver.outcome
}

/// Waits for the end of a stream on which nothing is to come.
pub fn await_end(
    socket: &Socket,
    lane: &Lane,
    plan: &Plan,
    progress: &Progress,
) -> Result<(), Fault> {
    Receiver::new(lane, 0, plan).run(socket, progress)
}

/// The buffer for one `recv()`: with SEQPACKET a whole message fits, and one byte
/// more, so that a message which is too long shows.
pub fn buffer(plan: &Plan) -> Vec<u8> {
    vec![
        0;
        match plan.kind {
            Kind::Stream => plan.read_size,
            Kind::Seqpacket => plan.write_size + 1,
        }
    ]
}

struct Receiver<'a> {
    lane: &'a Lane,
    expected: u64,
    plan: &'a Plan,
    outcome: Outcome,
    /// What the socket was put into; it stays there as long as this lives.
    sockmap: Option<Sockmap>,
}

impl<'a> Receiver<'a> {
    fn new(lane: &'a Lane, expected: u64, plan: &'a Plan) -> Self {
        Receiver {
            lane,
            expected,
            plan,
            outcome: Outcome::default(),
            sockmap: None,
        }
    }

    fn run(&mut self, socket: &Socket, progress: &Progress) -> Result<(), Fault> {
        let mut buffer = buffer(self.plan);
        loop {
            let offset = self.outcome.received.bytes;
            let step = if offset < self.expected {
                Step::Receiving
            } else {
                Step::PeersEnd
            };
            progress.set(step, offset);
            self.map(socket, offset)?;
            let asked = self.asked(buffer.len());
            match self.next(socket, &mut buffer[..asked]) {
                Ok(Received { len: 0, .. }) => break,
                Ok(received) => {
                    self.take(&buffer[..received.len], received)?;
                    // A source does not end, and in a sockmap an end is not seen.
                    let endless = self.plan.partner == Partner::Service;
                    if (endless || self.sockmap.is_some()) && self.has_all() {
                        break;
                    }
                }
                Err(Fault::Call {
                    errno: Errno::EINTR,
                    ..
                }) => {}
                Err(fault) => return Err(fault),
            }
        }
        let got = self.outcome.received.bytes;
        if got < self.expected {
            let expected = self.expected;
            return Err(Fault::Short { got, expected });
        }
        Ok(())
    }

    /// Puts the socket into a sockmap, once that is due, and waits from then on until there is something
    /// to be received.
    ///
    /// A `recv()` that blocks on such a socket holds its lock meanwhile (`vsock_msg_wait_data()` in
    /// net/vmw_vsock/vsock_bpf.c), for which the driver then waits, so that nothing comes.
    fn map(&mut self, socket: &Socket, offset: u64) -> Result<(), Fault> {
        let due = self.plan.habits.sockmap.is_some_and(|at| offset >= at);
        if !due || self.expected == 0 {
            return Ok(());
        }
        if self.sockmap.is_none() {
            let map = Sockmap::with(socket);
            self.sockmap = Some(map.map_err(|error| Fault::Sockmap(error.to_string()))?);
        }
        let deadline = Instant::now() + self.plan.timeout;
        match wait(socket.as_fd(), PollFlags::POLLIN, deadline) {
            Ok(_) => Ok(()),
            Err(errno) => {
                let doing = format!("waiting for byte {offset} of {}", self.expected);
                Err(Fault::call(doing, errno))
            }
        }
    }

    /// Prepares the socket for what is asked of its reader.
    fn prepare(&self, socket: &Socket, deadline: Instant) -> Result<(), Fault> {
        let habits = &self.plan.habits;
        if let Some(bytes) = habits.rcvlowat {
            socket
                .set_rcvlowat(bytes)
                .map_err(|errno| Fault::call("setting SO_RCVLOWAT", errno))?;
        }
        if habits.mute {
            socket
                .half_close()
                .map_err(|errno| Fault::call("shutting down writing first", errno))?;
        }
        if habits.read_when_full {
            await_full(socket, self.plan, deadline)?;
        }
        if let Some(bytes) = habits.shrink {
            socket
                .set_buffer_size(bytes)
                .map_err(|errno| Fault::call("making the receive buffer smaller", errno))?;
        }
        Ok(())
    }

    /// Receives the next piece or message, in the way that the plan asks for.
    fn next(&self, socket: &Socket, buffer: &mut [u8]) -> Result<Received, Fault> {
        let offset = self.outcome.received.bytes;
        let failed = |call: &str, errno| {
            Fault::call(
                format!("{call} at byte {offset} of {}", self.expected),
                errno,
            )
        };
        let habits = &self.plan.habits;
        let mut seen = Vec::new();
        if habits.peek {
            let peeked = socket.peek(buffer);
            let len = peeked.map_err(|errno| failed("recv(MSG_PEEK)", errno))?;
            seen.extend_from_slice(&buffer[..len]);
        }
        if habits.truncate && self.outcome.received.messages % 2 == 1 && offset < self.expected {
            return self.truncated(socket, buffer, offset);
        }
        let received = socket.receive(buffer);
        let received = received.map_err(|errno| failed("recv()", errno))?;
        if habits.peek && seen != buffer[..received.len] {
            return Err(Fault::Message {
                index: self.outcome.received.messages,
                offset,
                what: format!(
                    "MSG_PEEK showed {} bytes, and recv() {} others",
                    seen.len(),
                    received.len
                ),
            });
        }
        Ok(received)
    }

    /// Takes a message with half the room for it. The rest of it is lost, and is filled in from what
    /// was sent, so that what follows is compared at its own place.
    fn truncated(
        &self,
        socket: &Socket,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<Received, Fault> {
        let whole = self.plan.write_at(offset);
        let room = whole.div_ceil(2);
        let len = socket
            .receive_truncated(&mut buffer[..room])
            .map_err(|errno| {
                let doing = format!("recv(MSG_TRUNC) at byte {offset} of {}", self.expected);
                Fault::call(doing, errno)
            })?;
        if len != whole {
            return Err(Fault::Message {
                index: self.outcome.received.messages,
                offset,
                what: format!("MSG_TRUNC told {len} bytes of {whole}"),
            });
        }
        buffer[room..whole].copy_from_slice(&self.lane.at(offset, whole)[room..]);
        Ok(Received {
            len: whole,
            eor: self.plan.eor,
            truncated: false,
        })
    }

    /// How much to ask for: of a stream that does not end, no more than there is to be.
    fn asked(&self, room: usize) -> usize {
        let left = self.expected.saturating_sub(self.outcome.received.bytes);
        match self.plan.partner {
            Partner::Service if left > 0 => {
                usize::try_from(left).map_or(room, |left| left.min(room))
            }
            _ => room,
        }
    }

    fn has_all(&self) -> bool {
        self.expected > 0 && self.outcome.received.bytes >= self.expected
    }

    fn take(&mut self, bytes: &[u8], received: Received) -> Result<(), Fault> {
        let offset = self.outcome.received.bytes;
        let end = offset + bytes.len() as u64;
        if self.plan.kind == Kind::Seqpacket {
            self.boundaries(offset, received)?;
        }
        self.outcome.received.add(bytes.len());
        if end > self.expected {
            return Err(Fault::Excess {
                got: end,
                expected: self.expected,
            });
        }
        // Only the first wrong byte is kept, with the sum of all; one loss makes
        // everything after it wrong.
        if let Err(difference) = self.lane.compare(offset, bytes) {
            match &mut self.outcome.difference {
                Some(first) => first.wrong_bytes += difference.wrong_bytes,
                None => self.outcome.difference = Some(difference),
            }
        }
        Ok(())
    }

    fn boundaries(&self, offset: u64, received: Received) -> Result<(), Fault> {
        let expected = self.plan.write_at(offset) as u64;
        let what = if received.truncated {
            format!("it is longer than the {expected} bytes that were sent")
        } else if received.len as u64 != expected {
            format!("it has {} bytes, {expected} were sent", received.len)
        } else if received.eor != self.plan.eor {
            let state = |eor| if eor { "with" } else { "without" };
            let (came, sent) = (state(received.eor), state(self.plan.eor));
            format!("it came {came} MSG_EOR and was sent {sent}")
        } else {
            return Ok(());
        };
        Err(Fault::Message {
            index: self.outcome.received.messages,
            offset,
            what,
        })
    }
}
