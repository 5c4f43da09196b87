// SPDX-License-Identifier: GPL-2.0

//! What the socket layer asks the transport.

use crate::{
    device::{
        Vsock,
        DEVICE,
        RX, //
    },
    tx,
    LocalModule, //
};
use kernel::{
    module::this_module,
    prelude::*,
    sync::rcu, //
};
use vsock_kernel::vsock::{
    self,
    Transport,
    TransportTable,
    TxPacket,
    VsockSock, //
};

/// The transport from this guest to its host.
pub(crate) struct VsockTransport;

/// Its table, for the C code.
pub(crate) static TRANSPORT: TransportTable<VsockTransport> =
    TransportTable::new(this_module::<LocalModule>());

impl Transport for VsockTransport {
    fn local_cid() -> u32 {
        let rcu = rcu::read_lock();
        DEVICE
            .get(&rcu)
            .map_or(vsock::CID_ANY, |vsock| vsock.guest_cid())
    }

    /// The host may serve any CID.
    fn has_remote_cid(_: &VsockSock, _: u32) -> bool {
        true
    }

    fn stream_allow(vsk: &VsockSock, _: u32, _: u32) -> bool {
        vsk.net_mode_global()
    }

    fn seqpacket_allow(vsk: &VsockSock, _: u32) -> bool {
        let rcu = rcu::read_lock();
        vsk.net_mode_global() && DEVICE.get(&rcu).is_some_and(|vsock| vsock.seqpacket)
    }

    /// Each page of the payload takes a descriptor, unless the ring has indirect ones. A packet
    /// that needs more than the ring has would wait for ever.
    fn can_msgzerocopy(bufs: u32) -> bool {
        let rcu = rcu::read_lock();
        DEVICE
            .get(&rcu)
            .is_some_and(|vsock| bufs <= vsock.tx_size())
    }

    fn send_pkt(packet: TxPacket) -> Result {
        let rcu = rcu::read_lock();
        let vsock = DEVICE.get(&rcu).ok_or(ENODEV)?;
        if packet.dst_cid() == u64::from(vsock.guest_cid()) {
            return Err(ENODEV);
        }
        tx::send(vsock, packet);
        Ok(())
    }

    fn cancel_pkt(vsk: &VsockSock) -> Result {
        let rcu = rcu::read_lock();
        let vsock = DEVICE.get(&rcu).ok_or(ENODEV)?;
        if vsock.send_queue.purge_socket(vsk) {
            Vsock::queue_work::<RX>(vsock);
        }
        Ok(())
    }
}
