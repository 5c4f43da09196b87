// SPDX-License-Identifier: GPL-2.0

//! Packets that were received, and the buffers they come in.
//!
//! C header: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h)
//!
//! The header of a packet stands at `skb->head`, the payload at `skb->data`.

use super::{
    Header,
    HEADER_LEN, //
};
use crate::{
    bindings,
    gfp::Gfp,
    net::{
        page_pool::PagePool,
        skbuff::{
            SkBuff,
            SkBuffList, //
        },
        sock::LockedSock, //
    },
    scatterlist::ScatterList,
    virtio::{
        Direction,
        Token, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// The length of a receive buffer as the device sees it, in bytes, header included.
const RX_BUF_LEN: u32 = bindings::VSOCK_CONST_HELPER_RX_BUF_SIZE;

/// An empty receive buffer, ready for the device.
///
/// # Invariants
///
/// The skb is linear and has no payload, its linear buffer has [`RX_BUF_LEN`] bytes or more with
/// [`HEADER_LEN`] of headroom, and its control block is zero.
pub struct RxBuffer(SkBuff);

impl RxBuffer {
    /// Allocates one from `pool`; may sleep.
    ///
    /// Mirrors what `virtio_vsock_rx_fill()` does.
    pub fn new(pool: &mut PagePool) -> Option<Self> {
        pool.alloc_rx_skb(Gfp::Kernel).map(Self::reset)
    }

    /// Makes an skb that was an `RxBuffer` one again.
    #[inline]
    fn reset(skb: SkBuff) -> Self {
        // INVARIANT: The skb becomes as it was when it was allocated.
        //
        // SAFETY: The skb is ours alone, and has room for a header.
        unsafe { bindings::virtio_vsock_rx_skb_reset(skb.as_ptr()) };
        Self(skb)
    }

    /// The packet that the device left in the buffer, by its own account `used` bytes of it.
    ///
    /// Whatever the device wrote, and goes on writing, the header is read once; what is returned
    /// has at most as much payload as was written into this buffer. Otherwise the buffer is given
    /// back, ready for the next packet.
    pub fn received(self, used: u32) -> Result<RxPacket, (Self, Malformed)> {
        if used < HEADER_LEN {
            return Err((Self::reset(self.0), Malformed::Short));
        }
        if used > RX_BUF_LEN {
            return Err((Self::reset(self.0), Malformed::Long));
        }
        // Words, as a volatile read of a `Header`, which has no alignment, would go byte by byte.
        //
        // SAFETY: By the type invariant the buffer begins with room for a header, and the buffer
        // of an skb is aligned to more than a word. The read is volatile so that all that is
        // checked is what was read here.
        let words = unsafe { self.0.head().cast::<[u32; 11]>().read_volatile() };
        let hdr: Header = zerocopy::transmute!(words);
        let len = hdr.payload_len();
        if len > used - HEADER_LEN {
            return Err((Self::reset(self.0), Malformed::Payload));
        }
        if len > 0 {
            // SAFETY: By the type invariant the skb is empty and has room for
            // `RX_BUF_LEN - HEADER_LEN` bytes, which `len` was just found not to exceed.
            unsafe { bindings::virtio_vsock_skb_put(self.0.as_ptr(), len) };
        }
        // Whoever looks at the header in the skb from here on goes by what was checked, and not by
        // what the device may have written since.
        //
        // SAFETY: As for the read.
        unsafe { self.0.head().cast::<[u32; 11]>().write(words) };
        // INVARIANT: `len` bytes of payload are in the skb.
        Ok(RxPacket { skb: self.0, hdr })
    }
}

// SAFETY: The pointer is the one of the skb, and by the type invariant the memory listed is the
// skb's linear buffer.
unsafe impl Token for RxBuffer {
    const DIRECTION: Direction = Direction::FromDevice;

    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        self.0.into_raw().cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // INVARIANT: The skb was an `RxBuffer`, and nobody changed it since.
        //
        // SAFETY: The caller gives up the skb that `into_raw` returned.
        Self(unsafe { SkBuff::from_raw(raw.cast()) })
    }

    #[inline]
    fn describe(&mut self, sg: &mut ScatterList) -> Result {
        let head = NonNull::new(self.0.head()).ok_or(EINVAL)?;
        // SAFETY: An skb's linear buffer is in the linear mapping, and has `RX_BUF_LEN` bytes.
        unsafe { sg.push(head.cast(), RX_BUF_LEN) }
    }
}

/// Empty receive buffers that wait to be given to the device again.
#[derive(Default)]
pub struct RxBufferList(SkBuffList);

impl RxBufferList {
    /// No buffers.
    pub const fn new() -> Self {
        Self(SkBuffList::new())
    }

    /// Keeps one.
    #[inline]
    pub fn push(&mut self, buffer: RxBuffer) {
        self.0.push_back(buffer.0);
    }

    /// Takes one out.
    #[inline]
    pub fn pop(&mut self) -> Option<RxBuffer> {
        // INVARIANT: Only `push` puts skbs in, and those are `RxBuffer`s. The link that the list
        // used does not belong to what the invariant is about.
        self.0.pop_front().map(RxBuffer)
    }
}

/// Why a packet is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The device says it wrote less than a header.
    Short,
    /// The device says it wrote more than the buffer has room for.
    Long,
    /// The header claims more payload than was written.
    Payload,
}

