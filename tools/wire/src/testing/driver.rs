// SPDX-License-Identifier: GPL-2.0
//! A guest's driver, as far as the tests need one: two rings in real memory,
//! and the buffers behind them.
//!
//! The mock of the `virtio-queue` crate has no driver's side to speak of, and
//! its 0.18 does not build with the Rust of Debian 13.

use std::sync::atomic::{Ordering, fence};

use virtio_bindings::bindings::virtio_ring::{
    VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE,
};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use zerocopy::{FromBytes, IntoBytes};

use crate::header::{HEADER_LEN, Header};
use crate::port::Side;

/// Entries of each ring.
pub(crate) const RING: u16 = 16;
/// The guest's memory ends here.
pub(crate) const MEMORY: u64 = 16 << 20;

const RING_SPACE: u64 = 0x4000;
const BUFFER_SPACE: u64 = 0x2_0000;

/// One descriptor of a chain under construction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) writable: bool,
}

/// A packet that the guest received.
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
}

/// One ring, and how far the driver is with it.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    base: u64,
    avail: u16,
    used: u16,
    next_desc: u16,
}

/// The driver, its device out of sight.
pub(crate) struct Driver {
    memory: GuestMemoryMmap,
    rings: [Ring; 2],
}

impl Ring {
    pub(crate) fn desc_address(&self) -> u64 {
        self.base
    }

    pub(crate) fn avail_address(&self) -> u64 {
        self.base + 0x1000
    }

    pub(crate) fn used_address(&self) -> u64 {
        self.base + 0x2000
    }
}

impl Driver {
    /// A driver in this memory, nothing on its rings.
    pub(crate) fn new(memory: GuestMemoryMmap) -> Self {
        let ring = |base| Ring {
            base,
            avail: 0,
            used: 0,
            next_desc: 0,
        };
        let rings = [ring(0x1000), ring(0x1000 + RING_SPACE)];
        Driver { memory, rings }
    }

    /// Begin again with empty rings.
    pub(crate) fn reset(&mut self) {
        for ring in &mut self.rings {
            (ring.avail, ring.used, ring.next_desc) = (0, 0, 0);
            let zeroes = vec![0; RING_SPACE as usize];
            self.memory
                .write_slice(&zeroes, GuestAddress(ring.base))
                .unwrap();
        }
    }

    pub(crate) fn ring(&self, side: Side) -> Ring {
        self.rings[side as usize]
    }

    fn ring_mut(&mut self, side: Side) -> &mut Ring {
        &mut self.rings[side as usize]
    }

