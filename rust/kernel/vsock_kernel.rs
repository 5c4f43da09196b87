// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions of the kernel APIs that a virtio-vsock transport needs and that the `kernel`
//! crate does not have.
//!
//! All `unsafe` code of the module is in this crate. Paths mirror where a file would stand in
//! `rust/kernel/`.

#[doc(hidden)]
use vsock_bindings as bindings;

/// Log prefix of `pr_*!` in this crate; `module!` defines it in the driver crate only.
const __LOG_PREFIX: &[u8] = b"virtio_vsock_rs\0";

pub mod gfp;
pub mod net;
pub mod scatterlist;
pub mod sync;
pub mod sysfs;
pub mod trace;
pub mod virtio;
pub mod vsock;
pub mod workqueue;
