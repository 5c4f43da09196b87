// SPDX-License-Identifier: GPL-2.0
//! The sending half of a connection.

use std::time::Instant;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::MsgFlags;

use crate::habits::await_silence;
use crate::pattern::Lane;
use crate::plan::{End, Kind, Plan};
use crate::progress::{Progress, Step};
use crate::report::{Fault, Outcome};
use crate::socket::Socket;
use crate::zerocopy::Ledger;

/// Sends the whole payload and ends the sending as planned.
pub fn send(
    socket: &Socket,
    lane: &Lane,
    plan: &Plan,
    deadline: Instant,
    progress: &Progress,
) -> Outcome {
    let mut sender = Sender {
        socket,
        plan,
        deadline,
        ledger: None,
        outcome: Outcome::default(),
    };
    sender.outcome.fault = sender.run(lane, progress).err();
    if let Some(ledger) = &sender.ledger {
        sender.outcome.completions = ledger.counts();
    }
    sender.outcome
}

struct Sender<'a> {
    socket: &'a Socket,
    plan: &'a Plan,
    deadline: Instant,
    ledger: Option<Ledger>,
    outcome: Outcome,
}

impl Sender<'_> {
    fn run(&mut self, lane: &Lane, progress: &Progress) -> Result<(), Fault> {
        let mut flags = MsgFlags::empty();
        if self.plan.zerocopy {
            self.ledger = Some(Ledger::open(self.socket)?);
            flags |= MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
        }
        if self.plan.eor {
            flags |= MsgFlags::MSG_EOR;
        }
        if self.plan.habits.mute {
            progress.set(Step::PeersEnd, 0);
            await_silence(self.socket, self.plan, self.deadline)?;
        }
        while self.outcome.sent.bytes < self.plan.bytes {
            let offset = self.outcome.sent.bytes;
            progress.set(Step::Sending, offset);
            let len = self.plan.write_at(offset);
            self.write(lane.at(offset, len), flags)?;
        }
        if self.plan.end == End::HalfClose {
            self.socket
                .half_close()
                .map_err(|errno| Fault::call("shutting down writing", errno))?;
        }
        progress.set(Step::Completions, self.outcome.sent.bytes);
        self.settle()
    }

    /// One write of the planned size, whatever the kernel takes at a time.
    fn write(&mut self, bytes: &[u8], flags: MsgFlags) -> Result<(), Fault> {
        let offset = self.outcome.sent.bytes;
        let mut done = 0;
        while done < bytes.len() {
            match self.socket.send(&bytes[done..], flags) {
                Ok(sent) if sent < bytes.len() && self.plan.kind == Kind::Seqpacket => {
                    return Err(Fault::Message {
                        index: self.outcome.sent.messages,
                        offset,
                        what: format!("send() took {sent} of {} bytes", bytes.len()),
                    });
                }
                Ok(sent) => {
                    done += sent;
                    if let Some(ledger) = &mut self.ledger {
                        ledger.sent();
                        ledger.drain(self.socket)?;
                    }
                }
                Err(Errno::EINTR) => {}
                // Too many completions wait to be read: the kernel bounds their memory.
                Err(Errno::ENOBUFS | Errno::ENOMEM) if self.unsettled() => self.completion()?,
                Err(errno) => {
                    let at = offset + done as u64;
                    let doing = format!("send() at byte {at} of {}", self.plan.bytes);
                    return Err(Fault::call(doing, errno));
                }
            }
        }
        self.outcome.sent.add(done);
        Ok(())
    }

    fn unsettled(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| !ledger.settled())
    }

    fn completion(&mut self) -> Result<(), Fault> {
        match &mut self.ledger {
            Some(ledger) => ledger.wait(self.socket, self.deadline),
            None => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Fault> {
        while self.unsettled() {
            self.completion()?;
        }
        Ok(())
    }
}
