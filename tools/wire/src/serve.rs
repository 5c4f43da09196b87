// SPDX-License-Identifier: GPL-2.0
//! One port's life: a QEMU connects, its guest is served, it leaves, and the
//! next one may come.

use std::sync::{Arc, Mutex};

use vhost::vhost_user::{Error as VhostError, Listener};
use vhost_user_backend::{Error as DaemonError, VhostUserDaemon};
use vm_memory::GuestMemoryMmap;

use crate::device::{Device, Offer, work};
use crate::queue::Memory;
use crate::route::PortId;
use crate::wire::Wire;

/// Serve one QEMU after another at `listener`. Returns only when that cannot
/// go on.
pub fn serve(
    wire: &Arc<Mutex<Wire>>,
    port: PortId,
    cid: u32,
    offer: Offer,
    mut listener: Listener,
) -> anyhow::Result<()> {
    let locked = || wire.lock().expect("no thread panics with the wire");
    loop {
        // Nothing of one connection reaches the next: a new QEMU finds a new device.
        let memory = Memory::new(GuestMemoryMmap::new());
        let device = Device::new(wire.clone(), port, offer, memory.clone());
        let mut daemon = VhostUserDaemon::new(format!("port-{cid}"), Arc::new(device), memory)
            .map_err(anyhow_error)?;
        daemon.start(&mut listener).map_err(anyhow_error)?;
        log::info!("CID {cid}: QEMU connected");
        locked().connect(port);
        match daemon.wait() {
            Ok(())
            | Err(DaemonError::HandleRequest(
                VhostError::Disconnected | VhostError::PartialMessage,
            )) => log::info!("CID {cid}: QEMU left"),
            Err(error) => log::warn!("CID {cid}: the connection to QEMU broke: {error}"),
        }
        // Ends the thread that waits for kicks; after that nobody but this one
        // speaks for the port.
        drop(daemon);
        locked().disconnect(port);
        work(wire);
    }
}

/// The framework's errors want a thread's payload to be shared; they are not.
fn anyhow_error(error: DaemonError) -> anyhow::Error {
    anyhow::Error::msg(error.to_string()).context("vhost-user failed")
}

#[cfg(test)]
mod tests;
