// SPDX-License-Identifier: GPL-2.0

//! The RX queue and its buffers.

use vsock_kernel::{
    gfp::Gfp,
    virtio::{
        Live,
        Virtqueue, //
    },
    vsock::{
        RxBuffer,
        RxBufferList, //
    },
};

/// The RX queue, how many buffers the device has, and those that go back to it.
///
/// Buffers that are free again are kept until [`Ring::refill`], as the device is given none while
/// a socket is locked.
pub(super) struct Ring {
    pub(super) queue: Virtqueue<RxBuffer, Live>,
    free: RxBufferList,
    posted: u32,
    posted_max: u32,
}

impl Ring {
    /// Fills the queue, as far as there is memory.
    pub(super) fn new(queue: Virtqueue<RxBuffer, Live>) -> Self {
        let mut ring = Self {
            queue,
            free: RxBufferList::new(),
            posted: 0,
            posted_max: 0,
        };
        ring.fill();
        ring.queue.kick();
        ring
    }

    /// A buffer that the device has used, and how much of it.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(RxBuffer, u32)> {
        let taken = self.queue.get_buf()?;
        self.posted -= 1;
        Some(taken)
    }

    /// Keeps a buffer for the next refill.
    #[inline]
    pub(super) fn keep(&mut self, buffer: RxBuffer) {
        self.free.push(buffer);
    }

    /// Gives the device the buffers that were kept, and new ones if it has less than half of what
    /// it had at most. False if it has none for lack of memory.
    ///
    /// No socket may be locked: this may sleep.
    pub(super) fn refill(&mut self) -> bool {
        let mut changed = false;
        while let Some(buffer) = self.free.pop() {
            changed |= self.post(buffer);
        }
        if self.posted < self.posted_max.max(2) / 2 {
            changed |= self.fill();
        }
        if changed {
            self.queue.kick();
        }
        self.posted > 0
    }

    /// Adds new buffers until the ring is full or memory is short. True if any were added.
    ///
    /// Mirrors `virtio_vsock_rx_fill()`.
    fn fill(&mut self) -> bool {
        let mut added = false;
        while self.queue.num_free() > 0 {
            let Some(buffer) = RxBuffer::new() else { break };
            if !self.post(buffer) {
                break;
            }
            added = true;
        }
        self.posted_max = self.posted_max.max(self.posted);
        added
    }

    /// Adds a buffer. One that the ring has no room for is freed.
    fn post(&mut self, buffer: RxBuffer) -> bool {
        let posted = self.queue.add(buffer, Gfp::Kernel).is_ok();
        self.posted += u32::from(posted);
        posted
    }
}
