// SPDX-License-Identifier: GPL-2.0

//! The state of a device, shared by its workers, its interrupts and the sockets.

use crate::{
    event::{
        self,
        Events, //
    },
    module::WORKQUEUE,
    rx::{
        self,
        Ring, //
    },
    tx::{
        self,
        SendQueue,
        Tx, //
    },
};
use kernel::{
    device::Bound,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        rcu,
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::Delta,
    workqueue::{
        impl_has_work,
        new_work,
        Work,
        WorkItem, //
    },
};
use vsock_kernel::{
    sync::{
        read_once,
        RcuSlot, //
    },
    virtio::{
        self,
        Device, //
    },
    vsock, //
};

/// The device that sockets reach the host through, while there is one.
pub(crate) static DEVICE: RcuSlot<Arc<Vsock>> = RcuSlot::new();

/// How long to wait for memory when no interrupt will start the work again.
pub(crate) const RETRY_DELAY: Delta = Delta::from_millis(20);

/// The indices of the virtqueues, which are the numbers of the works as well.
pub(crate) const RX: u64 = 0;
pub(crate) const TX: u64 = 1;
pub(crate) const EVENT: u64 = 2;
/// The number of the work that empties the send queue.
pub(crate) const SEND: u64 = 3;

/// A device and its three virtqueues.
///
/// Lives from probe or restore until the last worker that holds it is done, which may be after the
/// device is gone; the virtqueues are gone with the device.
#[pin_data]
pub(crate) struct Vsock {
    /// As the device's configuration has it; a transport reset may change it.
    guest_cid: Atomic<u32>,
    /// Was SOCK_SEQPACKET negotiated?
    pub(crate) seqpacket: bool,
    /// The number of descriptors of the TX ring. Set before the device is published.
    tx_size: Atomic<u32>,
    /// Set when the device is about to go: workers leave off at their next packet.
    stopping: Atomic<bool>,

    /// The RX queue; `None` while the device is not running.
    #[pin]
    pub(crate) rx: Mutex<Option<Ring>>,
    /// The TX queue; `None` while the device is not running.
    #[pin]
    pub(crate) tx: Mutex<Option<Tx>>,
    /// The event queue; `None` while the device is not running.
    #[pin]
    pub(crate) event: Mutex<Option<Events>>,

    /// Packets that could not go straight onto the TX queue.
    #[pin]
    pub(crate) send_queue: SendQueue,

    #[pin]
    rx_work: Work<Vsock, RX>,
    #[pin]
    tx_work: Work<Vsock, TX>,
    #[pin]
    event_work: Work<Vsock, EVENT>,
    #[pin]
    send_work: Work<Vsock, SEND>,
}

impl_has_work! {
    impl HasWork<Vsock, RX> for Vsock { self.rx_work }
    impl HasWork<Vsock, TX> for Vsock { self.tx_work }
    impl HasWork<Vsock, EVENT> for Vsock { self.event_work }
    impl HasWork<Vsock, SEND> for Vsock { self.send_work }
}

impl Vsock {
    /// The state of a device whose queues are yet to be found.
    pub(crate) fn new(seqpacket: bool) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                guest_cid: Atomic::new(vsock::CID_ANY),
                seqpacket,
                tx_size: Atomic::new(0),
                stopping: Atomic::new(false),
                rx <- new_mutex!(None, "Vsock::rx"),
                tx <- new_mutex!(None, "Vsock::tx"),
                event <- new_mutex!(None, "Vsock::event"),
                send_queue <- SendQueue::new(),
                rx_work <- new_work!("Vsock::rx_work"),
                tx_work <- new_work!("Vsock::tx_work"),
                event_work <- new_work!("Vsock::event_work"),
                send_work <- new_work!("Vsock::send_work"),
            }),
            GFP_KERNEL,
        )
    }

    /// The guest's CID.
    #[inline]
    pub(crate) fn guest_cid(&self) -> u32 {
        // ORDERING: The CID orders nothing.
        read_once(&self.guest_cid)
    }

    /// Reads the guest's CID from the device. False if that has none. May sleep.
    pub(crate) fn update_guest_cid(&self, dev: &Device<Bound>) -> bool {
        vsock::guest_cid(dev)
            // ORDERING: The CID orders nothing.
            .map(|cid| self.guest_cid.store(cid, Relaxed))
            .is_some()
    }

    /// The number of descriptors of the TX ring.
    pub(crate) fn tx_size(&self) -> u32 {
        // ORDERING: Set before the device is published.
        read_once(&self.tx_size)
    }

    /// Notes the sizes of the rings, before the device is published.
    pub(crate) fn set_ring_sizes(&self, rx_size: u32, tx_size: u32) {
        // ORDERING: Publishing the device orders this before any use.
        self.tx_size.store(tx_size, Relaxed);
        self.send_queue.set_reply_limit(rx_size);
    }

    /// Makes the workers leave off soon.
    pub(crate) fn stop(&self) {
        // ORDERING: Only makes them leave off sooner than they would without a queue.
        self.stopping.store(true, Relaxed);
    }

    /// Is the device about to go?
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING: As for `stop`.
        read_once(&self.stopping)
    }

    /// Has the work `ID` run on the module's workqueue, once more if it is running.
    ///
    /// May be called in any context. Once the module is about to go it does nothing.
    pub(crate) fn queue_work<const ID: u64>(this: ArcBorrow<'_, Self>)
    where
        Self: WorkItem<ID, Pointer = Arc<Self>> + kernel::workqueue::HasWork<Self, ID>,
    {
        let rcu = rcu::read_lock();
        if let Some(queue) = WORKQUEUE.get(&rcu) {
            // Work that is queued already will see what this call is about.
            let _ = queue.enqueue::<Arc<Self>, ID>(this.into());
        }
    }
}

impl virtio::Handler for Vsock {
    fn queue_done(this: ArcBorrow<'_, Self>, index: u32) {
        match u64::from(index) {
            RX => Self::queue_work::<RX>(this),
            TX => Self::queue_work::<TX>(this),
            EVENT => Self::queue_work::<EVENT>(this),
            _ => (),
        }
    }
}

impl WorkItem<RX> for Vsock {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        rx::work(this.as_arc_borrow());
    }
}

impl WorkItem<TX> for Vsock {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        tx::complete_work(this.as_arc_borrow());
    }
}

impl WorkItem<EVENT> for Vsock {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        event::work(this.as_arc_borrow());
    }
}

impl WorkItem<SEND> for Vsock {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        tx::send_work(this.as_arc_borrow());
    }
}
