// SPDX-License-Identifier: GPL-2.0

//! Packets to be sent, and the queue that they wait in.
//!
//! C header: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h)
//!
//! The header of a packet stands at `skb->head`, the payload at `skb->data`.

use super::{
    VsockSock,
    HEADER_LEN, //
};
use crate::{
    bindings,
    net::skbuff::{
        SkBuff,
        SkBuffQueue, //
    },
    scatterlist::ScatterList,
    virtio::{
        Direction,
        Token, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;

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

    /// The header, and then the payload, each piece of it, as the C driver's
    /// `virtio_transport_send_skb()` lists them. Linear payload follows its header in memory, so
    /// that both are one descriptor, where framing is free: there is no indirect table then to be
    /// allocated, mapped and fetched. (It warns of a non-linear skb with more than a
    /// header in its linear part; by the type invariant there is none.)
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
