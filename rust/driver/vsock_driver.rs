// SPDX-License-Identifier: GPL-2.0

//! A virtio-vsock guest driver: the guest-to-host transport of AF_VSOCK over virtio device 19.
//!
//! # Lock order
//!
//! A lock may be taken while those above it are held, never the other way round.
//!
//! 1. the device lock of the driver core, then [`vsock_kernel::vsock::DeviceLock`], then
//!    [`driver::Bound`]'s `service`
//! 2. [`device::Vsock`]'s `rx` or `event`, never both
//! 3. a socket's lock, `lock_sock()`; or [`module::RX_PAGES`]'s, with no socket locked
//! 4. [`device::Vsock`]'s `tx`; with a socket locked, or under RCU, by `try_lock()` only
//! 5. spinlocks, which keep bottom halves out, never two of them: a socket's `sk_callback_lock`;
//!    `rx_lock` or `tx_lock` of its account; the lock of the send queue; and the vsock core's
//!    `vsock_table_lock`, which resetting all sockets takes, with `event` held or no lock at all
#![forbid(unsafe_code)]

mod config;
mod debugfs;
mod device;
mod driver;
mod event;
mod lifecycle;
mod module;
mod rx;
mod stats;
mod transport;
mod tx;

use module::VirtioVsock;

kernel::prelude::module! {
    type: VirtioVsock,
    name: "virtio_vsock_rs",
    authors: ["The virtio_vsock_rs developers"],
    description: "virtio transport for vsock, in Rust",
    license: "GPL",
    params: {
        rx_batch_packets: u32 {
            default: 64,
            description: "Packets received in one hold of a socket lock, 1 to 1024",
        },
        rx_batch_bytes: u32 {
            default: 65536,
            description: "Bytes received in one hold of a socket lock, 1 to 1048576",
        },
        tx_fast_path: bool {
            default: true,
            description: "Put packets straight on the virtqueue when nothing waits",
        },
    },
}
