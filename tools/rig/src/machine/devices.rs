// SPDX-License-Identifier: GPL-2.0

//! Plugging a guest's vsock devices in and out while it runs.

use super::Machine;
use crate::error::{Error, Result};
use crate::qemu::{VsockDevice, VsockDevices};

impl Machine {
    /// Plugs in a vsock device: the second one, or the first one after it was unplugged. The guest
    /// finds it a little later; see [`Machine::wait_klog`].
    pub fn plug(&self, device: VsockDevice) -> Result<()> {
        self.vsock()?.plug(&mut *self.monitor()?, device)
    }

    /// Asks the guest to give up a vsock device, as when it is pulled, and waits until it has.
    pub fn unplug(&self, device: VsockDevice) -> Result<()> {
        self.vsock()?.unplug(&mut *self.monitor()?, device)
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
