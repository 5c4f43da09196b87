// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions of the kernel APIs that a virtio-vsock transport needs and that the `kernel`
//! crate does not have.
//!
//! All `unsafe` code of the module is in this crate. Paths mirror where a file would stand in
//! `rust/kernel/`.

use vsock_bindings as bindings;

pub mod gfp;
pub mod net;
pub mod scatterlist;
pub mod sync;
pub mod sysfs;
pub mod trace;
pub mod virtio;
pub mod vsock;
pub mod workqueue;
