// SPDX-License-Identifier: GPL-2.0

//! The virtqueues of one device, as a whole.

use super::{
    Device,
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
    new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        ArcBorrow,
        Mutex, //
    },
    types::ForeignOwnable, //
};

/// What the interrupts of a device's virtqueues lead to.
pub trait Handler: Send + Sync + 'static {
    /// The device used buffers of the queue at `index`.
    ///
    /// Called in hard interrupt context, for different queues possibly at the same time, while the
    /// device's queues exist; a device that does not keep to the rules may interrupt from the
    /// moment that they are found.
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
/// - `dev` is bound, and its `priv` points to this value, until `drop` is done with it.
/// - `handler` is an `Arc<H>` turned into a pointer, for the `H` that `release` was made for.
/// - `phase` is [`Phase::Reset`] only if the device was reset since its queues were found.
#[pin_data(PinnedDrop)]
pub struct QueueSet {
    dev: ARef<Device>,
    handler: NonNull<c_void>,
    release: unsafe fn(NonNull<c_void>),
    #[pin]
    phase: Mutex<Phase>,
}

/// What there is to undo.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The queues were not found.
    Bare,
    /// The queues were found, and the device may use buffers.
    Found,
    /// The device was reset.
    Reset,
}

// SAFETY: The device and the handler, which is `Send`, may be used from any thread.
unsafe impl Send for QueueSet {}

// SAFETY: All methods of `QueueSet` may be called from any thread; the handler is `Sync`.
unsafe impl Sync for QueueSet {}

/// All virtqueues of a device that does not look at them yet.
///
/// # Invariants
///
/// `vqs` are the valid virtqueues of `set`'s device, and nobody else uses them.
pub struct FoundQueues<const N: usize> {
    set: Arc<QueueSet>,
    vqs: [NonNull<bindings::virtqueue>; N],
}

impl<const N: usize> FoundQueues<N> {
    /// The number of descriptors in the ring of queue `I`.
    #[doc(alias = "virtqueue_get_vring_size")]
    pub fn vring_size<const I: usize>(&self) -> u32 {
        const { assert!(I < N) };
        // SAFETY: By the type invariant the queue is valid.
        unsafe { bindings::virtqueue_get_vring_size(self.vqs[I].as_ptr()) }
    }

    /// The device.
    pub fn device(&self) -> &Device<device::Bound> {
        self.set.device()
    }

    /// Tells the device that its driver is ready.
    ///
    /// From here on it may use buffers. Stands for `virtio_device_ready()`; may sleep.
    pub fn driver_ok(self) -> [ReadyQueue; N] {
        // SAFETY: The device is bound and not reset: no queue was given out that could have been
        // dropped.
        unsafe { bindings::virtio_device_ready(self.set.dev.as_raw()) };
        // INVARIANT: Each queue is given out once.
        self.vqs.map(|vq| ReadyQueue {
            vq,
            set: self.set.clone(),
        })
    }
}

/// A virtqueue whose device is ready, and that has no type of token yet.
///
/// # Invariants
///
/// `vq` is a valid and empty virtqueue of `set`'s device, and nobody else uses it.
pub struct ReadyQueue {
    vq: NonNull<bindings::virtqueue>,
    set: Arc<QueueSet>,
}

impl ReadyQueue {
    /// The queue, as one whose buffers are `T`s.
    pub fn typed<T: Token>(self) -> Virtqueue<T> {
        // SAFETY: By the type invariant.
        unsafe { Virtqueue::from_raw(self.vq, self.set) }
    }
}

impl Device<device::Core<'_>> {
    /// Finds the device's `N` virtqueues.
    ///
    /// Their interrupts go to `handler`. A device that lacks one of the queues is an error,
    /// `ENOENT` or `EINVAL` depending on its bus. May sleep.
    ///
    /// Stands for `virtio_find_vqs()`.
    pub fn find_vqs<H: Handler, const N: usize>(
        &self,
        names: [&'static CStr; N],
        handler: Arc<H>,
    ) -> Result<FoundQueues<N>> {
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
        *set.phase.lock() = Phase::Found;

        // A transport that reports success has set every pointer; were one null all the same, the
        // queues that there are have to go again, which dropping `set` does.
        if vqs.iter().any(|vq| vq.is_null()) {
            return Err(ENOENT);
        }
        // SAFETY: Was just found not to be null.
        let vqs = vqs.map(|vq| unsafe { NonNull::new_unchecked(vq) });
        // INVARIANT: `find_vqs` returned these queues, and they are given out once.
        Ok(FoundQueues { set, vqs })
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
        let set = Arc::pin_init(
            pin_init!(Self {
                dev,
                handler,
                release: release::<H>,
                phase <- new_mutex!(Phase::Bare, "QueueSet::phase"),
            }),
            GFP_KERNEL,
        )
        .inspect_err(|_| {
            // SAFETY: `handler` was made from an `Arc<H>` above, and nobody else has it.
            unsafe { release::<H>(handler) }
        })?;
        // SAFETY: The device is valid. `priv` is cleared again by `drop`, before `set` is gone.
        unsafe { bindings::virtio_set_priv(raw, Arc::as_ptr(&set).cast_mut().cast()) };
        Ok(set)
    }

    /// Makes the device stop using buffers. May sleep.
    ///
    /// When this returns the device is reset, whichever thread did it.
    pub(super) fn reset(&self) {
        let mut phase = self.phase.lock();
        if *phase == Phase::Found {
            // SAFETY: By the type invariant the device is still bound.
            unsafe { bindings::virtio_reset_device(self.dev.as_raw()) };
            *phase = Phase::Reset;
        }
    }

    /// The bound device.
    pub(super) fn device(&self) -> &Device<device::Bound> {
        // CAST: `Device` is a transparent wrapper, whatever its context.
        //
        // SAFETY: By the type invariant the device is bound as long as this value exists.
        unsafe { &*core::ptr::from_ref::<Device>(&self.dev).cast() }
    }
}

#[pinned_drop]
impl PinnedDrop for QueueSet {
    fn drop(self: Pin<&mut Self>) {
        let raw = self.dev.as_raw();
        self.reset();
        if *self.phase.lock() == Phase::Reset {
            // SAFETY: The device is bound and reset, and no `Virtqueue` of it is left. After this
            // no callback runs.
            unsafe { bindings::virtio_del_vqs(raw) };
        }
        // SAFETY: By the type invariant `handler` fits `release`, and it is not used again.
        unsafe { (self.release)(self.handler) };
        // SAFETY: The device is valid. From here on it may be unbound, but `self.dev` keeps it in
        // memory.
        unsafe { bindings::virtio_clear_priv(raw) };
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
