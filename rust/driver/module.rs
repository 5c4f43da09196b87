// SPDX-License-Identifier: GPL-2.0

//! What loading the module does, and unloading it undoes.

use crate::{
    config,
    debugfs::DebugFs,
    driver::VsockDriver,
    stats::Stats,
    transport::{
        VsockTransport,
        TRANSPORT, //
    },
};
use kernel::{
    driver::Registration,
    module::ModuleMetadata,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    ThisModule, //
};
use vsock_kernel::{
    net::page_pool::PagePool,
    sync::{
        Published,
        RcuSlot, //
    },
    sysfs,
    virtio::Adapter,
    vsock,
    workqueue::OwnedQueue, //
};

/// The queue that all of the module's work runs on, while the module is loaded.
pub(crate) static WORKQUEUE: RcuSlot<OwnedQueue> = RcuSlot::new();

/// The pages of receive buffers.
///
/// They may be in the queue of a socket, long after its device is gone: the pool is the module's,
/// which a socket keeps loaded, and whatever device there is takes from it.
pub(crate) static RX_PAGES: RcuSlot<Arc<Mutex<PagePool>>> = RcuSlot::new();

/// How many pages that are not in use the pool keeps: 2 MiB, or what 512 packets took.
const RX_PAGES_KEPT: u32 = 512;

/// The module's counters.
pub(crate) static STATS: Stats = Stats::new();

/// The loaded module.
///
/// Fields are dropped in declaration order: first no device is served any more, then no socket can
/// find the transport, and at last all work that was queued has run.
#[pin_data]
pub(crate) struct VirtioVsock {
    #[pin]
    _driver: Registration<Adapter<VsockDriver>>,
    _transport: vsock::Registration<VsockTransport>,
    #[pin]
    _debugfs: kernel::debugfs::Scope<DebugFs>,
    _rx_pages: Published<Arc<Mutex<PagePool>>>,
    _workqueue: Published<OwnedQueue>,
}

impl kernel::InPlaceModule for VirtioVsock {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // An initialiser runs in the order written here.
        try_pin_init!(Self {
            _workqueue: {
                config::set_from_module_parameters()?;
                WORKQUEUE
                    .publish(OwnedQueue::new_percpu(<Self as ModuleMetadata>::NAME)?)
                    .map_err(|_| EBUSY)?
            },
            _rx_pages: {
                let pool = PagePool::new(RX_PAGES_KEPT)?;
                let pool = Arc::pin_init(new_mutex!(pool, "RX_PAGES"), GFP_KERNEL)?;
                RX_PAGES.publish(pool).map_err(|_| EBUSY)?
            },
            _debugfs <- DebugFs::new(<Self as ModuleMetadata>::NAME),
            // A socket may use the transport from here on.
            _transport: TRANSPORT
                .register_g2h()
                .inspect_err(|err| explain_refusal(*err))?,
            _driver <- Registration::new(<Self as ModuleMetadata>::NAME, module),
        })
    }
}

/// Says in one message why the transport could not be registered.
fn explain_refusal(err: Error) {
    /// The kernel's other guest-to-host transports.
    const OTHERS: [(&CStr, &str); 3] = [
        (
            c"/sys/module/vmw_vsock_virtio_transport",
            "vmw_vsock_virtio_transport",
        ),
        (
            c"/sys/module/vmw_vsock_vmci_transport",
            "vmw_vsock_vmci_transport",
        ),
        (c"/sys/module/hv_sock", "hv_sock"),
    ];

    if err != EBUSY {
        pr_err!("could not register with the vsock core: {err:?}\n");
        return;
    }
    match OTHERS.iter().find(|(path, _)| sysfs::path_exists(path)) {
        Some((_, name)) => pr_err!(
            "the guest-to-host transport {name} is loaded; unload it first: modprobe -r {name}\n"
        ),
        None => pr_err!(
            "another guest-to-host transport is registered; unload it first (see lsmod | grep vsock)\n"
        ),
    }
}
