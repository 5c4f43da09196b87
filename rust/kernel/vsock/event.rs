// SPDX-License-Identifier: GPL-2.0

//! Buffers of the event queue.
//!
//! C header: [`include/uapi/linux/virtio_vsock.h`](srctree/include/uapi/linux/virtio_vsock.h)

use crate::{
    bindings,
    scatterlist::ScatterList,
    virtio::{
        Direction,
        Token, //
    },
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// The length of an event, `struct virtio_vsock_event`, in bytes.
const EVENT_LEN: u32 = 4;

/// The memory of an event, on a cache line of its own: the device writes it while others use what
/// stands beside it.
#[repr(C, align(64))]
struct Line(u32);

/// Room for one event.
///
/// # Invariants
///
/// The pointer owns a `KBox<Line>`, whose memory only this value uses.
pub struct EventBuffer(NonNull<Line>);

// SAFETY: The buffer belongs to no thread.
unsafe impl Send for EventBuffer {}

impl EventBuffer {
    /// Allocates one; may sleep.
    pub fn new() -> Result<Self> {
        let memory = KBox::into_raw(KBox::new(Line(0), GFP_KERNEL)?);
        // INVARIANT: The box was just allocated.
        //
        // SAFETY: A box is not null.
        Ok(Self(unsafe { NonNull::new_unchecked(memory) }))
    }

    /// Did the device, which says it wrote `used` bytes, announce a transport reset?
    ///
    /// An event of the wrong length, or one that we do not know, is none.
    pub fn is_transport_reset(&self, used: u32) -> bool {
        // SAFETY: By the type invariant the memory is valid. It is read once, as a device that
        // does not keep to the rules may still write it.
        let id = u32::from_le(unsafe { self.0.cast::<u32>().read_volatile() });
        used == EVENT_LEN
            && id == bindings::virtio_vsock_event_id_VIRTIO_VSOCK_EVENT_TRANSPORT_RESET
    }
}

impl Drop for EventBuffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pointer owns a box.
        drop(unsafe { KBox::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: The pointer is the one of the box, and the memory listed is the box's own.
unsafe impl Token for EventBuffer {
    const DIRECTION: Direction = Direction::FromDevice;

    fn into_raw(self) -> NonNull<c_void> {
        core::mem::ManuallyDrop::new(self).0.cast()
    }

    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // INVARIANT: The caller gives up the box that `into_raw` returned.
        Self(raw.cast())
    }

    fn describe(&mut self, sg: &mut ScatterList) -> Result {
        // SAFETY: `kmalloc` memory is in the linear mapping.
        unsafe { sg.push(self.0.cast(), EVENT_LEN) }
    }
}
