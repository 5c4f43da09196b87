// SPDX-License-Identifier: GPL-2.0
//! One frame of vsockmon: a header of its own, the transport's, and the payload.

use std::fmt;

use vsock_wire::header::{HEADER_LEN, Header, op};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct af_vsockmon_hdr`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MonitorHeader {
    /// Context identifier of the sender.
    pub src_cid: U64,
    /// Context identifier of the receiver.
    pub dst_cid: U64,
    /// Port of the sender.
    pub src_port: U32,
    /// Port of the receiver.
    pub dst_port: U32,
    /// The kind of operation, whichever transport it is of.
    pub op: U16,
    /// The transport.
    pub transport: U16,
    /// Bytes of the transport's header.
    pub len: U16,
    /// Zero.
    pub reserved: [u8; 2],
}

/// `AF_VSOCK_TRANSPORT_VIRTIO`.
pub const TRANSPORT_VIRTIO: u16 = 2;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Its context identifier.
    pub cid: u64,
    /// Its port.
    pub port: u32,
}

/// One packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// As it stood on the ring.
    pub header: Header,
    /// All of its payload.
    pub payload: Vec<u8>,
}

/// Why a frame is not a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There is not room for both headers.
    #[error("{0} bytes are too few for the headers")]
    Short(usize),
    /// It is not of virtio-vsock.
    #[error("its transport is {transport}, with a header of {len} bytes, not virtio's")]
    Transport {
        /// What it says it is.
        transport: u16,
        /// How long it says that its header is.
        len: u16,
    },
    /// The two headers disagree.
    #[error("vsockmon's header says {outer}, the transport's {inner}")]
    Disagreement {
        /// What the one says.
        outer: String,
        /// What the other says.
        inner: String,
    },
    /// The header tells of more or of less payload than there is.
    #[error("its header tells of {told} bytes of payload, and {there} are there")]
    Payload {
        /// What the header says.
        told: u32,
        /// What there is.
        there: usize,
    },
}

impl Packet {
    /// Takes a frame apart.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let short = || Malformed::Short(frame.len());
        let (monitor, rest) = MonitorHeader::read_from_prefix(frame).map_err(|_| short())?;
        let (transport, len) = (monitor.transport.get(), monitor.len.get());
        if transport != TRANSPORT_VIRTIO || usize::from(len) != HEADER_LEN {
            return Err(Malformed::Transport { transport, len });
        }
        let (header, payload) = Header::read_from_prefix(rest).map_err(|_| short())?;
        let outer = described(
            Address::new(monitor.src_cid, monitor.src_port),
            Address::new(monitor.dst_cid, monitor.dst_port),
            monitor.op.get(),
        );
        let packet = Packet {
            header,
            payload: payload.to_vec(),
        };
        let kind = monitor_op(header.op.get());
        let inner = described(packet.source(), packet.target(), kind);
        if outer != inner {
            return Err(Malformed::Disagreement { outer, inner });
        }
        let (told, there) = (header.len.get(), payload.len());
        if told as usize != there {
            return Err(Malformed::Payload { told, there });
        }
        Ok(packet)
    }

    /// Who sent it.
    pub fn source(&self) -> Address {
        Address::new(self.header.src_cid, self.header.src_port)
    }

    /// Whom it is for.
    pub fn target(&self) -> Address {
        Address::new(self.header.dst_cid, self.header.dst_port)
    }
}

impl Address {
    fn new(cid: U64, port: U32) -> Self {
        Self {
            cid: cid.get(),
            port: port.get(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cid, self.port)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        let name = match header.op.get() {
            op::REQUEST => "REQUEST",
            op::RESPONSE => "RESPONSE",
            op::RST => "RST",
            op::SHUTDOWN => "SHUTDOWN",
            op::RW => "RW",
            op::CREDIT_UPDATE => "CREDIT_UPDATE",
            op::CREDIT_REQUEST => "CREDIT_REQUEST",
            _ => "unknown operation",
        };
        write!(f, "{} > {} {name}", self.source(), self.target())?;
        let (flags, len) = (header.flags.get(), header.len.get());
        let (room, forwarded) = (header.buf_alloc.get(), header.fwd_cnt.get());
        write!(
            f,
            ", flags {flags}, {len} bytes, buf_alloc {room}, fwd_cnt {forwarded}"
        )
    }
}

fn described(source: Address, target: Address, op: u16) -> String {
    format!("{source} > {target} with operation {op}")
}

/// What vsockmon calls an operation of virtio's: `enum af_vsockmon_op`.
pub fn monitor_op(virtio: u16) -> u16 {
    match virtio {
        op::REQUEST | op::RESPONSE => 1,
        op::RST | op::SHUTDOWN => 2,
        op::CREDIT_UPDATE | op::CREDIT_REQUEST => 3,
        op::RW => 4,
        _ => 0,
    }
}