/// A packet that was received and is well-formed.
///
/// # Invariants
///
/// `skb` is linear and was an [`RxBuffer`]; its payload is `hdr.payload_len()` bytes long.
pub struct RxPacket {
    pub(super) skb: SkBuff,
    pub(super) hdr: Header,
}

impl RxPacket {
    /// The header, as it was read from the device, once.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.hdr
    }

    /// Shows the packet to packet captures, if there are any; marks it, so that the regular
    /// receive path does not do so again.
    ///
    /// Stands for `virtio_transport_deliver_tap_pkt()`.
    #[inline]
    pub fn deliver_tap(&mut self) {
        // SAFETY: The skb is a valid vsock packet.
        unsafe { bindings::virtio_transport_deliver_tap_pkt(self.skb.as_ptr()) }
    }

    /// The skb, as one that holds a reference to `sock`.
    ///
    /// Mirrors `skb_set_owner_sk_safe()`, which cannot fail for a socket that is locked.
    #[inline]
    pub(super) fn into_owned_by(self, sock: &LockedSock) -> SkBuff {
        // SAFETY: Both are valid, and `sock` has a reference.
        unsafe { bindings::skb_set_owner_sk(self.skb.as_ptr(), sock.as_ptr()) };
        self.skb
    }

    /// The buffer, emptied: the payload is needed no more.
    #[inline]
    pub fn into_buffer(self) -> RxBuffer {
        RxBuffer::reset(self.skb)
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_rx_packet)]
mod tests {
    use super::*;

    /// The bytes that a buffer of full length has room for.
    const MOST: u32 = RX_BUF_LEN - HEADER_LEN;

    /// A buffer in which the device left a header that claims `len` bytes of payload.
    fn buffer(pool: &mut PagePool, len: u32) -> Result<RxBuffer> {
        let buffer = RxBuffer::new(pool).ok_or(ENOMEM)?;
        let mut words = [0u32; 11];
        words[6] = len.to_le();
        // SAFETY: By the type invariant the buffer begins with room for a header.
        unsafe { buffer.0.head().cast::<[u32; 11]>().write(words) };
        Ok(buffer)
    }

    #[test]
    fn lengths_are_held_against_header_buffer_and_each_other() -> Result {
        let table = [
            (0, 0, Some(Malformed::Short)),
            (43, 0, Some(Malformed::Short)),
            (44, 0, None),
            (44, 1, Some(Malformed::Payload)),
            (45, 1, None),
            (100, 56, None),
            (100, 57, Some(Malformed::Payload)),
            (100, u32::MAX, Some(Malformed::Payload)),
            (RX_BUF_LEN, MOST, None),
            (RX_BUF_LEN, MOST + 1, Some(Malformed::Payload)),
            (RX_BUF_LEN + 1, 0, Some(Malformed::Long)),
            (u32::MAX, 0, Some(Malformed::Long)),
        ];
        let mut pool = PagePool::new(2)?;
        for (used, len, fault) in table {
            match buffer(&mut pool, len)?.received(used) {
                Ok(packet) => {
                    assert_eq!(fault, None);
                    assert_eq!(packet.header().payload_len(), len);
                }
                Err((_, why)) => assert_eq!(fault, Some(why)),
            }
        }
        Ok(())
    }

    #[test]
    fn a_buffer_is_the_same_whoever_had_it() -> Result {
        let mut pool = PagePool::new(2)?;
        let buffer = buffer(&mut pool, 10)?;
        let head = buffer.0.head();
        // A malformed packet's buffer comes back, and a copied one's.
        let Err((buffer, _)) = buffer.received(0) else {
            return Err(EINVAL);
        };
        assert!(buffer.0.head() == head);
        let buffer = buffer.received(54).map_err(|_| EINVAL)?.into_buffer();
        assert!(buffer.0.head() == head);
        // To the device and back.
        let raw = buffer.into_raw();
        // SAFETY: `into_raw` returned it, once.
        let buffer = unsafe { RxBuffer::from_raw(raw) };
        assert!(buffer.0.head() == head);
        // Into the list of those that wait, and out of it.
        let mut list = RxBufferList::new();
        list.push(buffer);
        let buffer = list.pop().ok_or(EINVAL)?;
        assert!(list.pop().is_none());
        assert!(buffer.0.head() == head);
        Ok(())
    }
}
