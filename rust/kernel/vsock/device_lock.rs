// SPDX-License-Identifier: GPL-2.0

//! The lock under which devices come and go.

use crate::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    types::NotThreadSafe, //
};

/// Held while a device is set up or given up, so that a device that comes while another goes waits
/// for it.
///
/// Stands for `the_virtio_vsock_mutex`. Released when dropped, by the task that took it.
///
/// # Invariants
///
/// The mutex is held by this value.
pub struct DeviceLock(NotThreadSafe);

impl DeviceLock {
    /// Takes the lock; sleeps, and does not give up.
    pub fn take() -> Self {
        // SAFETY: The mutex is static, and the caller may sleep.
        unsafe { bindings::vsock_device_lock() };
        // INVARIANT: The mutex was just taken.
        Self(NotThreadSafe)
    }

    /// Takes the lock; `EINTR` if a signal comes first.
    pub fn take_interruptible() -> Result<Self> {
        // SAFETY: The mutex is static, and the caller may sleep.
        to_result(unsafe { bindings::vsock_device_lock_interruptible() })?;
        // INVARIANT: The mutex was just taken.
        Ok(Self(NotThreadSafe))
    }
}

impl Drop for DeviceLock {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the mutex is ours.
        unsafe { bindings::vsock_device_unlock() }
    }
}
