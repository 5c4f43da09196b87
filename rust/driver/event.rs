// SPDX-License-Identifier: GPL-2.0

//! The event queue.

use crate::{
    device::Vsock,
    module::STATS,
    transport::TRANSPORT, //
};
use kernel::prelude::*;
use vsock_kernel::{
    gfp::Gfp,
    virtio::{
        Live,
        Virtqueue, //
    },
    vsock::EventBuffer, //
};

/// How many events the device may send ahead.
const BUFFERS: usize = 8;

/// The event queue, with buffers for the device to fill.
pub(crate) struct Events {
    queue: Virtqueue<EventBuffer, Live>,
}

impl Events {
    /// Gives the device its buffers.
    pub(crate) fn new(mut queue: Virtqueue<EventBuffer, Live>) -> Result<Self> {
        for _ in 0..BUFFERS {
            // A ring that is smaller than this takes what it has room for.
            if queue.add(EventBuffer::new()?, Gfp::Kernel).is_err() {
                break;
            }
        }
        queue.kick();
        Ok(Self { queue })
    }

    fn poll(&mut self, vsock: &Vsock) {
        loop {
            self.queue.disable_cb();
            while let Some((buffer, used)) = self.queue.get_buf() {
                if buffer.is_transport_reset(used) {
                    STATS.transport_resets.add(1);
                    vsock.update_guest_cid(self.queue.device());
                    TRANSPORT.reset_connected();
                }
                // There is room: this buffer was taken out just now.
                let _ = self.queue.add(buffer, Gfp::Kernel);
            }
            if self.queue.enable_cb() {
                break;
            }
        }
        self.queue.kick();
    }
}

/// Handles the events that came.
pub(crate) fn work(vsock: &Vsock) {
    if let Some(events) = &mut *vsock.event.lock() {
        events.poll(vsock);
    }
}
