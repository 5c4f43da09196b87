// SPDX-License-Identifier: GPL-2.0
//! The header of a vsock packet, as it stands on the ring.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a header on the ring.
pub const HEADER_LEN: usize = size_of::<Header>();

/// The largest payload one packet may carry, the same as Linux's
/// `VIRTIO_VSOCK_MAX_PKT_BUF_SIZE`.
pub const MAX_PAYLOAD: usize = 64 * 1024;

/// A connection-oriented byte stream.
pub const TYPE_STREAM: u16 = 1;
/// Connection-oriented messages whose ends are kept.
pub const TYPE_SEQPACKET: u16 = 2;

/// `VIRTIO_VSOCK_SEQ_EOM`: the last packet of a message.
pub const FLAG_EOM: u32 = 1 << 0;
/// `VIRTIO_VSOCK_SEQ_EOR`: the message ends a record.
pub const FLAG_EOR: u32 = 1 << 1;

/// `VIRTIO_VSOCK_SHUTDOWN_RCV`: the sender of this will receive no more.
pub const SHUTDOWN_RCV: u32 = 1 << 0;
/// `VIRTIO_VSOCK_SHUTDOWN_SEND`: the sender of this will send no more.
pub const SHUTDOWN_SEND: u32 = 1 << 1;
/// Both: the connection is over once this is confirmed with a reset.
pub const SHUTDOWN_BOTH: u32 = SHUTDOWN_RCV | SHUTDOWN_SEND;

/// The operation codes of virtio-vsock.
pub mod op {
    /// Ask for a connection.
    pub const REQUEST: u16 = 1;
    /// Accept a connection.
    pub const RESPONSE: u16 = 2;
    /// Refuse or end a connection at once.
    pub const RST: u16 = 3;
    /// Announce that a side will not send, or not receive, any more.
    pub const SHUTDOWN: u16 = 4;
    /// Carry payload.
    pub const RW: u16 = 5;
    /// Tell the peer how much room there is.
    pub const CREDIT_UPDATE: u16 = 6;
    /// Ask the peer how much room there is.
    pub const CREDIT_REQUEST: u16 = 7;
}

/// `struct virtio_vsock_hdr`. Each field comes from a guest: nothing in it may
/// be believed before it was checked.
#[derive(
    Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Eq, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Context identifier of the sender.
    pub src_cid: U64,
    /// Context identifier of the receiver.
    pub dst_cid: U64,
    /// Port of the sender.
    pub src_port: U32,
    /// Port of the receiver.
    pub dst_port: U32,
    /// Bytes of payload behind this header.
    pub len: U32,
    /// Socket type, [`TYPE_STREAM`] or [`TYPE_SEQPACKET`].
    pub kind: U16,
    /// Operation, one of [`op`].
    pub op: U16,
    /// Flags, whose meaning depends on the operation.
    pub flags: U32,
    /// The sender's receive buffer in bytes.
    pub buf_alloc: U32,
    /// Bytes that the sender's user has taken out of that buffer so far.
    pub fwd_cnt: U32,
}

impl Header {
    /// A header of zeroes, to be filled.
    pub fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// The reset that answers this packet, from the address that it was meant
    /// for. None for a reset: two ends that know nothing of each other would
    /// otherwise answer one another for ever.
    pub fn reset(&self) -> Option<Header> {
        (self.op != op::RST).then(|| Header {
            src_cid: self.dst_cid,
            dst_cid: self.src_cid,
            src_port: self.dst_port,
            dst_port: self.src_port,
            kind: self.kind,
            op: op::RST.into(),
            ..Self::zeroed()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Header {
        Header {
            src_cid: 3.into(),
            dst_cid: 4.into(),
            src_port: 1025.into(),
            dst_port: 1234.into(),
            len: 7.into(),
            kind: TYPE_SEQPACKET.into(),
            op: op::REQUEST.into(),
            flags: 3.into(),
            buf_alloc: 4096.into(),
            fwd_cnt: 5.into(),
        }
    }

    #[test]
    fn layout_is_the_wire_format() {
        assert_eq!(HEADER_LEN, 44);
        let bytes = request().as_bytes().to_vec();
        assert_eq!(bytes[0..8], 3u64.to_le_bytes());
        assert_eq!(bytes[8..16], 4u64.to_le_bytes());
        assert_eq!(bytes[16..20], 1025u32.to_le_bytes());
        assert_eq!(bytes[20..24], 1234u32.to_le_bytes());
        assert_eq!(bytes[24..28], 7u32.to_le_bytes());
        assert_eq!(bytes[28..30], TYPE_SEQPACKET.to_le_bytes());
        assert_eq!(bytes[30..32], op::REQUEST.to_le_bytes());
        assert_eq!(bytes[32..36], 3u32.to_le_bytes());
        assert_eq!(bytes[36..40], 4096u32.to_le_bytes());
        assert_eq!(bytes[40..44], 5u32.to_le_bytes());
    }

    #[test]
    fn reset_goes_back_the_way_the_packet_came() {
        let reset = request().reset().unwrap();
        assert_eq!((reset.src_cid.get(), reset.dst_cid.get()), (4, 3));
        assert_eq!((reset.src_port.get(), reset.dst_port.get()), (1234, 1025));
        assert_eq!(reset.kind.get(), TYPE_SEQPACKET);
        assert_eq!(reset.op.get(), op::RST);
        assert_eq!((reset.len.get(), reset.flags.get()), (0, 0));
        assert_eq!((reset.buf_alloc.get(), reset.fwd_cnt.get()), (0, 0));
    }

    #[test]
    fn reset_is_never_answered() {
        assert_eq!(request().reset().unwrap().reset(), None);
    }
}
