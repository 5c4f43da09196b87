// SPDX-License-Identifier: GPL-2.0
//! A packet on its way from one guest to another.

use std::ops::Range;

use bytes::Bytes;

use crate::args::UsedBatch;
use crate::header::{FLAG_EOM, FLAG_EOR, Header};
use crate::route::PortId;

/// The sender's descriptor chain that a packet came from. It is given back to
/// the sender when the packet is delivered, not before: that is the only brake
/// a sender has when the receiver's ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The port whose guest sent the packet.
    pub port: PortId,
    /// Head of the chain in that guest's TX queue.
    pub head: u16,
}

/// A packet taken from a guest, whole, perhaps delivered in part.
#[derive(Debug)]
pub struct Packet {
    header: Header,
    payload: Bytes,
    delivered: usize,
    fragments: u32,
    origin: Option<Origin>,
    of_host: bool,
    used_batch: Option<UsedBatch>,
}

/// What goes into one buffer of the receiver: a header of its own and a piece
/// of the packet's payload.
#[derive(Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The packet's header with the length and the flags of this piece.
    pub header: Header,
    /// Where this piece lies in the packet's payload.
    pub payload: Range<usize>,
}

impl Packet {
    /// A packet with its payload; `header.len` has been checked to say its size.
    pub fn new(header: Header, payload: Bytes, origin: Option<Origin>) -> Self {
        debug_assert_eq!(header.len.get() as usize, payload.len());
        Packet {
            header,
            payload,
            delivered: 0,
            fragments: 0,
            origin,
            of_host: false,
            used_batch: None,
        }
    }

    /// A packet that the host makes, and which nobody has sent. Its used
    /// entries are published in this way, if not in the device's.
    pub fn of_host(header: Header, payload: Bytes, used_batch: Option<UsedBatch>) -> Self {
        Packet {
            of_host: true,
            used_batch,
            ..Packet::new(header, payload, None)
        }
    }

    /// Whether the host made it.
    pub fn is_of_host(&self) -> bool {
        self.of_host
    }

    /// How to publish its used entries, if not as all others.
    pub fn used_batch(&self) -> Option<UsedBatch> {
        self.used_batch
    }

    /// The header as the sender wrote it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// All payload, delivered or not.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The chain to give back once the packet is delivered or dropped.
    pub fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// Take the sender's chain out of the packet's hands.
    pub fn take_origin(&mut self) -> Option<Origin> {
        self.origin.take()
    }

    /// Whether some of the packet waits to be delivered. A packet without
    /// payload is pending until its one fragment is.
    pub fn pending(&self) -> bool {
        self.fragments == 0 || self.delivered < self.payload.len()
    }

    /// How many buffers the packet took so far.
    pub fn fragments(&self) -> u32 {
        self.fragments
    }

    /// The next piece, for a buffer with room for `room` bytes of payload, or
    /// None if such a buffer cannot take the packet any further.
    ///
    /// The rules are those of Linux's `drivers/vhost/vsock.c`: every fragment
    /// has the packet's header but for the length, and the marks of a message's
    /// end stand on the last one alone. A record mark without a message mark is
    /// not a mark, and stays.
    pub fn fragment(&self, room: usize) -> Option<Fragment> {
        let left = self.payload.len() - self.delivered;
        let take = left.min(room);
        if take == 0 && left > 0 {
            return None;
        }
        let mut header = self.header;
        header.len = (take as u32).into();
        let flags = header.flags.get();
        if take < left && flags & FLAG_EOM != 0 {
            header.flags = (flags & !(FLAG_EOM | FLAG_EOR)).into();
        }
        Some(Fragment {
            header,
            payload: self.delivered..self.delivered + take,
        })
    }

    /// Note that `fragment` reached the receiver.
    pub fn advance(&mut self, fragment: &Fragment) {
        debug_assert_eq!(fragment.payload.start, self.delivered);
        self.delivered = fragment.payload.end;
        self.fragments += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{TYPE_SEQPACKET, op};

    fn packet(len: usize, flags: u32) -> Packet {
        let header = Header {
            len: (len as u32).into(),
            kind: TYPE_SEQPACKET.into(),
            op: op::RW.into(),
            flags: flags.into(),
            buf_alloc: 99.into(),
            ..Header::zeroed()
        };
        Packet::new(header, (0..len).map(|i| i as u8).collect(), None)
    }

    fn split(mut packet: Packet, room: usize) -> Vec<(Range<usize>, u32, u32)> {
        let mut pieces = Vec::new();
        while packet.pending() {
            let fragment = packet.fragment(room).unwrap();
            let (len, flags) = (fragment.header.len.get(), fragment.header.flags.get());
            assert_eq!(fragment.header.buf_alloc.get(), 99);
            packet.advance(&fragment);
            pieces.push((fragment.payload, len, flags));
        }
        assert_eq!(packet.fragments() as usize, pieces.len());
        pieces
    }

    #[test]
    fn what_fits_is_passed_unchanged() {
        let both = FLAG_EOM | FLAG_EOR;
        assert_eq!(split(packet(10, both), 10), [(0..10, 10, both)]);
        assert_eq!(split(packet(10, both), 4096), [(0..10, 10, both)]);
    }

    #[test]
    fn a_packet_without_payload_needs_no_room() {
        assert_eq!(split(packet(0, FLAG_EOM), 0), [(0..0, 0, FLAG_EOM)]);
    }

    #[test]
    fn only_the_last_fragment_ends_the_message() {
        let both = FLAG_EOM | FLAG_EOR;
        assert_eq!(
            split(packet(10, both), 4),
            [(0..4, 4, 0), (4..8, 4, 0), (8..10, 2, both)]
        );
        assert_eq!(
            split(packet(8, FLAG_EOM), 4),
            [(0..4, 4, 0), (4..8, 4, FLAG_EOM)]
        );
    }

    #[test]
    fn a_record_mark_alone_stays_as_vhost_leaves_it() {
        assert_eq!(
            split(packet(5, FLAG_EOR), 4),
            [(0..4, 4, FLAG_EOR), (4..5, 1, FLAG_EOR)]
        );
    }

    #[test]
    fn other_flags_stay_on_every_fragment() {
        assert_eq!(
            split(packet(5, FLAG_EOM | 0x80), 4),
            [(0..4, 4, 0x80), (4..5, 1, FLAG_EOM | 0x80)]
        );
    }

    #[test]
    fn payload_is_not_put_into_a_buffer_without_room() {
        assert_eq!(packet(5, 0).fragment(0), None);
    }
}
