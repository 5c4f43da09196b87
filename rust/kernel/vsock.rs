// SPDX-License-Identifier: GPL-2.0

//! What a virtio-vsock transport is made of.
//!
//! C headers: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h),
//! [`include/net/af_vsock.h`](srctree/include/net/af_vsock.h)

mod account;
mod config;
mod credit;
mod device_lock;
mod event;
mod header;
mod rx_packet;
mod rx_run;
mod socket;
mod transport;
mod tx_packet;

pub use self::{
    config::guest_cid,
    device_lock::DeviceLock,
    event::EventBuffer,
    header::{
        Addr,
        Header,
        HEADER_LEN, //
    },
    rx_packet::{
        Malformed,
        RxBuffer,
        RxBufferList,
        RxPacket, //
    },
    rx_run::RxRun,
    socket::VsockSock,
    transport::{
        Registration,
        Transport,
        TransportTable, //
    },
    tx_packet::{
        TxPacket,
        TxQueue, //
    },
};

use crate::bindings;

/// `VMADDR_CID_ANY`: what a transport without a device says its CID is.
pub const CID_ANY: u32 = bindings::VSOCK_CONST_HELPER_CID_ANY;

/// The feature bit of SOCK_SEQPACKET.
pub const F_SEQPACKET: u32 = bindings::VIRTIO_VSOCK_F_SEQPACKET;
