// SPDX-License-Identifier: GPL-2.0

//! What a virtio-vsock transport is made of.
//!
//! C headers: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h),
//! [`include/net/af_vsock.h`](srctree/include/net/af_vsock.h)

mod account;
mod credit;
mod event;
mod header;
mod packet;
mod rx_run;
mod socket;
mod transport;

pub use self::{
    event::EventBuffer,
    header::{
        Addr,
        Header,
        HEADER_LEN, //
    },
    packet::{
        Malformed,
        RxBuffer,
        RxBufferList,
        RxPacket,
        TxPacket,
        TxQueue, //
    },
    rx_run::RxRun,
    socket::VsockSock,
    transport::{
        Registration,
        Transport,
        TransportTable, //
    },
};

use crate::bindings;

/// `VMADDR_CID_ANY`: what a transport without a device says its CID is.
pub const CID_ANY: u32 = bindings::VSOCK_CONST_HELPER_CID_ANY;

/// The offset of `guest_cid` in `struct virtio_vsock_config`.
pub const CONFIG_GUEST_CID: u32 = 0;

/// The feature bit of SOCK_SEQPACKET.
pub const F_SEQPACKET: u32 = bindings::VIRTIO_VSOCK_F_SEQPACKET;
