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
    vsock, //
};

virtio_device_table!(VSOCK_TABLE, @none, [DeviceId::VSOCK]);

/// The driver of virtio socket devices.
pub(crate) struct VsockDriver;

/// A device that the driver is bound to.
#[pin_data]
pub(crate) struct Bound {
    /// `None` while the machine sleeps, and after it, if the device did not come back.
    #[pin]
    running: Mutex<Option<Running>>,
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

/// Starts the device, and says why if it cannot.
fn start(dev: &Device<Core<'_>>) -> Result<Running> {
    let running = Probed::new(dev)
        .inspect_err(|err| match *err {
            ENOENT => dev_err!(dev, "the device lacks the rx, tx and event queues\n"),
            err => dev_err!(dev, "could not set up the device's queues: {err:?}\n"),
        })?
        .driver_ok()?
        .start()?;
    Ok(running)
}

impl virtio::Driver for VsockDriver {
    type Data<'bound> = Bound;

    const ID_TABLE: IdTable = &VSOCK_TABLE;
    const FEATURES: &'static [c_uint] = &[vsock::F_SEQPACKET];

    fn probe<'bound>(
        dev: &'bound Device<Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        try_pin_init!(Bound {
            _claim: Claim::take(dev)?,
            running <- new_mutex!(Some(start(dev)?), "Bound::running"),
        })
    }

    fn unbind<'bound>(_: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) {
        let running = bound.running.lock().take();
        drop(running);
    }

    fn freeze<'bound>(_: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) -> Result {
        let running = bound.running.lock().take();
        drop(running);
        Ok(())
    }

    fn restore<'bound>(dev: &'bound Device<Core<'_>>, bound: Pin<&Self::Data<'bound>>) -> Result {
        let running = start(dev)?;
        *bound.running.lock() = Some(running);
        Ok(())
    }
}
