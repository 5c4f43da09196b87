// SPDX-License-Identifier: GPL-2.0

//! A spinlock that keeps bottom halves out.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use crate::bindings;
use kernel::{
    prelude::*,
    sync::lock::{
        Backend,
        Lock, //
    },
};

/// `spin_lock_bh()` and `spin_unlock_bh()`.
pub struct SpinLockBhBackend;

/// A lock that is taken with `spin_lock_bh()`, wherever it stands.
pub type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

// SAFETY: `spinlock_t` excludes all others, and `spin_lock_bh()` keeps softirqs of this CPU from
// asking for a lock that the code which they interrupt holds.
unsafe impl Backend for SpinLockBhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller vouches for all three pointers.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) {
        // SAFETY: The caller vouches that the lock is initialised.
        unsafe { bindings::spin_lock_bh(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<()> {
        // SAFETY: The caller vouches that the lock is initialised.
        (unsafe { bindings::spin_trylock_bh(ptr) } != 0).then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, _state: &()) {
        // SAFETY: The caller holds the lock.
        unsafe { bindings::spin_unlock_bh(ptr) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller vouches that the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
