// SPDX-License-Identifier: GPL-2.0
//! A guest's driver, as far as the tests need one: two rings in real memory,
//! and the buffers behind them.
//!
//! The mock of the `virtio-queue` crate has no driver's side to speak of, and
//! its 0.18 does not build with the Rust of Debian 13.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use nix::sys::eventfd::{EfdFlags, EventFd};
use vhost_user_backend::VringT;
use virtio_bindings::bindings::virtio_ring::{
    VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE,
};
use vm_memory::{Bytes, GuestAddress, GuestAddressSpace, GuestMemoryMmap};
use zerocopy::{FromBytes, IntoBytes};

use crate::header::{HEADER_LEN, Header, TYPE_STREAM, op};
use crate::port::Side;
use crate::queue::{Memory, Vring};
use crate::route::PortId;
use crate::wire::Wire;

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

/// One ring from the driver's side.
pub(crate) struct Ring {
    pub(crate) vring: Vring,
    base: u64,
    avail: u16,
    used: u16,
    next_desc: u16,
    call: File,
}

/// A guest with its two rings.
pub(crate) struct Guest {
    pub(crate) port: PortId,
    pub(crate) memory: Memory,
    rings: [Ring; 2],
}

/// A packet that the guest received.
#[derive(Debug, PartialEq)]
pub(crate) struct Received {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
}

/// A stream packet with payload.
pub(crate) fn rw(src: u32, dst: u32, len: usize) -> Header {
    Header {
        src_cid: u64::from(src).into(),
        dst_cid: u64::from(dst).into(),
        src_port: 1000.into(),
        dst_port: 2000.into(),
        len: (len as u32).into(),
        kind: TYPE_STREAM.into(),
        op: op::RW.into(),
        ..Header::zeroed()
    }
}

/// Bytes that do not repeat soon.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

impl Guest {
    /// A guest at a port of `wire`, its driver loaded, with EVENT_IDX.
    pub(crate) fn new(wire: &mut Wire, port: usize) -> Self {
        Self::with_event_idx(wire, port, true)
    }

    pub(crate) fn with_event_idx(wire: &mut Wire, port: usize, on: bool) -> Self {
        let map = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY as usize)]);
        let memory = Memory::new(map.unwrap());
        let rings = [Side::Rx, Side::Tx].map(|side| Ring::new(&memory, side, on));
        let mut guest = Guest {
            port: PortId(port),
            memory,
            rings,
        };
        wire.connect(guest.port);
        guest.start(wire);
        guest
    }

    /// Load the driver: fresh rings, both running.
    pub(crate) fn start(&mut self, wire: &mut Wire) {
        for side in [Side::Rx, Side::Tx] {
            self.ring(side).reset();
            let zeroes = vec![0; RING_SPACE as usize];
            let base = GuestAddress(self.rings[side as usize].base);
            self.memory.memory().write_slice(&zeroes, base).unwrap();
            self.ring(side).vring.set_queue_ready(true);
            self.kick(wire, side);
        }
    }

    /// Unload the driver, as QEMU tells it to the device.
    pub(crate) fn stop(&mut self, wire: &mut Wire) {
        for side in [Side::Rx, Side::Tx] {
            self.ring(side).vring.set_queue_ready(false);
            wire.stop(self.port, side);
            while wire.work() {}
        }
    }

    pub(crate) fn ring(&mut self, side: Side) -> &mut Ring {
        &mut self.rings[side as usize]
    }

    pub(crate) fn kick(&self, wire: &mut Wire, side: Side) {
        let vrings = [0, 1].map(|i| self.rings[i].vring.clone());
        wire.kick(self.port, side, &vrings, &self.memory);
        while wire.work() {}
    }

    pub(crate) fn write(&self, address: u64, data: &[u8]) {
        let memory = self.memory.memory();
        memory.write_slice(data, GuestAddress(address)).unwrap();
    }

    fn read(&self, address: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        let memory = self.memory.memory();
        memory.read_slice(&mut data, GuestAddress(address)).unwrap();
        data
    }

    /// Where the buffers of a ring's descriptor lie.
    fn buffer(side: Side, desc: u16) -> u64 {
        let ring = side as u64 * u64::from(RING);
        0x10_0000 + (ring + u64::from(desc)) * BUFFER_SPACE
    }

    /// Make a chain of these pieces available. Returns its head.
    pub(crate) fn offer(&mut self, side: Side, pieces: &[Piece]) -> u16 {
        let ring = &self.rings[side as usize];
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
        self.ring(side).next_desc = (head + pieces.len() as u16) % RING;
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
        self.ring(side).next_desc = (head + 1) % RING;
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
        let ring = &self.rings[side as usize];
        let (avail, idx) = (ring.avail_address(), ring.avail);
        self.write(avail + 4 + 2 * u64::from(idx % RING), &head.to_le_bytes());
        self.set_avail(side, idx.wrapping_add(1));
    }

    /// Set the available index, to the truth or to a lie.
    pub(crate) fn set_avail(&mut self, side: Side, idx: u16) {
        self.ring(side).avail = idx;
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
        let used = self.rings[side as usize].used_address();
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

    /// Put a packet on the TX ring and kick.
    pub(crate) fn send(&mut self, wire: &mut Wire, header: &Header, payload: &[u8]) -> u16 {
        let head = self.queue(header, payload);
        self.kick(wire, Side::Tx);
        head
    }

    /// The used entries that are new, heads and lengths.
    pub(crate) fn used(&mut self, side: Side) -> Vec<(u16, u32)> {
        let ring = &self.rings[side as usize];
        let (base, from) = (ring.used_address(), ring.used);
        let to = u16::from_le_bytes(self.read(base + 2, 2).try_into().unwrap());
        self.ring(side).used = to;
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

impl Ring {
    fn new(memory: &Memory, side: Side, event_idx: bool) -> Self {
        let vring = Vring::new(memory.clone(), RING).unwrap();
        let call = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
        let call = File::from(OwnedFd::from(call));
        let base = 0x1000 + side as u64 * RING_SPACE;
        let ring = Ring {
            vring,
            base,
            avail: 0,
            used: 0,
            next_desc: 0,
            call,
        };
        ring.vring.set_queue_size(RING);
        ring.vring
            .set_queue_info(base, ring.avail_address(), ring.used_address())
            .unwrap();
        ring.vring.set_queue_event_idx(event_idx);
        ring.vring.set_call(Some(ring.call.try_clone().unwrap()));
        ring.vring.set_enabled(true);
        ring
    }

    fn reset(&mut self) {
        (self.avail, self.used, self.next_desc) = (0, 0, 0);
        self.vring.set_queue_next_avail(0);
        self.vring.set_queue_next_used(0);
    }

    fn avail_address(&self) -> u64 {
        self.base + 0x1000
    }

    fn used_address(&self) -> u64 {
        self.base + 0x2000
    }

    /// Whether there was an interrupt since this was asked last.
    pub(crate) fn interrupted(&mut self) -> bool {
        self.call.read(&mut [0; 8]).is_ok()
    }
}
