// SPDX-License-Identifier: GPL-2.0

//! Binding to a virtio device.

use crate::lifecycle::{
    Probed,
    Running, //
};
use kernel::{
    device::Core,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Mutex, //
    },
};
use vsock_kernel::{
    virtio::{
        self,
        Device,
        DeviceId,
        IdTable, //
    },
    virtio_device_table,
    vsock::{
        self,
        DeviceLock, //
    },
};

virtio_device_table!(VSOCK_TABLE, @none, [DeviceId::VSOCK]);

/// The driver of virtio socket devices.
pub(crate) struct VsockDriver;

/// A device that the driver is bound to.
#[pin_data]
pub(crate) struct Bound {
    /// `None` once the driver has left the device.
    #[pin]
    service: Mutex<Option<Service>>,
}

/// What a device that we serve has. It goes in the order of the fields.
struct Service {
    /// `None` while the machine sleeps, and after it, if the device did not come back.
    running: Option<Running>,
    _claim: Claim,
}

/// The right to serve a device: there is one device per guest.
struct Claim;

/// Is a device being served?
static CLAIMED: Atomic<bool> = Atomic::new(false);

impl Claim {
    fn take(dev: &Device<Core<'_>>) -> Result<Self> {
        if CLAIMED.xchg(true, Full) {
            dev_err!(
                dev,
                "a guest has one vsock device, and this is a second one; not used\n"
            );
            return Err(EBUSY);
        }
        Ok(Self)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMED.xchg(false, Full);
    }
}

/// Starts the device, and says in the kernel log why if it cannot.
fn start(dev: &Device<Core<'_>>) -> Result<Running> {
    Probed::new(dev)?
        .driver_ok()
        .start()
        .inspect_err(|err| dev_err!(dev, "could not start the device: {err:?}\n"))
}

impl virtio::Driver for VsockDriver {
    type Data<'bound> = Bound;

    const ID_TABLE: IdTable = &VSOCK_TABLE;
    const FEATURES: &'static [c_uint] = &[vsock::F_SEQPACKET];

    fn probe<'bound>(
        dev: &'bound Device<Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        try_pin_init!(Bound {
            service <- new_mutex!(
                {
                    // A device that comes while another goes waits for it here.
                    let _lock = DeviceLock::take_interruptible()?;
                    let claim = Claim::take(dev)?;
                    Some(Service {
                        running: Some(start(dev)?),
                        _claim: claim,
                    })
                },
                "Bound::service"
            ),
        })
    }

    fn unbind<'bound>(_: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) {
        let _lock = DeviceLock::take();
        let service = bound.service.lock().take();
        drop(service);
    }

    fn freeze<'bound>(_: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) -> Result {
        let _lock = DeviceLock::take();
        if let Some(service) = &mut *bound.service.lock() {
            service.running = None;
        }
        Ok(())
    }

    fn restore<'bound>(dev: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) -> Result {
        let _lock = DeviceLock::take();
        if let Some(service) = &mut *bound.service.lock() {
            service.running = Some(start(dev)?);
        }
        Ok(())
    }
}
