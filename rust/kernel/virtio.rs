// SPDX-License-Identifier: GPL-2.0

//! Abstractions for virtio devices and drivers.
//!
//! C header: [`include/linux/virtio.h`](srctree/include/linux/virtio.h)
//!
//! # Queues and teardown
//!
//! The virtqueues of a device are found together, by [`Device::find_vqs`], and are owned one by one
//! from the moment that the device is told of its driver ([`FoundQueues::driver_ok`]), by
//! [`Virtqueue`] values. All of them share a [`QueueSet`], which resets the device before the first
//! of them is emptied and deletes the queues after the last of them is gone. A driver
//! that gives its queues up before it returns from [`Driver::unbind`] never waits; one that does
//! not is made to wait there, so that no queue outlives its device.

use crate::{
    bindings,
    scatterlist::Framing, //
};
use core::{
    marker::PhantomData,
    mem::offset_of, //
};
use kernel::{
    device,
    device_id::RawDeviceId,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};

mod driver;
mod queue_set;
mod virtqueue;

pub use self::{
    driver::{
        Adapter,
        Driver, //
    },
    queue_set::{
        FoundQueues,
        Handler,
        QueueSet,
        ReadyQueue, //
    },
    virtqueue::{
        Direction,
        Token,
        Virtqueue, //
    },
};

/// A virtio device's identity.
///
/// Stands for `struct virtio_device_id`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct DeviceId(bindings::virtio_device_id);

impl DeviceId {
    /// A socket device, `VIRTIO_ID_VSOCK`, of any vendor.
    pub const VSOCK: Self = Self::new(bindings::VIRTIO_ID_VSOCK);

    /// Devices of type `device`, of any vendor.
    pub const fn new(device: u32) -> Self {
        Self(bindings::virtio_device_id {
            device,
            vendor: bindings::VIRTIO_DEV_ANY_ID,
        })
    }
}

// SAFETY: `DeviceId` is a transparent wrapper of `virtio_device_id`.
unsafe impl RawDeviceId for DeviceId {
    type RawType = bindings::virtio_device_id;
}

/// A table of the devices that a driver serves.
pub type IdTable = &'static dyn kernel::device_id::IdTable<DeviceId, ()>;

/// Declares a table of virtio device identities, for modpost as well.
#[macro_export]
macro_rules! virtio_device_table {
    ($($tt:tt)*) => {
        ::kernel::module_device_table!("virtio", $crate::virtio::DeviceId, $($tt)*);
    };
}

/// A virtio device.
///
/// Stands for `struct virtio_device`.
///
/// # Invariants
///
/// A `Device` is a valid `struct virtio_device` of the virtio core. While it is bound to a driver of
/// [`Adapter`], its `priv` is null, or points to the [`QueueSet`] of the device.
#[repr(transparent)]
pub struct Device<Ctx: device::DeviceContext = device::Normal>(
    Opaque<bindings::virtio_device>,
    PhantomData<Ctx>,
);

impl<Ctx: device::DeviceContext> Device<Ctx> {
    /// The C device.
    #[inline]
    fn as_raw(&self) -> *mut bindings::virtio_device {
        self.0.get()
    }

    /// Was feature `bit` negotiated?
    ///
    /// Stands for `virtio_has_feature()`, but for that function's `BUG()` on a feature that is
    /// missing in the driver's own table: such a feature is simply not there.
    pub fn has_feature(&self, bit: u32) -> bool {
        // SAFETY: By the type invariant, the device is valid.
        unsafe { bindings::virtio_test_bit(self.as_raw(), bit) }
    }

    /// May buffers be framed in any way?
    ///
    /// A device of the standard takes a packet in whatever pieces (virtio 1.3, 2.7.4); one from
    /// before it wants the header in a descriptor of its own. (`VIRTIO_F_ANY_LAYOUT` lies between
    /// the two; no driver of ours asks for it.)
    pub(crate) fn framing(&self) -> Framing {
        match self.has_feature(bindings::VIRTIO_F_VERSION_1) {
            true => Framing::Free,
            false => Framing::Kept,
        }
    }
}

impl Device<device::Bound> {
    /// Reads the little-endian 64-bit field at `offset` of the device's configuration; `None` if
    /// the device has none.
    ///
    /// May sleep. Not atomic towards the device, as the C driver's own read is not: a device that
    /// changes the field says so by an event afterwards. A PCI device whose configuration is too
    /// short for the field runs into the `BUG_ON()` of the transport, for the C driver as well.
    ///
    /// # Safety
    ///
    /// The configuration of a device of this type must have such a field at `offset`.
    pub(crate) unsafe fn config_le64(&self, offset: u32) -> Option<u64> {
        let mut raw = [0u8; 8];
        // SAFETY: The device is valid and bound, `raw` has room for the 8 bytes asked for, and the
        // caller vouches for the field.
        let there = unsafe {
            bindings::virtio_config_get(self.as_raw(), offset, raw.as_mut_ptr().cast(), 8)
        };
        there.then(|| u64::from_le_bytes(raw))
    }
}

// SAFETY: `Device` is a transparent wrapper of `struct virtio_device`, and `OFFSET` is where its
// `struct device` stands.
unsafe impl<Ctx: device::DeviceContext> device::AsBusDevice<Ctx> for Device<Ctx> {
    const OFFSET: usize = offset_of!(bindings::virtio_device, dev);
}

// SAFETY: `Device` is a transparent wrapper whose type does not depend on its context.
kernel::impl_device_context_deref!(unsafe { Device });
kernel::impl_device_context_into_aref!(Device);

// SAFETY: `get_device()` and `put_device()` count references to the device, which the bus frees
// with the last of them.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: A reference to the device shows that its count is not zero.
        unsafe { bindings::get_device(&raw mut (*self.as_raw()).dev) };
    }

    unsafe fn dec_ref(obj: core::ptr::NonNull<Self>) {
        // SAFETY: The caller owns the count that is given up here.
        unsafe { bindings::put_device(&raw mut (*(*obj.as_ptr()).as_raw()).dev) };
    }
}

impl<Ctx: device::DeviceContext> AsRef<device::Device<Ctx>> for Device<Ctx> {
    fn as_ref(&self) -> &device::Device<Ctx> {
        // SAFETY: By the type invariant, the device and the `struct device` in it are valid, and
        // they are valid in the same context.
        unsafe { device::Device::from_raw(&raw mut (*self.as_raw()).dev) }
    }
}

// SAFETY: A device's reference count may be given up from any thread.
unsafe impl Send for Device {}

// SAFETY: All methods of `Device` may be called from any thread at the same time.
unsafe impl Sync for Device {}

// SAFETY: As for `Device<Normal>`; the contexts share one type.
unsafe impl Sync for Device<device::Bound> {}
