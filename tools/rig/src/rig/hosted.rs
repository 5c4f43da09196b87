// SPDX-License-Identifier: GPL-2.0

//! What the rigs have in common, above all the two on which a host serves the guest.

use crate::error::Result;
use crate::machine::Machine;
use crate::pair::ControlPath;
use crate::qemu::VmSpec;
use std::time::Duration;

/// The commands that set up a machine only set something.
pub(super) const SETUP_LIMIT: Duration = Duration::from_secs(60);
/// The host's vsock address.
pub(super) const HOST_CID: u32 = 2;
/// The port of the tests' TCP servers.
pub(super) const CONTROL_PORT: u16 = 1234;
/// The guest's address in QEMU's user network, and the host's.
pub(super) const GUEST_ADDRESS: &str = "10.0.2.15";
const HOST_ADDRESS: &str = "10.0.2.2";

/// Gives a guest's one network interface an address, and brings up its loopback interface.
pub(super) fn bring_up_network(machine: &Machine, address: &str) -> Result<()> {
    machine.insmod("virtio_net", &[] as &[&str])?;
    let script = format!(
        "ip link set lo up\n\
         ip address add {address}/24 dev eth0\n\
         ip link set eth0 up\n"
    );
    machine
        .run(["sh", "-exc", &script], SETUP_LIMIT)?
        .success()?;
    Ok(())
}

/// Adds to a guest that is served by a real host a network for what is not vsock, whose `forwarded`
/// port on the host's loopback leads to the guest's servers.
pub(super) fn add_network(spec: &mut VmSpec, forwarded: u16) {
    spec.option(
        "-netdev",
        format!("user,id=network,hostfwd=tcp:127.0.0.1:{forwarded}-{GUEST_ADDRESS}:{CONTROL_PORT}"),
    );
    spec.option("-device", "virtio-net-pci,netdev=network");
}

/// How the sides of such a rig reach each other's servers: the guest's, and the host's, which listen
/// on `host_port`.
pub(super) fn control_paths(forwarded: u16, host_port: u16) -> (ControlPath, ControlPath) {
    let to_guest = ControlPath {
        listen: CONTROL_PORT,
        host: "127.0.0.1".into(),
        port: forwarded,
    };
    let to_host = ControlPath {
        listen: host_port,
        host: HOST_ADDRESS.into(),
        port: host_port,
    };
    (to_guest, to_host)
}
