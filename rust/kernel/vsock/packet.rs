// SPDX-License-Identifier: GPL-2.0

//! Packets, and the buffers they come in.
//!
//! C header: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h)
//!
//! The header of a packet stands at `skb->head`, the payload at `skb->data`.

use super::{
    Header,
    VsockSock,
    HEADER_LEN, //
};
use crate::{
    bindings,
    gfp::Gfp,
    net::{
        skbuff::{
            SkBuff,
            SkBuffList,
            SkBuffQueue, //
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
    /// Allocates one; may sleep.
    ///
    /// Stands for `virtio_vsock_alloc_linear_skb()` and what `virtio_vsock_rx_fill()` does to it.
    pub fn new() -> Option<Self> {
        // SAFETY: May be called in any context that may sleep.
        let skb = unsafe { bindings::virtio_vsock_alloc_rx_skb(Gfp::Kernel.as_raw()) };
        // SAFETY: The skb was just allocated.
        let skb = unsafe { SkBuff::from_raw(NonNull::new(skb)?) };
        Some(Self::reset(skb))
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

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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

    /// The skb, as one that holds a reference to `sock`, with the header as it was checked.
    ///
    /// Mirrors `skb_set_owner_sk_safe()`, which cannot fail for a socket that is locked.
    #[inline]
    pub(super) fn into_owned_by(self, sock: &LockedSock) -> SkBuff {
        // CAST: `Header` has no alignment.
        //
        // SAFETY: The skb begins with room for a header. What a reader goes by is what was
        // checked, and not what the device may have written since.
        unsafe { self.skb.head().cast::<Header>().write(self.hdr) };
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

/// A packet to be sent.
///
/// # Invariants
///
/// The skb is a vsock packet as the C common code makes them: the header at `skb->head`, and the
/// payload either all linear, or all in page fragments.
pub struct TxPacket(SkBuff);

impl TxPacket {
    /// Takes over a packet of the C common code.
    ///
    /// # Safety
    ///
    /// `skb` must be a packet that `virtio_transport_alloc_skb()` made, given up by the caller.
    #[inline]
    pub(super) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the requirements of this function.
        //
        // SAFETY: As above.
        Self(unsafe { SkBuff::from_raw(skb) })
    }

    /// The number of bytes of payload.
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.len()
    }

    /// Is there no payload?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CID the packet goes to.
    #[inline]
    pub fn dst_cid(&self) -> u64 {
        // CAST: The C header is packed, and has no alignment.
        let hdr = self.0.head().cast::<bindings::virtio_vsock_hdr>();
        // SAFETY: By the type invariant the header is there.
        u64::from_le(unsafe { (*hdr).dst_cid })
    }

    /// Is it the answer to a packet that was received?
    ///
    /// Stands for `virtio_vsock_skb_reply()`.
    #[inline]
    pub fn is_reply(&self) -> bool {
        // SAFETY: The skb is a valid vsock packet.
        unsafe { bindings::virtio_vsock_skb_reply(self.0.as_ptr()) }
    }

    /// Shows the packet to packet captures, if there are any, once.
    ///
    /// Stands for `virtio_transport_deliver_tap_pkt()`.
    #[inline]
    pub fn deliver_tap(&mut self) {
        // SAFETY: The skb is a valid vsock packet.
        unsafe { bindings::virtio_transport_deliver_tap_pkt(self.0.as_ptr()) }
    }

    /// The device has sent it: tell the socket, and free it.
    ///
    /// Stands for `virtio_transport_consume_skb_sent()`.
    #[inline]
    pub fn consume_sent(self) {
        // SAFETY: The skb is a valid vsock packet, and is given up.
        unsafe {
            bindings::virtio_transport_consume_skb_sent(self.0.into_raw().as_ptr(), true);
        }
    }

    /// Lists `len` bytes at `buf`, which belong to the skb.
    ///
    /// # Safety
    ///
    /// As for [`ScatterList::push`], but that `buf` may be null, which is an error here.
    #[inline]
    unsafe fn push(sg: &mut ScatterList, buf: *mut c_void, len: u32) -> Result {
        let buf = NonNull::new(buf).ok_or(EINVAL)?;
        // SAFETY: By the requirements of this function.
        unsafe { sg.push(buf, len) }
    }
}

// SAFETY: The pointer is the one of the skb, and the memory listed is the skb's own.
unsafe impl Token for TxPacket {
    const DIRECTION: Direction = Direction::ToDevice;

    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        self.0.into_raw().cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // INVARIANT: The skb was a `TxPacket`, and nobody changed it since.
        //
        // SAFETY: The caller gives up the skb that `into_raw` returned.
        Self(unsafe { SkBuff::from_raw(raw.cast()) })
    }

    /// The header, and then the payload, one entry for each piece of it, as the C driver's
    /// `virtio_transport_send_skb()` lists them.
    #[inline]
    fn describe(&mut self, sg: &mut ScatterList) -> Result {
        // SAFETY: By the type invariant the header is at the head of the linear buffer.
        unsafe { Self::push(sg, self.0.head().cast(), HEADER_LEN)? };
        if !self.0.is_nonlinear() {
            if !self.is_empty() {
                // SAFETY: All of the payload is in the linear buffer.
                unsafe { Self::push(sg, self.0.data().cast(), self.len())? };
            }
            return Ok(());
        }
        let skb = self.0.as_ptr();
        // SAFETY: The skb is valid.
        for i in 0..unsafe { bindings::skb_nr_frags(skb) } {
            // SAFETY: Fragment `i` is there. Its page may be one of user space: the address is
            // only used to find the page again.
            let buf = unsafe { bindings::skb_frag_address(skb, i) };
            // SAFETY: Fragment `i` is there.
            let len = unsafe { bindings::skb_frag_size(skb, i) };
            // SAFETY: The fragment belongs to the skb, and lies in one compound page.
            unsafe { Self::push(sg, buf, len)? };
        }
        Ok(())
    }
}

/// Packets that wait to be sent.
///
/// Has its own lock, so that all methods may be called at any time.
#[pin_data]
pub struct TxQueue {
    #[pin]
    queue: SkBuffQueue,
}

impl TxQueue {
    /// An empty queue.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- SkBuffQueue::new(),
        })
    }

    /// Is the queue empty? What the calling thread queued before is seen.
    #[inline]
    pub fn is_empty_lockless(&self) -> bool {
        self.queue.is_empty_lockless()
    }

    /// Appends a packet.
    pub fn push_back(&self, packet: TxPacket) {
        self.queue.push_back(packet.0);
    }

    /// Puts a packet in front of all others.
    pub fn push_front(&self, packet: TxPacket) {
        self.queue.push_front(packet.0);
    }

    /// Takes the first packet.
    pub fn pop_front(&self) -> Option<TxPacket> {
        // INVARIANT: Only packets are put in.
        self.queue.pop_front().map(TxPacket)
    }

    /// Drops all packets of one socket, and says how many of them were replies.
    ///
    /// Stands for `virtio_transport_purge_skbs()`.
    pub fn purge_socket(&self, vsk: &VsockSock) -> u32 {
        // SAFETY: The queue is initialised; the socket is only compared with.
        let replies = unsafe {
            bindings::virtio_transport_purge_skbs(vsk.as_ptr().cast(), self.queue.as_ptr())
        };
        u32::try_from(replies).unwrap_or(0)
    }
}
