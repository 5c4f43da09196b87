// SPDX-License-Identifier: GPL-2.0

//! The RX queue and its buffers.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use vsock_kernel::{
    gfp::Gfp,
    net::page_pool::PagePool,
    virtio::Virtqueue,
    vsock::{
        RxBuffer,
        RxBufferList, //
    },
};

/// The RX queue, how many buffers the device has, and those that go back to it.
///
/// Buffers that are free again are kept until [`Ring::refill`], as the device is given none while
/// a socket is locked.
pub(crate) struct Ring {
    queue: Virtqueue<RxBuffer>,
    /// Where new buffers come from.
    pages: Arc<Mutex<PagePool>>,
    free: RxBufferList,
    posted: u32,
    posted_max: u32,
    /// How many buffers were taken since the last refill.
    taken: u32,
}

impl Ring {
    /// Fills the queue, as far as there is memory.
    pub(crate) fn new(queue: Virtqueue<RxBuffer>, pages: Arc<Mutex<PagePool>>) -> Self {
        let mut ring = Self {
            queue,
            pages,
            free: RxBufferList::new(),
            posted: 0,
            posted_max: 0,
            taken: 0,
        };
        // Without memory for a single buffer the first run of the worker tries again.
        let _ = ring.fill();
        ring.queue.kick();
        ring
    }

    /// Asks for no interrupts.
    pub(super) fn disable_cb(&mut self) {
        self.queue.disable_cb();
    }

    /// Asks for interrupts again. False if there are used buffers by now.
    #[must_use]
    pub(super) fn enable_cb(&mut self) -> bool {
        self.queue.enable_cb()
    }

    /// A buffer that the device has used, and how much of it.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(RxBuffer, u32)> {
        let taken = self.queue.get_buf()?;
        self.posted -= 1;
        self.taken += 1;
        Some(taken)
    }

    /// Keeps a buffer for the next refill.
    #[inline]
    pub(super) fn keep(&mut self, buffer: RxBuffer) {
        self.free.push(buffer);
    }

    /// Were half of the buffers taken since the last refill?
    ///
    /// Then the device may soon have to wait for one, while others are kept here.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.taken >= self.posted_max.max(2) / 2
    }

    /// Gives the device the buffers that were kept, and new ones if it has less than half of what
    /// it had at most.
    ///
    /// Fails if the device has no buffer now, so that nothing more will come: `ENOMEM` if another
    /// try may help, `EIO` if the device is broken. No socket may be locked: this may sleep.
    pub(super) fn refill(&mut self) -> Result {
        let before = self.posted;
        self.taken = 0;
        let mut result = Ok(());
        while let Some(buffer) = self.free.pop() {
            result = result.and(self.post(buffer));
        }
        if self.posted < self.posted_max.max(2) / 2 {
            result = result.and(self.fill());
        }
        if self.posted != before {
            self.queue.kick();
        }
        match result {
            Err(EIO) if self.posted == 0 => Err(EIO),
            _ if self.posted == 0 => Err(ENOMEM),
            _ => Ok(()),
        }
    }

    /// Adds new buffers until the ring is full, or says why not.
    ///
    /// Mirrors `virtio_vsock_rx_fill()`.
    fn fill(&mut self) -> Result {
        let mut result = Ok(());
        let pages = self.pages.clone();
        let mut pages = pages.lock();
        while result.is_ok() && self.queue.num_free() > 0 {
            result = RxBuffer::new(&mut pages)
                .ok_or(ENOMEM)
                .and_then(|buffer| self.post(buffer));
        }
        self.posted_max = self.posted_max.max(self.posted);
        result
    }

    /// Adds a buffer. One that the ring does not take is freed.
    fn post(&mut self, buffer: RxBuffer) -> Result {
        self.queue
            .add(buffer, Gfp::Kernel)
            .map_err(|(_, err)| err)?;
        self.posted += 1;
        Ok(())
    }
}
