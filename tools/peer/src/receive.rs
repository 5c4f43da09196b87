// SPDX-License-Identifier: GPL-2.0
//! The receiving half of a connection.

use nix::errno::Errno;

use crate::pattern::Lane;
use crate::plan::{Kind, Partner, Plan};
use crate::progress::{Progress, Step};
use crate::report::{Fault, Outcome};
use crate::socket::{Received, Socket};

/// Receives to the end of the stream and compares every byte with the lane,
/// which `expected` bytes were sent of.
pub fn receive(
    socket: &Socket,
    lane: &Lane,
    expected: u64,
    plan: &Plan,
    progress: &Progress,
) -> Outcome {
    let mut receiver = Receiver {
        lane,
        expected,
        plan,
        outcome: Outcome::default(),
    };
    receiver.outcome.fault = receiver.run(socket, progress).err();
    receiver.outcome
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
}

impl Receiver<'_> {
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
            let asked = self.asked(buffer.len());
            match socket.receive(&mut buffer[..asked]) {
                Ok(Received { len: 0, .. }) => break,
                Ok(received) => {
                    self.take(&buffer[..received.len], received)?;
                    if self.plan.partner == Partner::Service && self.has_all() {
                        break;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    let doing = format!("recv() at byte {offset} of {}", self.expected);
                    return Err(Fault::call(doing, errno));
                }
            }
        }
        let got = self.outcome.received.bytes;
        if got < self.expected {
            let expected = self.expected;
            return Err(Fault::Short { got, expected });
        }
        Ok(())
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
        let left = self.expected.saturating_sub(offset);
        let expected = left.min(self.plan.write_size as u64);
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
