// SPDX-License-Identifier: GPL-2.0
//! One connection of a guest to a service.

use std::time::Instant;

use bytes::Bytes;

use super::behaviour::Behaviour;
use super::credit::Credit;
use super::report::ServiceStats;
use crate::header::{Header, SHUTDOWN_BOTH, SHUTDOWN_RCV, SHUTDOWN_SEND, TYPE_SEQPACKET, op};

/// How a connection stands after a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Open,
    /// It is over, and the packet is to be answered with a reset: that is how
    /// an orderly end is confirmed, and how a broken rule is punished.
    Reset,
    /// It is over, and nothing more is to be said.
    Gone,
}

/// A connection that was accepted.
#[derive(Debug)]
pub struct Connection {
    /// The addresses and the type of all packets to the guest.
    template: Header,
    credit: Credit,
    behaviour: Behaviour,
    response_due: bool,
    update_due: bool,
    shutdown_sent: bool,
    peer_shutdown: u32,
    last_payload: Option<Instant>,
}

impl Connection {
    /// Accept the connection that `request` asks for.
    pub fn accept(request: &Header, stats: &mut ServiceStats) -> Self {
        stats.counts.connections += 1;
        let mut credit = Credit::new(stats.spec().buffer);
        credit.learn(request);
        Connection {
            template: Header {
                src_cid: request.dst_cid,
                dst_cid: request.src_cid,
                src_port: request.dst_port,
                dst_port: request.src_port,
                kind: request.kind,
                ..Header::zeroed()
            },
            credit,
            behaviour: Behaviour::new(stats.spec()),
            response_due: true,
            update_due: false,
            shutdown_sent: false,
            peer_shutdown: 0,
            last_payload: None,
        }
    }

    /// A packet of the guest came for the connection.
    pub fn receive(
        &mut self,
        header: &Header,
        payload: Bytes,
        stats: &mut ServiceStats,
    ) -> Verdict {
        if header.op.get() == op::RST {
            return Verdict::Gone;
        }
        if header.kind != self.template.kind {
            return self.broken(stats);
        }
        self.credit.learn(header);
        match header.op.get() {
            op::RW => self.receive_payload(header, payload, stats),
            op::CREDIT_UPDATE => Verdict::Open,
            op::CREDIT_REQUEST => {
                self.update_due = true;
                Verdict::Open
            }
            op::SHUTDOWN => {
                self.peer_shutdown |= header.flags.get() & SHUTDOWN_BOTH;
                if self.peer_shutdown & SHUTDOWN_SEND != 0 {
                    self.behaviour.end_of_input();
                }
                match self.peer_shutdown {
                    SHUTDOWN_BOTH => Verdict::Reset,
                    _ => Verdict::Open,
                }
            }
            // A second request, a response to nothing, an unknown operation.
            _ => self.broken(stats),
        }
    }

    fn receive_payload(
        &mut self,
        header: &Header,
        payload: Bytes,
        stats: &mut ServiceStats,
    ) -> Verdict {
        if self.peer_shutdown & SHUTDOWN_SEND != 0 {
            return self.broken(stats);
        }
        if self.credit.receive(payload.len()).is_err() {
            stats.counts.overflows += 1;
            return self.broken(stats);
        }
        stats.counts.packets_in += 1;
        stats.counts.bytes_in += payload.len() as u64;
        self.count_active(stats);
        match self.behaviour.receive(payload, header.flags.get(), stats) {
            Some(freed) => self.credit.forward(freed),
            None => return self.broken(stats),
        }
        self.update_due |= self.credit.is_update_due();
        Verdict::Open
    }

    fn broken(&self, stats: &mut ServiceStats) -> Verdict {
        stats.counts.broken += 1;
        Verdict::Reset
    }

    fn count_active(&mut self, stats: &mut ServiceStats) {
        let now = Instant::now();
        if let Some(last) = self.last_payload.replace(now) {
            stats.add_active(now - last);
        }
    }

    /// Whether there is a packet for the guest.
    pub fn has_output(&self) -> bool {
        self.response_due || self.update_due || self.sendable().is_some() || self.is_shutdown_due()
    }

    /// The room for the next packet with payload, if it may go now. A packet
    /// waits for credit for all of it, so that its size is what was asked for,
    /// unless the peer's buffer is too small ever to give that much.
    fn sendable(&self) -> Option<usize> {
        if self.shutdown_sent || self.peer_shutdown & SHUTDOWN_RCV != 0 {
            return None;
        }
        let size = self.behaviour.next_size()?;
        let room = self.credit.room();
        let enough = room >= size || (room > 0 && room >= self.credit.peer_buffer());
        enough.then_some(room)
    }

    fn is_shutdown_due(&self) -> bool {
        // A peer that takes no more will not see what is still to be sent.
        let finished = self.behaviour.is_finished() || self.peer_shutdown & SHUTDOWN_RCV != 0;
        finished && !self.shutdown_sent
    }

    /// The next packet for the guest.
    pub fn next_packet(&mut self, stats: &mut ServiceStats) -> Option<(Header, Bytes)> {
        let mut header = self.template;
        let mut payload = Bytes::new();
        if std::mem::take(&mut self.response_due) {
            header.op = op::RESPONSE.into();
        } else if let Some(room) = self.sendable() {
            let piece = self.behaviour.take(room);
            self.credit.send(piece.payload.len());
            self.credit.forward(piece.freed);
            stats.counts.packets_out += 1;
            stats.counts.bytes_out += piece.payload.len() as u64;
            self.count_active(stats);
            header.op = op::RW.into();
            header.len = (piece.payload.len() as u32).into();
            if self.template.kind.get() == TYPE_SEQPACKET {
                header.flags = piece.flags.into();
            }
            payload = piece.payload;
        } else if self.update_due {
            stats.counts.credit_updates += 1;
            header.op = op::CREDIT_UPDATE.into();
        } else if self.is_shutdown_due() {
            self.shutdown_sent = true;
            header.op = op::SHUTDOWN.into();
            header.flags = SHUTDOWN_BOTH.into();
        } else {
            return None;
        }
        // Every packet carries the counters, so that none needs an update.
        self.credit.announce(&mut header);
        self.update_due = false;
        Some((header, payload))
    }
}
