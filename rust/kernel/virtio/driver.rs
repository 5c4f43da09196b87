// SPDX-License-Identifier: GPL-2.0

//! What a virtio driver is, and its registration.

use super::{
    Device,
    IdTable, //
};
use crate::bindings;
use core::mem::offset_of;
use kernel::{
    device,
    driver,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    types::Opaque,
    ThisModule, //
};

/// A driver of virtio devices.
///
/// All methods are called in process context with the device lock held, so that none of them runs
/// beside another for the same device.
pub trait Driver {
    /// What the driver keeps for a bound device; dropped after [`Driver::unbind`].
    type Data<'bound>: Send + Sync + 'bound;

    /// The devices that the driver serves.
    const ID_TABLE: IdTable;

    /// The feature bits that the driver knows.
    const FEATURES: &'static [c_uint];

    /// A device was found. Stands for `virtio_driver.probe`.
    fn probe<'bound>(
        dev: &'bound Device<device::Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound;

    /// The driver leaves the device, or the device leaves. Stands for `virtio_driver.remove`.
    ///
    /// All of the device's virtqueues have to be given up in here.
    fn unbind<'bound>(dev: &'bound Device<device::Core<'_>>, data: Pin<&Self::Data<'bound>>);

    /// The machine goes to sleep. Stands for `virtio_driver.freeze`.
    ///
    /// All of the device's virtqueues have to be given up in here.
    fn freeze<'bound>(
        dev: &'bound Device<device::Core<'_>>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result;

    /// The machine is awake again, and the device is reset. Stands for `virtio_driver.restore`.
    fn restore<'bound>(
        dev: &'bound Device<device::Core<'_>>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result;
}

/// Makes a [`Driver`] a `struct virtio_driver`, for [`kernel::driver::Registration`].
pub struct Adapter<T: Driver>(T);

// SAFETY:
// - `bindings::virtio_driver` is a C type, declared `repr(C)`.
// - `T::Data` is what `probe_callback` stores as the device's private data.
// - `DEVICE_DRIVER_OFFSET` is where a `virtio_driver` keeps its `struct device_driver`.
unsafe impl<T: Driver> driver::DriverLayout for Adapter<T> {
    type DriverType = bindings::virtio_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = offset_of!(Self::DriverType, driver);
}

// SAFETY: `unregister` undoes a successful `register` of the same `virtio_driver`.
unsafe impl<T: Driver> driver::RegistrationOps for Adapter<T> {
    unsafe fn register(
        vdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let raw = vdrv.get();
        // SAFETY: `vdrv` is initialised, and nobody else knows of it before it is registered.
        let fields = unsafe { &mut *raw };
        fields.driver.name = name.as_char_ptr();
        fields.id_table = T::ID_TABLE.as_ptr();
        fields.feature_table = T::FEATURES.as_ptr();
        // CAST: A table of feature bits has fewer entries than there are bits.
        fields.feature_table_size = T::FEATURES.len() as c_uint;
        fields.probe = Some(Self::probe_callback);
        fields.remove = Some(Self::remove_callback);
        #[cfg(CONFIG_PM_SLEEP)]
        {
            fields.freeze = Some(Self::freeze_callback);
            fields.restore = Some(Self::restore_callback);
        }
        // SAFETY: The caller keeps `vdrv` pinned and valid until `unregister`.
        to_result(unsafe { bindings::__register_virtio_driver(raw, module.as_ptr()) })
    }

    unsafe fn unregister(vdrv: &Opaque<Self::DriverType>) {
        // SAFETY: The caller vouches that `vdrv` is registered.
        unsafe { bindings::unregister_virtio_driver(vdrv.get()) }
    }
}

impl<T: Driver> Adapter<T> {
    /// The device of a callback.
    ///
    /// # Safety
    ///
    /// `vdev` must be valid for `'a`, and its device lock must be held for that time.
    unsafe fn device<'a>(
        vdev: *mut bindings::virtio_device,
    ) -> &'a Device<device::CoreInternal<'a>> {
        // SAFETY: By the requirements of this function; `Device` is a transparent wrapper.
        unsafe { &*vdev.cast() }
    }

    /// Waits until the device has no [`super::QueueSet`] any more.
    ///
    /// A driver that keeps to [`Driver`]'s rules gave its queues up already.
    fn wait_for_queues(dev: &Device<device::CoreInternal<'_>>) {
        // SAFETY: The device is valid.
        unsafe { bindings::virtio_wait_priv_clear(dev.as_raw()) };
    }

    /// # Safety
    ///
    /// Called by the virtio core only, as `virtio_driver.probe`.
    unsafe extern "C" fn probe_callback(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The virtio core probes valid devices, with the device lock held.
        let dev = unsafe { Self::device(vdev) };
        // A driver that failed to bind before us may have left its own pointer there.
        //
        // SAFETY: The device is valid, and has no `QueueSet`: `remove_callback`, and this function
        // if it fails, wait until that is gone.
        unsafe { bindings::virtio_set_priv(vdev, core::ptr::null_mut()) };
        let ret = from_result(|| {
            dev.as_ref().set_drvdata(T::probe(dev))?;
            Ok(0)
        });
        if ret < 0 {
            Self::wait_for_queues(dev);
        }
        ret
    }

    /// # Safety
    ///
    /// Called by the virtio core only, as `virtio_driver.remove`.
    unsafe extern "C" fn remove_callback(vdev: *mut bindings::virtio_device) {
        // SAFETY: The virtio core removes valid devices, with the device lock held.
        let dev = unsafe { Self::device(vdev) };
        // SAFETY: A device is removed after `probe_callback` succeeded and stored a `T::Data`.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        T::unbind(dev, data);
        Self::wait_for_queues(dev);
        // The core expects a status of zero, also of a driver that had found no queues. A device
        // that is reset already must not be reset again: its admin queue, if any, is deleted.
        //
        // SAFETY: The device is valid, and has no virtqueues left.
        unsafe { bindings::virtio_reset_if_active(vdev) };
    }

    /// # Safety
    ///
    /// Called by the virtio core only, as `virtio_driver.freeze`.
    #[cfg(CONFIG_PM_SLEEP)]
    unsafe extern "C" fn freeze_callback(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The virtio core freezes valid devices, with the device lock held.
        let dev = unsafe { Self::device(vdev) };
        // SAFETY: Only a device that `probe_callback` succeeded for is frozen.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        let ret = from_result(|| T::freeze(dev, data).map(|()| 0));
        if ret == 0 {
            Self::wait_for_queues(dev);
        }
        ret
    }

    /// # Safety
    ///
    /// Called by the virtio core only, as `virtio_driver.restore`.
    #[cfg(CONFIG_PM_SLEEP)]
    unsafe extern "C" fn restore_callback(vdev: *mut bindings::virtio_device) -> c_int {
        // SAFETY: The virtio core restores valid devices, with the device lock held.
        let dev = unsafe { Self::device(vdev) };
        // SAFETY: Only a device that `probe_callback` succeeded for is restored.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        from_result(|| T::restore(dev, data).map(|()| 0))
    }
}
