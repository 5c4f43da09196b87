// SPDX-License-Identifier: GPL-2.0

//! Plain loads and stores of atomic variables, in line.
//!
//! C header: [`include/asm-generic/rwonce.h`](srctree/include/asm-generic/rwonce.h)
//!
//! [`Atomic::load`] and [`Atomic::store`] are calls of a C function each, unless the kernel was built
//! with `CONFIG_RUST_INLINE_HELPERS`. For what is looked at once a packet, that call is most of the
//! work.

use kernel::sync::atomic::{
    Atomic,
    AtomicType, //
};

/// Loads the value, as `Relaxed` does.
///
/// Stands for `READ_ONCE()`, which `atomic_read()` is on all architectures that have Rust.
#[doc(alias = "READ_ONCE")]
#[inline(always)]
pub fn read_once<T: AtomicType>(atomic: &Atomic<T>) -> T {
    // SAFETY: `as_ptr` is valid and aligned. A volatile read of a machine word or less is what
    // `READ_ONCE()` is, and may race with other marked accesses in the kernel's memory model.
    unsafe { atomic.as_ptr().read_volatile() }
}

/// Stores `value`, as `Relaxed` does.
///
/// Stands for `WRITE_ONCE()`. It undoes what another thread stores or adds at the same time; for a
/// variable that only holders of one lock write there is no such thread.
#[doc(alias = "WRITE_ONCE")]
#[inline(always)]
pub fn write_once<T: AtomicType>(atomic: &Atomic<T>, value: T) {
    // SAFETY: As for `read_once`.
    unsafe { atomic.as_ptr().write_volatile(value) }
}
