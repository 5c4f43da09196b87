// SPDX-License-Identifier: GPL-2.0

//! Plugging a guest's vsock devices in and out while it runs.

mod slot;

use self::slot::Slot;
use super::Machine;
use crate::error::{Error, Result};
use crate::qemu::{VsockDevice, VsockDevices};

impl Machine {
    /// Plugs in a vsock device: the second one, or the first one after it has gone. The guest
    /// finds it a little later; see [`Machine::wait_klog`].
    pub fn plug(&self, device: VsockDevice) -> Result<()> {
        self.vsock()?.plug(&mut *self.monitor()?, device)
    }

    /// Asks the guest to give up a vsock device, as when it is pulled, and waits until it has.
    pub fn unplug(&self, device: VsockDevice) -> Result<()> {
        self.vsock()?.unplug(&mut *self.monitor()?, device)
    }

    /// Has a vsock device vanish at once, as when it is torn out of its slot: the guest was not asked,
    /// and finds out later. Returns when the guest has parted its driver from it, and another one can be
    /// plugged in.
    pub fn tear_out(&self, device: VsockDevice) -> Result<()> {
        let vsock = self.vsock()?;
        let slot = Slot::find(self, vsock.slot(device)?)?;
        slot.cut_power()?;
        vsock.await_gone(&mut *self.monitor()?, device)?;
        slot.await_empty()
    }

    fn vsock(&self) -> Result<&VsockDevices> {
        self.traits.vsock.as_ref().ok_or_else(|| {
            let name = self.name();
            Error::Setup(format!(
                "{name} is a host, and has no vsock devices to be plugged"
            ))
        })
    }
}
