// SPDX-License-Identifier: GPL-2.0

//! The event queue.

use crate::{
    device::{
        Vsock,
        EVENT, //
    },
    module::STATS,
    transport::TRANSPORT, //
};
use kernel::sync::ArcBorrow;
use vsock_kernel::{
    gfp::Gfp,
    virtio::Virtqueue,
    vsock::EventBuffer, //
};

/// How many events the device may send ahead.
const BUFFERS: u32 = 8;

/// How many events are handled before others get their turn: a device can send them as fast as
/// they are taken.
const BUDGET: u32 = 64;

/// The event queue.
pub(crate) struct Events {
    queue: Virtqueue<EventBuffer>,
    /// How many buffers the device has.
    posted: u32,
}

impl Events {
    /// Gives the device its buffers.
    pub(crate) fn new(queue: Virtqueue<EventBuffer>) -> Self {
        let mut events = Self { queue, posted: 0 };
        events.fill();
        events
    }

    /// Gives the device what it lacks of its buffers, as far as there are memory and room.
    fn fill(&mut self) {
        while self.posted < BUFFERS {
            let Ok(buffer) = EventBuffer::new() else {
                break;
            };
            if self.queue.add(buffer, Gfp::Kernel).is_err() {
                break;
            }
            self.posted += 1;
        }
        self.queue.kick();
    }

    /// Handles the events that came. False if there may be more.
    fn poll(&mut self, vsock: &Vsock) -> bool {
        let mut budget = BUDGET;
        loop {
            self.queue.disable_cb();
            while let Some((buffer, used)) = self.queue.get_buf() {
                self.posted -= 1;
                if buffer.is_transport_reset(used) {
                    STATS.transport_resets.add(1);
                    vsock.update_guest_cid(self.queue.device());
                    TRANSPORT.reset_connected();
                }
                if self.queue.add(buffer, Gfp::Kernel).is_ok() {
                    self.posted += 1;
                }
                budget -= 1;
                if budget == 0 || vsock.is_stopping() {
                    return false;
                }
            }
            if self.queue.enable_cb() {
                break;
            }
        }
        self.fill();
        true
    }
}

/// Handles the events that came.
pub(crate) fn work(vsock: ArcBorrow<'_, Vsock>) {
    let done = match &mut *vsock.event.lock() {
        Some(events) => events.poll(&vsock),
        None => true,
    };
    if !done && !vsock.is_stopping() {
        Vsock::queue_work::<EVENT>(vsock);
    }
}
