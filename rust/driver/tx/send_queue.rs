// SPDX-License-Identifier: GPL-2.0

//! Packets that wait for the TX queue, and how many of them are replies.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
};
use vsock_kernel::{
    sync::read_once,
    vsock::{
        TxPacket,
        TxQueue,
        VsockSock, //
    },
};

/// The send queue.
///
/// A reply is counted from the moment it is put in here until the device has it, or it is dropped.
/// When there are as many of them as the RX ring has descriptors, no more packets are received, as
/// each could ask for another reply. The functions that lower the number say when receiving, which
/// may have stopped for it, has to be started again.
#[pin_data]
pub(crate) struct SendQueue {
    #[pin]
    queue: TxQueue,
    replies: Atomic<i32>,
    reply_limit: Atomic<i32>,
}

impl SendQueue {
    /// An empty queue.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- TxQueue::new(),
            replies: Atomic::new(0),
            reply_limit: Atomic::new(0),
        })
    }

    /// Sets how many replies may wait. Called before there is anything to be sent.
    pub(crate) fn set_reply_limit(&self, limit: u32) {
        // ORDERING: Publishing the device orders this before any use.
        self.reply_limit
            .store(i32::try_from(limit).unwrap_or(i32::MAX), Relaxed);
    }

    /// Is nothing waiting? What the calling thread queued before is seen.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty_lockless()
    }

    /// Appends a packet.
    pub(super) fn push(&self, packet: TxPacket) {
        if packet.is_reply() {
            // ORDERING: Full, as in C: counted before it can be taken out.
            self.replies.fetch_add(1, Full);
        }
        self.queue.push_back(packet);
    }

    /// Takes the first packet. A reply counts until [`SendQueue::reply_sent`].
    ///
    /// The caller holds the TX lock until the packet is sent or put back.
    pub(super) fn pop(&self) -> Option<TxPacket> {
        self.queue.pop_front()
    }

    /// Puts back what [`SendQueue::pop`] took, in front of all others.
    pub(super) fn put_back(&self, packet: TxPacket) {
        self.queue.push_front(packet);
    }

    /// A reply that was taken out was sent. True if receiving can start again.
    #[must_use]
    pub(super) fn reply_sent(&self) -> bool {
        self.replies_gone(1)
    }

    /// Drops all packets of a socket. True if receiving can start again.
    #[must_use]
    pub(crate) fn purge_socket(&self, vsk: &VsockSock) -> bool {
        let replies = self.queue.purge_socket(vsk);
        self.replies_gone(i32::try_from(replies).unwrap_or(i32::MAX))
    }

    /// Is there room for the reply to one more packet?
    #[inline]
    pub(crate) fn has_room_for_reply(&self) -> bool {
        // ORDERING: The limit is set before the queue is used. Who lowers the number below it
        // queues the RX work afterwards, which orders what that work sees.
        read_once(&self.replies) < read_once(&self.reply_limit)
    }

    /// Drops everything. Nobody puts packets in any more.
    pub(crate) fn clear(&self) {
        while self.queue.pop_front().is_some() {}
        // ORDERING: Nobody is left who looks at it.
        self.replies.store(0, Relaxed);
    }

    /// Lowers the number of replies. True if that crossed the limit.
    fn replies_gone(&self, count: i32) -> bool {
        if count == 0 {
            return false;
        }
        // ORDERING: Full, so that the RX work which the caller queues sees the lower number.
        let before = self.replies.fetch_sub(count, Full);
        // ORDERING: Set before the queue is used.
        let limit = read_once(&self.reply_limit);
        before >= limit && before - count < limit
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_send_queue)]
mod tests {
    use super::*;

    #[test]
    fn receiving_starts_again_when_replies_fall_below_the_limit() -> Result {
        let queue = KBox::pin_init(SendQueue::new(), GFP_KERNEL)?;
        assert!(!queue.has_room_for_reply());
        queue.set_reply_limit(2);
        assert!(queue.has_room_for_reply());
        queue.replies.store(5, Relaxed);
        assert!(!queue.has_room_for_reply());
        // 5, 3: still too many. 1: below. 0: it was below before.
        assert!(!queue.replies_gone(2));
        assert!(!queue.has_room_for_reply());
        assert!(queue.replies_gone(2));
        assert!(queue.has_room_for_reply());
        assert!(!queue.reply_sent());
        assert!(!queue.replies_gone(0));
        assert_eq!(queue.replies.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn a_limit_past_what_can_be_counted_is_none() -> Result {
        let queue = KBox::pin_init(SendQueue::new(), GFP_KERNEL)?;
        queue.set_reply_limit(u32::MAX);
        queue.replies.store(i32::MAX - 1, Relaxed);
        assert!(queue.has_room_for_reply());
        queue.clear();
        assert!(queue.is_empty());
        assert_eq!(queue.replies.load(Relaxed), 0);
        Ok(())
    }
}
