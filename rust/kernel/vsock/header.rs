// SPDX-License-Identifier: GPL-2.0

//! The packet header of the virtio-vsock wire format.
//!
//! C header: [`include/uapi/linux/virtio_vsock.h`](srctree/include/uapi/linux/virtio_vsock.h)

use crate::bindings;
use kernel::prelude::*;
use zerocopy::little_endian::{
    U16,
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The length of a header on the wire, in bytes.
pub const HEADER_LEN: u32 = 44;

/// One end of a flow.
///
/// CIDs are 64 bits wide on the wire; only the lower 32 are used, and the rest is reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addr {
    /// The context identifier.
    pub cid: u32,
    /// The port.
    pub port: u32,
}

/// A copy of `struct virtio_vsock_hdr`.
///
/// Any value is possible in any field: it comes from the device.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    src_cid: U64,
    dst_cid: U64,
    src_port: U32,
    dst_port: U32,
    len: U32,
    type_: U16,
    op: U16,
    flags: U32,
    buf_alloc: U32,
    fwd_cnt: U32,
}

static_assert!(size_of::<Header>() == HEADER_LEN as usize);
static_assert!(size_of::<Header>() == size_of::<bindings::virtio_vsock_hdr>());

impl Header {
    /// Where the packet comes from; the reserved half of the CID is left out, as in C.
    #[inline]
    pub fn src(&self) -> Addr {
        Addr {
            // CAST: `vsock_addr_init()` takes the lower 32 bits as well.
            cid: self.src_cid.get() as u32,
            port: self.src_port.get(),
        }
    }

    /// Where the packet goes to; the reserved half of the CID is left out, as in C.
    #[inline]
    pub fn dst(&self) -> Addr {
        Addr {
            // CAST: `vsock_addr_init()` takes the lower 32 bits as well.
            cid: self.dst_cid.get() as u32,
            port: self.dst_port.get(),
        }
    }

    /// The number of bytes that follow the header, as it claims.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        self.len.get()
    }

    /// `enum virtio_vsock_type`, unchecked.
    #[inline]
    pub fn raw_type(&self) -> u16 {
        self.type_.get()
    }

    /// `enum virtio_vsock_op`, unchecked.
    #[inline]
    pub fn raw_op(&self) -> u16 {
        self.op.get()
    }

    /// The flags; what they mean depends on type and op.
    #[inline]
    pub fn flags(&self) -> u32 {
        self.flags.get()
    }

    /// The size of the sender's receive buffer, in bytes.
    #[inline]
    pub fn buf_alloc(&self) -> u32 {
        self.buf_alloc.get()
    }

    /// How many bytes the sender's application took so far, modulo 2^32.
    #[inline]
    pub fn fwd_cnt(&self) -> u32 {
        self.fwd_cnt.get()
    }

    /// Is this plain payload of a stream, with every reserved field zero?
    ///
    /// Flags have no meaning in such a packet, but the C code looks at them; a packet that has
    /// any, or no payload, is left to it.
    #[inline]
    pub fn is_stream_data(&self) -> bool {
        // CAST: The constants of an `enum` whose field is 16 bits wide on the wire.
        self.raw_type() == bindings::virtio_vsock_type_VIRTIO_VSOCK_TYPE_STREAM as u16
            && self.raw_op() == bindings::virtio_vsock_op_VIRTIO_VSOCK_OP_RW as u16
            && self.payload_len() != 0
            && self.flags() == 0
            && self.src_cid.get() >> 32 == 0
            && self.dst_cid.get() >> 32 == 0
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_header)]
mod tests {
    use super::*;

    /// A header of stream payload, as bytes of the wire.
    const WIRE: [u8; 44] = [
        2, 0, 0, 0, 0, 0, 0, 0, // src_cid
        3, 0, 0, 0, 0, 0, 0, 0, // dst_cid
        0xd2, 0x04, 0, 0, // src_port
        0x39, 0x30, 0, 0, // dst_port
        0x40, 0, 0, 0, // len
        1, 0, // type
        5, 0, // op
        0, 0, 0, 0, // flags
        0, 0, 4, 0, // buf_alloc
        0xff, 0xff, 0xff, 0xff, // fwd_cnt
    ];

    fn with(offset: usize, value: u8) -> Header {
        let mut wire = WIRE;
        wire[offset] = value;
        zerocopy::transmute!(wire)
    }

    #[test]
    fn fields_are_where_the_wire_has_them() {
        let hdr: Header = zerocopy::transmute!(WIRE);
        assert!(hdr.src() == Addr { cid: 2, port: 1234 });
        assert!(
            hdr.dst()
                == Addr {
                    cid: 3,
                    port: 12345
                }
        );
        assert_eq!(hdr.payload_len(), 64);
        assert_eq!(hdr.raw_type(), 1);
        assert_eq!(hdr.raw_op(), 5);
        assert_eq!(hdr.flags(), 0);
        assert_eq!(hdr.buf_alloc(), 262144);
        assert_eq!(hdr.fwd_cnt(), u32::MAX);
        assert!(hdr.is_stream_data());
    }

    #[test]
    fn all_else_is_no_stream_data() {
        // The fifth byte of each CID is reserved.
        for (offset, value) in [(4, 1), (12, 1), (24, 0), (28, 2), (28, 3), (30, 1), (30, 6)] {
            assert!(!with(offset, value).is_stream_data());
        }
        for offset in 32..36 {
            assert!(!with(offset, 1).is_stream_data());
        }
    }
}
