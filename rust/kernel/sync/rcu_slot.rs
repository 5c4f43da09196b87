// SPDX-License-Identifier: GPL-2.0

//! A place where a value is published for RCU readers.
//!
//! C header: [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)
//!
//! Stands for a `static T __rcu *` with its `rcu_assign_pointer()`, `rcu_dereference()` and
//! `synchronize_rcu()`. Unlike `kernel::revocable::Revocable` it can be a `static`, and be filled
//! and emptied many times.

use super::read_once;
use core::{
    marker::PhantomData,
    ptr::null_mut, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        rcu, //
    },
    types::ForeignOwnable, //
};

/// A slot for one `P`, empty at first.
///
/// # Invariants
///
/// The pointer is null, or was made by `P::into_foreign` and is owned by the one [`Published`] of
/// this slot. After the pointer is replaced by null its value lives for a grace period at least.
pub struct RcuSlot<P: ForeignOwnable> {
    ptr: Atomic<*mut c_void>,
    _value: PhantomData<P>,
}

// SAFETY: Readers on any thread get to a shared `P`, and any thread may drop it.
unsafe impl<P: ForeignOwnable + Send + Sync> Sync for RcuSlot<P> {}

impl<P: ForeignOwnable + Send + Sync> RcuSlot<P> {
    /// An empty slot.
    pub const fn new() -> Self {
        Self {
            ptr: Atomic::new(null_mut()),
            _value: PhantomData,
        }
    }

    /// What is published at the moment; it stays valid as long as the guard.
    #[inline]
    pub fn get<'g>(&self, _: &'g rcu::Guard) -> Option<P::Borrowed<'g>> {
        // ORDERING: Pairs with the store in `publish`: who sees the pointer sees the value, because
        // the value's address depends on it, as with `rcu_dereference()`.
        let ptr = read_once(&self.ptr);
        // SAFETY: By the type invariant a pointer that is not null came from `into_foreign`, and
        // its value outlives the RCU read-side critical section that `'g` stands for.
        (!ptr.is_null()).then(|| unsafe { P::borrow(ptr) })
    }

    /// Publishes `value`, or gives it back if the slot is taken.
    ///
    /// It is withdrawn when the returned value is dropped.
    pub fn publish(&'static self, value: P) -> Result<Published<P>, P> {
        let ptr = value.into_foreign();
        // ORDERING: Full, for the release that `get` pairs with.
        match self.ptr.cmpxchg(null_mut(), ptr, Full) {
            // INVARIANT: `ptr` came from `into_foreign`, and the new `Published` owns it.
            Ok(_) => Ok(Published { slot: self }),
            // SAFETY: `ptr` came from `into_foreign` above and was not published.
            Err(_) => Err(unsafe { P::from_foreign(ptr) }),
        }
    }
}

impl<P: ForeignOwnable + Send + Sync> Default for RcuSlot<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// Keeps a value published in an [`RcuSlot`].
///
/// Dropping it empties the slot, sleeps until no reader can see the value any more
/// (`synchronize_rcu()`), and then drops the value.
///
/// # Invariants
///
/// The slot is not empty, and this is its only `Published`.
pub struct Published<P: ForeignOwnable + Send + Sync + 'static> {
    slot: &'static RcuSlot<P>,
}

impl<P: ForeignOwnable + Send + Sync + 'static> Drop for Published<P> {
    fn drop(&mut self) {
        // ORDERING: Full, as `rcu_assign_pointer()` is a release at least; the grace period below
        // orders everything else.
        let ptr = self.slot.ptr.xchg(null_mut(), Full);
        rcu::synchronize_rcu();
        // SAFETY: By the type invariants `ptr` came from `into_foreign` and is ours. A grace
        // period passed since it could last be read.
        drop(unsafe { P::from_foreign(ptr) });
    }
}
