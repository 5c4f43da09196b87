// SPDX-License-Identifier: GPL-2.0
//! What the two ends of a connection have sent so far, and may send.

use vsock_wire::header::{Header, SHUTDOWN_SEND, op};

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The one that asked for it.
    Connector,
    /// The one that was asked.
    Acceptor,
}

/// A connection, from its request on.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    connector: Sent,
    acceptor: Sent,
    /// The response has come.
    open: bool,
}

/// What one end has sent.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// Bytes of payload.
    bytes: u64,
    /// Its last `fwd_cnt`, counted on beyond 32 bits.
    forwarded: u64,
    /// The most that the other end may have sent in all: the highest sum of a `fwd_cnt` and the
    /// `buf_alloc` beside it. A later and smaller buffer does not take back what was granted.
    granted: u64,
    /// It has said that it will send no more.
    shut: bool,
    /// It has reset the connection.
    reset: bool,
}

impl End {
    /// The opposite one.
    pub fn other(self) -> Self {
        match self {
            Self::Connector => Self::Acceptor,
            Self::Acceptor => Self::Connector,
        }
    }
}

impl Connection {
    /// Whether neither end has reset it.
    pub fn stands(&self) -> bool {
        !self.connector.reset && !self.acceptor.reset
    }

    /// Payload bytes that an end has sent.
    pub fn bytes(&self, end: End) -> u64 {
        self.end(end).bytes
    }

    fn end(&self, end: End) -> &Sent {
        match end {
            End::Connector => &self.connector,
            End::Acceptor => &self.acceptor,
        }
    }

    fn end_mut(&mut self, end: End) -> &mut Sent {
        match end {
            End::Connector => &mut self.connector,
            End::Acceptor => &mut self.acceptor,
        }
    }

    /// Takes the next packet that an end sends; returns what is wrong with it, if anything is.
    pub fn take(&mut self, from: End, header: &Header) -> Vec<String> {
        let mut wrong = Vec::new();
        let op = header.op.get();
        if self.end(from).reset && op != op::RST {
            wrong.push("its sender has reset the connection before".to_owned());
        }
        match (op, from) {
            (op::RESPONSE, End::Connector) => {
                wrong.push("it answers a request that its sender has made itself".to_owned());
            }
            (op::RESPONSE, End::Acceptor) if self.open => {
                wrong.push("the request was answered before: captured twice?".to_owned());
            }
            (op::RESPONSE, End::Acceptor) => self.open = true,
            (op::RST | op::REQUEST, _) => {}
            _ if !self.open => wrong.push("the request was not answered yet".to_owned()),
            _ => {}
        }
        if op == op::RST {
            // Sent by a kernel that has no socket for it, it tells of no buffer.
            self.end_mut(from).reset = true;
            return wrong;
        }
        wrong.extend(self.account(from, header));
        if op == op::RW {
            wrong.extend(self.data(from, header.len.get()));
        }
        if op == op::SHUTDOWN && header.flags.get() & SHUTDOWN_SEND != 0 {
            self.end_mut(from).shut = true;
        }
        wrong
    }

    /// What its header says of what was received, and of the room for more.
    fn account(&mut self, from: End, header: &Header) -> Option<String> {
        let arrived = self.end(from.other()).bytes;
        let sender = self.end_mut(from);
        let now = header.fwd_cnt.get();
        // Both are sums modulo 2^32 that grow by less than half of that from packet to packet.
        let before = sender.forwarded as u32;
        let step = now.wrapping_sub(before);
        if step >= 1 << 31 {
            return Some(format!(
                "its fwd_cnt {now} is behind the last one, {before}"
            ));
        }
        sender.forwarded += u64::from(step);
        let forwarded = sender.forwarded;
        let edge = forwarded + u64::from(header.buf_alloc.get());
        sender.granted = sender.granted.max(edge);
        (forwarded > arrived).then(|| {
            format!("its fwd_cnt stands for {forwarded} bytes, and {arrived} were sent so far")
        })
    }

    /// Payload.
    fn data(&mut self, from: End, len: u32) -> Vec<String> {
        let mut wrong = Vec::new();
        let receiver = self.end(from.other());
        let (granted, forwarded) = (receiver.granted, receiver.forwarded);
        let sender = self.end_mut(from);
        if sender.shut {
            wrong.push("it carries data behind its sender's SHUTDOWN(SEND)".to_owned());
        }
        sender.bytes += u64::from(len);
        if sender.bytes > granted {
            let flying = sender.bytes - forwarded;
            let room = granted.saturating_sub(forwarded);
            wrong.push(format!(
                "with it {flying} bytes are in flight, and {room} were granted"
            ));
        }
        wrong
    }
}