    pub(crate) fn write(&self, address: u64, data: &[u8]) {
        self.memory
            .write_slice(data, GuestAddress(address))
            .unwrap();
    }

    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.memory
            .read_slice(&mut data, GuestAddress(address))
            .unwrap();
        data
    }

    /// Where the buffers of a ring's descriptor lie.
    fn buffer(side: Side, desc: u16) -> u64 {
        let ring = side as u64 * u64::from(RING);
        0x10_0000 + (ring + u64::from(desc)) * BUFFER_SPACE
    }

    /// Make a chain of these pieces available. Returns its head.
    pub(crate) fn offer(&mut self, side: Side, pieces: &[Piece]) -> u16 {
        let ring = self.ring(side);
        let (base, head) = (ring.base, ring.next_desc);
        for (i, piece) in pieces.iter().enumerate() {
            let desc = (head + i as u16) % RING;
            let next = (i + 1 < pieces.len()).then_some((desc + 1) % RING);
            let flags = if piece.writable {
                VRING_DESC_F_WRITE
            } else {
                0
            };
            self.write_desc(base, desc, piece, flags, next);
        }
        self.ring_mut(side).next_desc = (head + pieces.len() as u16) % RING;
        self.announce(side, head);
        head
    }

    /// The same as an indirect chain, whose table lies at `table`.
    pub(crate) fn offer_indirect(&mut self, side: Side, table: u64, pieces: &[Piece]) -> u16 {
        for (i, piece) in pieces.iter().enumerate() {
            let next = (i + 1 < pieces.len()).then_some(i as u16 + 1);
            let flags = if piece.writable {
                VRING_DESC_F_WRITE
            } else {
                0
            };
            self.write_desc(table, i as u16, piece, flags, next);
        }
        let (base, head) = (self.ring(side).base, self.ring(side).next_desc);
        let piece = Piece {
            address: table,
            len: 16 * pieces.len() as u32,
            writable: false,
        };
        self.write_desc(base, head, &piece, VRING_DESC_F_INDIRECT, None);
        self.ring_mut(side).next_desc = (head + 1) % RING;
        self.announce(side, head);
        head
    }

    pub(crate) fn write_desc(
        &self,
        table: u64,
        desc: u16,
        piece: &Piece,
        flags: u32,
        next: Option<u16>,
    ) {
        let flags = flags | if next.is_some() { VRING_DESC_F_NEXT } else { 0 };
        let mut entry = piece.address.to_le_bytes().to_vec();
        entry.extend(piece.len.to_le_bytes());
        entry.extend((flags as u16).to_le_bytes());
        entry.extend(next.unwrap_or(0).to_le_bytes());
        self.write(table + 16 * u64::from(desc), &entry);
    }

    /// Put a head on the available ring, whether it is free or not.
    pub(crate) fn announce(&mut self, side: Side, head: u16) {
        let ring = self.ring(side);
        let (avail, idx) = (ring.avail_address(), ring.avail);
        self.write(avail + 4 + 2 * u64::from(idx % RING), &head.to_le_bytes());
        self.set_avail(side, idx.wrapping_add(1));
    }

    /// Set the available index, to the truth or to a lie.
    pub(crate) fn set_avail(&mut self, side: Side, idx: u16) {
        self.ring_mut(side).avail = idx;
        let address = self.ring(side).avail_address();
        self.write(address + 2, &idx.to_le_bytes());
    }

    /// Ask for an interrupt once this used entry is there.
    pub(crate) fn set_used_event(&mut self, side: Side, event: u16) {
        let address = self.ring(side).avail_address() + 4 + 2 * u64::from(RING);
        self.write(address, &event.to_le_bytes());
    }

    /// Set the flags of the available ring.
    pub(crate) fn set_avail_flags(&mut self, side: Side, flags: u16) {
        let address = self.ring(side).avail_address();
        self.write(address, &flags.to_le_bytes());
    }

    /// The available index at which the device wants to be kicked.
    pub(crate) fn avail_event(&self, side: Side) -> u16 {
        let used = self.ring(side).used_address();
        let address = used + 4 + 8 * u64::from(RING);
        u16::from_le_bytes(self.read(address, 2).try_into().unwrap())
    }

    /// Post an RX buffer for a header and `room` bytes.
    pub(crate) fn post(&mut self, room: usize) -> u16 {
        let address = Self::buffer(Side::Rx, self.ring(Side::Rx).next_desc);
        let len = (HEADER_LEN + room) as u32;
        self.offer(
            Side::Rx,
            &[Piece {
                address,
                len,
                writable: true,
            }],
        )
    }

    /// Post buffers until the RX ring is full of them; all that came must have
    /// been received.
    pub(crate) fn fill(&mut self, room: usize) {
        let ring = self.ring(Side::Rx);
        for _ in ring.avail.wrapping_sub(ring.used)..RING {
            self.post(room);
        }
    }

    /// The pieces of a packet, header and payload apart, in the next TX buffer.
    pub(crate) fn packet(&mut self, header: &Header, payload: &[u8]) -> Vec<Piece> {
        let address = Self::buffer(Side::Tx, self.ring(Side::Tx).next_desc);
        self.write(address, header.as_bytes());
        self.write(address + HEADER_LEN as u64, payload);
        let piece = |address, len: usize| Piece {
            address,
            len: len as u32,
            writable: false,
        };
        let mut pieces = vec![piece(address, HEADER_LEN)];
        if !payload.is_empty() {
            pieces.push(piece(address + HEADER_LEN as u64, payload.len()));
        }
        pieces
    }

    /// Put a packet on the TX ring, without a kick.
    pub(crate) fn queue(&mut self, header: &Header, payload: &[u8]) -> u16 {
        let pieces = self.packet(header, payload);
        self.offer(Side::Tx, &pieces)
    }

    /// Ask for an interrupt for the next used entry.
    pub(crate) fn want_next_used(&mut self, side: Side) {
        self.set_used_event(side, self.ring(side).used);
        fence(Ordering::SeqCst);
    }

    /// Whether there are used entries that are new.
    pub(crate) fn has_used(&self, side: Side) -> bool {
        self.used_index(side) != self.ring(side).used
    }

    fn used_index(&self, side: Side) -> u16 {
        let address = self.ring(side).used_address() + 2;
        u16::from_le_bytes(self.read(address, 2).try_into().unwrap())
    }

    /// The used entries that are new, heads and lengths.
    pub(crate) fn used(&mut self, side: Side) -> Vec<(u16, u32)> {
        let ring = self.ring(side);
        let (base, from) = (ring.used_address(), ring.used);
        let to = self.used_index(side);
        self.ring_mut(side).used = to;
        let entry = |i: u16| {
            let at = base + 4 + 8 * u64::from(from.wrapping_add(i) % RING);
            let entry = self.read(at, 8);
            let word = |at| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
            (word(0) as u16, word(4))
        };
        (0..to.wrapping_sub(from)).map(entry).collect()
    }

    /// The packets that are new in the RX buffers.
    pub(crate) fn receive(&mut self) -> Vec<Received> {
        let used = self.used(Side::Rx);
        let read = |(head, len): (u16, u32)| {
            let data = self.read(Self::buffer(Side::Rx, head), len as usize);
            let (header, payload) = Header::read_from_prefix(&data).unwrap();
            Received {
                header,
                payload: payload.to_vec(),
            }
        };
        used.into_iter().map(read).collect()
    }
}
