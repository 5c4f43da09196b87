// SPDX-License-Identifier: GPL-2.0
//! Packets in descriptor chains: out of a sender's, into a receiver's.
//!
//! The packet parser of the `virtio-vsock` crate wants the payload in one
//! descriptor; Linux sends zero-copy packets in many.

use std::io::{Read, Write};

use bytes::Bytes;
use vm_memory::{GuestMemoryLoadGuard, GuestMemoryMmap};
use zerocopy::{FromZeros, IntoBytes};

use crate::header::{HEADER_LEN, Header, MAX_PAYLOAD};

/// Guest memory as it was mapped when the chain was taken off its ring.
pub type Mapped = GuestMemoryLoadGuard<GuestMemoryMmap>;

/// A chain of descriptors, none of them looked at yet.
pub type Chain = virtio_queue::DescriptorChain<Mapped>;

/// Why a chain holds no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It has no room for a header.
    Short,
    /// It is longer than any packet.
    Long,
    /// Its header promises more payload than it has.
    Payload,
    /// Its descriptors point outside of memory, or the wrong way.
    Descriptors,
}

/// Read the packet in a chain of a TX queue. Header and payload are read once:
/// what the guest writes there afterwards changes nothing.
pub fn read_packet(chain: &Chain, memory: &Mapped) -> Result<(Header, Bytes), Malformed> {
    if chain.clone().writable().next().is_some() {
        return Err(Malformed::Descriptors);
    }
    let mut reader = chain
        .clone()
        .reader(memory)
        .map_err(|_| Malformed::Descriptors)?;
    let size = reader.available_bytes();
    if size < HEADER_LEN {
        return Err(Malformed::Short);
    }
    if size > HEADER_LEN + MAX_PAYLOAD {
        return Err(Malformed::Long);
    }
    let mut header = Header::new_zeroed();
    let unreadable = |_| Malformed::Descriptors;
    reader
        .read_exact(header.as_mut_bytes())
        .map_err(unreadable)?;
    let len = header.len.get() as usize;
    if len > size - HEADER_LEN {
        return Err(Malformed::Payload);
    }
    let mut payload = vec![0; len];
    reader.read_exact(&mut payload).map_err(unreadable)?;
    Ok((header, payload.into()))
}

/// An empty buffer of an RX queue.
pub struct Buffer<'a> {
    writer: virtio_queue::Writer<'a>,
}

impl<'a> Buffer<'a> {
    /// The buffer that a chain makes, if it can take a header at least.
    pub fn new(chain: &Chain, memory: &'a Mapped) -> Option<Self> {
        if chain.clone().readable().next().is_some() {
            return None;
        }
        let writer = chain.clone().writer(memory).ok()?;
        (writer.available_bytes() >= HEADER_LEN).then_some(Buffer { writer })
    }

    /// How much payload fits behind the header.
    pub fn room(&self) -> usize {
        self.writer.available_bytes() - HEADER_LEN
    }

    /// Put a packet into the buffer. Returns the number of bytes written.
    pub fn fill(mut self, header: &Header, payload: &[u8]) -> std::io::Result<u32> {
        self.writer.write_all(header.as_bytes())?;
        self.writer.write_all(payload)?;
        Ok((HEADER_LEN + payload.len()) as u32)
    }
}
