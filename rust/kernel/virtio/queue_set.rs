// SPDX-License-Identifier: GPL-2.0

//! The virtqueues of one device, as a whole.

use super::{
    Device,
    Found,
    Token,
    Virtqueue, //
};
use crate::bindings;
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    device,
    error::to_result,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

/// What the interrupts of a device's virtqueues lead to.
pub trait Handler: Send + Sync + 'static {
    /// The device used buffers of the queue at `index`.
    ///
    /// Called in hard interrupt context, for different queues possibly at the same time, from
    /// [`QueueSet::driver_ok`] on and until the last queue is gone.
    fn queue_done(this: ArcBorrow<'_, Self>, index: u32);
}

/// All virtqueues of one device, from `find_vqs` to `del_vqs`.
///
/// Kept alive by each [`Virtqueue`] of the device. When the first of those is dropped the device
/// is reset, so that it uses no more buffers; when the last is gone the queues are deleted, which
/// also waits for their interrupts.
///
/// # Invariants
///
/// - `dev` is bound, and its `priv` points to this value, until `drop` has deleted the queues.
/// - `handler` is an `Arc<H>` turned into a pointer, for the `H` that `release` was made for.
pub struct QueueSet {
    dev: ARef<Device>,
    handler: NonNull<c_void>,
    release: unsafe fn(NonNull<c_void>),
    reset: Atomic<bool>,
    found: Atomic<bool>,
}

// SAFETY: The device and the handler, which is `Send`, may be used from any thread.
unsafe impl Send for QueueSet {}

// SAFETY: All methods of `QueueSet` may be called from any thread; the handler is `Sync`.
unsafe impl Sync for QueueSet {}

/// A virtqueue that was found and has no type of token yet.
///
/// # Invariants
///
/// `vq` is a valid virtqueue of `set`'s device, and nobody else uses it.
pub struct FoundQueue {
    vq: NonNull<bindings::virtqueue>,
    set: Arc<QueueSet>,
}

impl FoundQueue {
    /// The queue, as one whose buffers are `T`s.
    pub fn typed<T: Token>(self) -> Virtqueue<T, Found> {
        // SAFETY: By the type invariant, `vq` is a valid queue of `set` that is ours alone.
        unsafe { Virtqueue::from_raw(self.vq, self.set) }
    }
}

/// Proof that a device was told that its driver is ready (`DRIVER_OK`).
pub struct DriverOk(());

impl Device<device::Core<'_>> {
    /// Finds the device's `N` virtqueues.
    ///
    /// Their interrupts go to `handler`. A device that lacks one of the queues is an error,
    /// usually `ENOENT`. May sleep.
    ///
    /// Stands for `virtio_find_vqs()`.
    pub fn find_vqs<H: Handler, const N: usize>(
        &self,
        names: [&'static CStr; N],
        handler: Arc<H>,
    ) -> Result<(Arc<QueueSet>, [FoundQueue; N])> {
        // SAFETY: The device is valid.
        if !unsafe { bindings::virtio_priv(self.as_raw()) }.is_null() {
            // Its queues were found before.
            return Err(EBUSY);
        }
        let normal: &Device = self;
        let set = QueueSet::new(normal.into(), handler)?;

        let mut vqs = [null_mut(); N];
        let mut infos = names.map(|name| bindings::virtqueue_info {
            name: name.as_char_ptr(),
            callback: Some(queue_done_callback::<H>),
            ctx: false,
        });
        // CAST: A device has fewer than 2^16 queues.
        let count = N as c_uint;
        // SAFETY: The device is valid and bound; `vqs` and `infos` have `count` entries, and the
        // names are static.
        to_result(unsafe {
            bindings::virtio_find_vqs(self.as_raw(), count, vqs.as_mut_ptr(), infos.as_mut_ptr())
        })?;
        // ORDERING: `set` is not shared yet.
        set.found.store(true, Relaxed);

        // A transport that reports success has set every pointer; were one null all the same, the
        // queues that there are have to go again, which dropping `set` does.
        if vqs.iter().any(|vq| vq.is_null()) {
            return Err(ENOENT);
        }
        let queues = vqs.map(|vq| FoundQueue {
            // INVARIANT: `find_vqs` returned this queue, and it is given out once.
            //
            // SAFETY: Was just found not to be null.
            vq: unsafe { NonNull::new_unchecked(vq) },
            set: set.clone(),
        });
        Ok((set, queues))
    }
}

