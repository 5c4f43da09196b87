// SPDX-License-Identifier: GPL-2.0
//! Credit: how much either side of a connection may send.

use std::num::Wrapping;

use crate::header::{Header, MAX_PAYLOAD};

/// Both directions' counters of one connection, from the host's side. All
/// counters wrap at 2^32, as they do on the wire.
#[derive(Debug)]
pub struct Credit {
    /// The host's receive buffer in bytes.
    buffer: u32,
    /// Payload bytes received.
    received: Wrapping<u32>,
    /// Payload bytes taken out of the receive buffer.
    forwarded: Wrapping<u32>,
    /// What the peer knows of `forwarded`.
    announced: Wrapping<u32>,
    /// Payload bytes sent.
    sent: Wrapping<u32>,
    /// The peer's receive buffer in bytes, as it said last.
    peer_buffer: u32,
    /// What the peer has taken out of it, as it said last.
    peer_forwarded: Wrapping<u32>,
}

/// The peer sent more than it may.
#[derive(Debug, PartialEq, Eq)]
pub struct Overflow;

impl Credit {
    /// Nothing sent, nothing received, a receive buffer of this size.
    pub fn new(buffer: u32) -> Self {
        Credit {
            buffer,
            received: Wrapping(0),
            forwarded: Wrapping(0),
            announced: Wrapping(0),
            sent: Wrapping(0),
            peer_buffer: 0,
            peer_forwarded: Wrapping(0),
        }
    }

    /// Learn from any packet of the peer how much room it has.
    pub fn learn(&mut self, header: &Header) {
        self.peer_buffer = header.buf_alloc.get();
        self.peer_forwarded = Wrapping(header.fwd_cnt.get());
    }

    /// How much may be sent now. A peer that shrank its buffer, or counts
    /// nonsense, gets nothing.
    pub fn room(&self) -> usize {
        let in_flight = (self.sent - self.peer_forwarded).0;
        self.peer_buffer.saturating_sub(in_flight) as usize
    }

    /// The most that may ever be in flight, as the peer said last.
    pub fn peer_buffer(&self) -> usize {
        self.peer_buffer as usize
    }

    /// Payload was sent.
    pub fn send(&mut self, len: usize) {
        self.sent += Wrapping(len as u32);
    }

    /// Payload came, and takes room in the receive buffer.
    pub fn receive(&mut self, len: usize) -> Result<(), Overflow> {
        let used = (self.received - self.forwarded).0 as usize;
        if used + len > self.buffer as usize {
            return Err(Overflow);
        }
        self.received += Wrapping(len as u32);
        Ok(())
    }

    /// Payload was taken out of the receive buffer.
    pub fn forward(&mut self, len: usize) {
        self.forwarded += Wrapping(len as u32);
        debug_assert!((self.received - self.forwarded).0 <= self.buffer);
    }

    /// Whether it is time to tell the peer about room of which it does not
    /// know: when it thinks that it has less than a packet's worth, as Linux
    /// does it, or when a quarter of the buffer is in question.
    pub fn is_update_due(&self) -> bool {
        let news = (self.forwarded - self.announced).0;
        let believed = self.buffer.saturating_sub(news) as usize;
        news > 0 && (believed < MAX_PAYLOAD || news >= self.buffer / 4)
    }

    /// Write the host's counters into a header on its way to the peer.
    pub fn announce(&mut self, header: &mut Header) {
        header.buf_alloc = self.buffer.into();
        header.fwd_cnt = self.forwarded.0.into();
        self.announced = self.forwarded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(buf_alloc: u32, fwd_cnt: u32) -> Header {
        Header {
            buf_alloc: buf_alloc.into(),
            fwd_cnt: fwd_cnt.into(),
            ..Header::zeroed()
        }
    }

    #[test]
    fn room_is_what_the_peer_said_less_what_is_in_flight() {
        let mut credit = Credit::new(1000);
        assert_eq!(credit.room(), 0);
        credit.learn(&peer(100, 0));
        credit.send(60);
        assert_eq!(credit.room(), 40);
        credit.learn(&peer(100, 50));
        assert_eq!(credit.room(), 90);
        credit.learn(&peer(5, 50));
        assert_eq!(credit.room(), 0);
        credit.learn(&peer(u32::MAX, 61));
        assert_eq!(credit.room(), 0, "it forwarded what was never sent");
    }

    #[test]
    fn counters_wrap() {
        let mut credit = Credit::new(1000);
        let mut header = Header::zeroed();
        let step = 1 << 20;
        let mut total = 0u32;
        for _ in 0..5000 {
            credit.learn(&peer(2 * step, total));
            credit.send(step as usize);
            assert_eq!(credit.room(), step as usize);
            total = total.wrapping_add(step);
            credit.receive(1000).unwrap();
            assert_eq!(credit.receive(1), Err(Overflow));
            credit.forward(1000);
        }
        credit.announce(&mut header);
        assert_eq!(header.fwd_cnt.get(), 5_000_000);
    }

    #[test]
    fn the_receive_buffer_is_exact() {
        let mut credit = Credit::new(10);
        credit.receive(10).unwrap();
        assert_eq!(credit.receive(1), Err(Overflow));
        credit.receive(0).unwrap();
        credit.forward(3);
        credit.receive(3).unwrap();
        assert_eq!(credit.receive(1), Err(Overflow));
    }

    #[test]
    fn updates_come_before_the_peer_is_stuck() {
        let buffer = 256 * 1024;
        let mut credit = Credit::new(buffer);
        let mut header = Header::zeroed();
        credit.receive(buffer as usize / 4).unwrap();
        assert!(!credit.is_update_due());
        credit.forward(buffer as usize / 4 - 1);
        assert!(!credit.is_update_due());
        credit.forward(1);
        assert!(credit.is_update_due());
        credit.announce(&mut header);
        assert!(!credit.is_update_due());

        let mut small = Credit::new(4096);
        small.receive(1).unwrap();
        small.forward(1);
        assert!(
            small.is_update_due(),
            "a small buffer is always nearly full"
        );
    }
}
