// SPDX-License-Identifier: GPL-2.0
//! The vhost-user device that QEMU sees at a port.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::VhostUserBackend;
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use crate::port::Side;
use crate::queue::{Memory, Vring};
use crate::route::PortId;
use crate::wire::Wire;

/// `VIRTIO_VSOCK_F_SEQPACKET`.
const VIRTIO_VSOCK_F_SEQPACKET: u32 = 1;

/// What all devices of the wire have in common.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Offer SOCK_SEQPACKET.
    pub seqpacket: bool,
    /// The largest ring that a guest may set up.
    pub queue_size: u16,
}

/// The device that one QEMU sees, for as long as it is connected.
pub struct Device {
    wire: Arc<Mutex<Wire>>,
    port: PortId,
    offer: Offer,
    memory: Memory,
    /// The framework lets go of its end of the exit event without closing it.
    exit_fd: AtomicI32,
}

impl Device {
    /// A device for the guest at this port of the wire.
    pub fn new(wire: Arc<Mutex<Wire>>, port: PortId, offer: Offer, memory: Memory) -> Self {
        Device {
            wire,
            port,
            offer,
            memory,
            exit_fd: AtomicI32::new(-1),
        }
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().expect("no thread panics with the wire")
    }

    /// Tell the wire something, then do the work that follows, with breaks in
    /// which others have a chance to tell it theirs.
    fn tell(&self, news: impl FnOnce(&mut Wire)) {
        news(&mut self.wire());
        work(&self.wire);
    }
}

/// Work until there is nothing to do for any guest.
pub fn work(wire: &Mutex<Wire>) {
    let locked = || wire.lock().expect("no thread panics with the wire");
    while locked().work() {
        std::thread::yield_now();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let fd: RawFd = self.exit_fd.load(Ordering::Relaxed);
        if fd >= 0 {
            let _ = nix::unistd::close(fd);
        }
    }
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        // Those of the device of the specification. QEMU's own socket device keeps the third, the event
        // queue, to itself; as another device it passes all of them on.
        3
    }

    fn max_queue_size(&self) -> usize {
        self.offer.queue_size.into()
    }

    fn features(&self) -> u64 {
        let bits = [
            VIRTIO_F_VERSION_1,
            VIRTIO_RING_F_EVENT_IDX,
            VIRTIO_RING_F_INDIRECT_DESC,
        ];
        let seqpacket = self.offer.seqpacket.then_some(VIRTIO_VSOCK_F_SEQPACKET);
        let features = bits.into_iter().chain(seqpacket);
        features.fold(
            VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits(),
            |all, bit| all | (1 << bit),
        )
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::REPLY_ACK
    }

    fn reset_device(&self) {
        self.tell(|wire| {
            wire.stop(self.port, Side::Rx);
            wire.stop(self.port, Side::Tx);
        });
    }

    fn set_event_idx(&self, _enabled: bool) {
        // The queues know, which is where it matters.
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        // struct virtio_vsock_config is the CID and nothing else.
        let cid = self.wire().cid(self.port);
        let config = u64::from(cid).to_le_bytes();
        let start = offset as usize;
        let range = start..start.saturating_add(size as usize);
        config.get(range).unwrap_or_default().to_vec()
    }

    fn update_memory(&self, _memory: Memory) -> io::Result<()> {
        // `memory` is a handle on the same memory, and sees the change.
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        let flags = EventFlag::NONBLOCK | EventFlag::CLOEXEC;
        let (consumer, notifier) = new_event_consumer_and_notifier(flags)
            .inspect_err(|error| log::error!("cannot make an event: {error}"))
            .ok()?;
        self.exit_fd.store(consumer.as_raw_fd(), Ordering::Relaxed);
        Some((consumer, notifier))
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        if let Some(side) = side_of(queue)? {
            self.tell(|wire| wire.stop(self.port, side));
        }
        Ok(())
    }

    fn handle_event(
        &self,
        event: u16,
        _set: EventSet,
        queues: &[Vring],
        _thread: usize,
    ) -> io::Result<()> {
        match side_of(event.into())? {
            Some(side) => self.tell(|wire| wire.kick(self.port, side, queues, &self.memory)),
            None => self.tell(|wire| wire.kick_event(self.port)),
        }
        Ok(())
    }
}

/// Which of the packets' queues it is; none if it is the event queue, whose buffers stay unused as long as
/// no script has an event to tell.
fn side_of(queue: u32) -> io::Result<Option<Side>> {
    match queue {
        0 => Ok(Some(Side::Rx)),
        1 => Ok(Some(Side::Tx)),
        2 => Ok(None),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
