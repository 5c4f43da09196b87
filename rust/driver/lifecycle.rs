// SPDX-License-Identifier: GPL-2.0

//! The life of a device, from its queues being found to their being gone.
//!
//! [`Probed`] → [`Ready`] → [`Running`]. Each is made from the one before it. Dropping any of them
//! ends the device's use; how that goes is told at [`Running`].

use crate::{
    device::{
        Vsock,
        DEVICE,
        EVENT,
        RX,
        SEND,
        TX, //
    },
    event::Events,
    module::RX_PAGES,
    rx::Ring,
    transport::TRANSPORT,
    tx::Tx, //
};
use kernel::{
    device::Core,
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
};
use vsock_kernel::{
    sync::Published,
    virtio::{
        Device,
        FoundQueues,
        ReadyQueue, //
    },
    vsock, //
};

/// The feature bit of indirect descriptors, `VIRTIO_RING_F_INDIRECT_DESC`.
const RING_F_INDIRECT_DESC: u32 = 28;

/// A device whose queues are found; it does not look at them yet.
pub(crate) struct Probed {
    vsock: Arc<Vsock>,
    queues: FoundQueues<3>,
}

impl Probed {
    /// Finds the device's queues and reads its CID, or says in the kernel log why not.
    pub(crate) fn new(dev: &Device<Core<'_>>) -> Result<Self> {
        let vsock = Vsock::new(dev.has_feature(vsock::F_SEQPACKET))?;
        let queues = dev
            .find_vqs([c"rx", c"tx", c"event"], vsock.clone())
            .inspect_err(|err| match *err {
                ENOENT | EINVAL => dev_err!(dev, "the device lacks the rx, tx and event queues\n"),
                err => dev_err!(dev, "could not set up the device's queues: {err:?}\n"),
            })?;

        // A packet with payload takes two descriptors.
        let tx_size = queues.vring_size::<{ TX as usize }>();
        if tx_size < 2 && !dev.has_feature(RING_F_INDIRECT_DESC) {
            dev_err!(dev, "the device's tx queue is too small to send anything\n");
            return Err(EINVAL);
        }
        vsock.set_ring_sizes(queues.vring_size::<{ RX as usize }>(), tx_size);
        if !vsock.update_guest_cid(queues.device()) {
            dev_err!(dev, "the device has no configuration, and so no CID\n");
            return Err(ENODEV);
        }
        Ok(Self { vsock, queues })
    }

    /// Tells the device that it may begin.
    pub(crate) fn driver_ok(self) -> Ready {
        let [rx, tx, event] = self.queues.driver_ok();
        Ready {
            vsock: self.vsock,
            rx,
            tx,
            event,
        }
    }
}

/// A device that knows that we are ready; nobody uses its queues yet.
pub(crate) struct Ready {
    vsock: Arc<Vsock>,
    rx: ReadyQueue,
    tx: ReadyQueue,
    event: ReadyQueue,
}

impl Ready {
    /// Lets sockets send, and the device receive.
    pub(crate) fn start(self) -> Result<Running> {
        let Self {
            vsock,
            rx,
            tx,
            event,
        } = self;
        // The module has its pool as long as it has a device.
        let pages = RX_PAGES
            .get(&rcu::read_lock())
            .map(Arc::from)
            .ok_or(ENODEV)?;
        // From here on an error stops what was started, by way of `Running`'s drop.
        let mut running = Running {
            published: None,
            vsock,
        };
        let vsock = &running.vsock;

        // Sockets can send from the moment the device is published. It is published before the
        // device gets a buffer, as what it then sends may have to be answered.
        *vsock.tx.lock() = Some(Tx::new(tx.typed()));
        running.published = Some(DEVICE.publish(vsock.clone()).map_err(|_| EBUSY)?);
        *vsock.event.lock() = Some(Events::new(event.typed()));
        *vsock.rx.lock() = Some(Ring::new(rx.typed(), pages));

        // The work may have been asked for before there was something to do it with: packets that
        // were queued, and interrupts that came, since the device is ready.
        let vsock = vsock.as_arc_borrow();
        Vsock::queue_work::<SEND>(vsock);
        Vsock::queue_work::<TX>(vsock);
        Vsock::queue_work::<EVENT>(vsock);
        Vsock::queue_work::<RX>(vsock);
        Ok(running)
    }
}

/// A device in use.
///
/// Dropping it ends that: sockets no longer find the device, and none is about to use it; nothing is
/// received any more; connected sockets are reset; the device is reset, when the first queue is
/// given up; each queue's buffers are freed; packets that waited are dropped; and
/// with the last queue the interrupts end. Workers that come late find no queue. Sleeps.
pub(crate) struct Running {
    published: Option<Published<Arc<Vsock>>>,
    vsock: Arc<Vsock>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.vsock.stop();
        drop(self.published.take());

        // A queue is taken out with its lock held, and given up without. Receiving ends before
        // sockets are reset: a connection that it made after that would stay, and never end.
        let rx = self.vsock.rx.lock().take();
        TRANSPORT.reset_connected();
        let tx = self.vsock.tx.lock().take();
        let event = self.vsock.event.lock().take();
        drop(rx);
        drop(tx);
        drop(event);

        self.vsock.send_queue.clear();
    }
}
