// SPDX-License-Identifier: GPL-2.0

//! The configuration of a vsock device.
//!
//! C header: [`include/uapi/linux/virtio_vsock.h`](srctree/include/uapi/linux/virtio_vsock.h)

use crate::{
    bindings,
    virtio::Device, //
};
use core::mem::offset_of;
use kernel::device::Bound;

/// The guest's CID, as a vsock device has it now; `None` if the device has no configuration.
///
/// The upper half of the field is reserved, and dropped. May sleep.
///
/// Mirrors `virtio_vsock_update_guest_cid()`.
pub fn guest_cid(dev: &Device<Bound>) -> Option<u32> {
    // CAST: The offset is that of the only field.
    let offset = offset_of!(bindings::virtio_vsock_config, guest_cid) as u32;
    // SAFETY: The configuration of a vsock device has the field there, and our driver's table has
    // no other devices.
    let cid = unsafe { dev.config_le64(offset) }?;
    // CAST: `guest_cid` is a `u32` in C as well.
    Some(cid as u32)
}