impl QueueSet {
    fn new<H: Handler>(dev: ARef<Device>, handler: Arc<H>) -> Result<Arc<Self>> {
        /// # Safety
        ///
        /// `handler` must be an `Arc<H>` turned into a pointer, given up by the caller.
        unsafe fn release<H: Handler>(handler: NonNull<c_void>) {
            // SAFETY: By the requirements of this function.
            drop(unsafe { Arc::<H>::from_foreign(handler.as_ptr()) });
        }

        let raw = dev.as_raw();
        // SAFETY: An `Arc` turned into a pointer is not null.
        let handler = unsafe { NonNull::new_unchecked(handler.into_foreign()) };
        // INVARIANT: `handler` and `release` are for the same `H`; `priv` follows below.
        let set = match Arc::new(
            Self {
                dev,
                handler,
                release: release::<H>,
                reset: Atomic::new(false),
                found: Atomic::new(false),
            },
            GFP_KERNEL,
        ) {
            Ok(set) => set,
            Err(err) => {
                // SAFETY: `handler` was made from an `Arc<H>` above, and nobody else has it.
                unsafe { release::<H>(handler) };
                return Err(err.into());
            }
        };
        // SAFETY: The device is valid. `priv` is cleared again by `drop`, before `set` is gone.
        unsafe { bindings::virtio_set_priv(raw, Arc::as_ptr(&set).cast_mut().cast()) };
        Ok(set)
    }

    /// Tells the device that the driver is ready for it.
    ///
    /// From here on it may use buffers, and interrupts come. Takes the queues' owner as a proof
    /// that all of them were found. Stands for `virtio_device_ready()`; may sleep.
    pub fn driver_ok(self: &Arc<Self>) -> Result<DriverOk> {
        // ORDERING: Only the thread that probes or restores the device gets here.
        if self.reset.load(Relaxed) {
            return Err(ENODEV);
        }
        // SAFETY: By the type invariant the device is bound; its queues were found.
        unsafe { bindings::virtio_device_ready(self.dev.as_raw()) };
        Ok(DriverOk(()))
    }

    /// Makes the device stop using buffers, once.
    ///
    /// May sleep, and returns when the device is reset, whoever began it: queues are given up by
    /// one thread, the one that unbinds or freezes the device.
    pub(super) fn reset(&self) {
        // ORDERING: `reset` only keeps the reset from being done more than once.
        if !self.reset.xchg(true, Relaxed) {
            // SAFETY: By the type invariant the device is still bound.
            unsafe { bindings::virtio_reset_device(self.dev.as_raw()) };
        }
    }

    /// The bound device.
    pub fn device(&self) -> &Device {
        &self.dev
    }
}

impl Drop for QueueSet {
    fn drop(&mut self) {
        let raw = self.dev.as_raw();
        // ORDERING: The last reference is gone, nobody else can see this value.
        if self.found.load(Relaxed) {
            self.reset();
            // SAFETY: The device is bound and reset, and no `Virtqueue` of it is left. After this
            // no callback runs.
            unsafe { bindings::virtio_del_vqs(raw) };
        }
        // SAFETY: The device is valid. From here on it may be unbound, but `self.dev` keeps it in
        // memory.
        unsafe { bindings::virtio_set_priv(raw, null_mut()) };
        // SAFETY: By the type invariant `handler` fits `release`, and it is not used again.
        unsafe { (self.release)(self.handler) };
    }
}

/// The callback of every virtqueue.
///
/// # Safety
///
/// Called by the virtio core only, for a queue that [`Device::find_vqs`] found for an `H`.
unsafe extern "C" fn queue_done_callback<H: Handler>(vq: *mut bindings::virtqueue) {
    // SAFETY: The core passes a valid queue, whose device is valid.
    let (vdev, index) = unsafe { ((*vq).vdev, (*vq).index) };
    // SAFETY: As above.
    let set = unsafe { bindings::virtio_priv(vdev) }.cast::<QueueSet>();
    // SAFETY: By the invariant of `QueueSet`, `priv` points to it from before `find_vqs` until
    // after `del_vqs`, which waits for callbacks.
    let set = unsafe { &*set };
    // SAFETY: By the type invariant `handler` came from an `Arc`, of an `H` as `find_vqs` made
    // this callback for the `H` that it was given. It is not released before `del_vqs` returned.
    let handler = unsafe { Arc::<H>::borrow(set.handler.as_ptr()) };
    H::queue_done(handler, index);
}
