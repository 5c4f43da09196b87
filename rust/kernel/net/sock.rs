// SPDX-License-Identifier: GPL-2.0

//! Sockets.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)

use crate::bindings;
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// A socket, counted.
///
/// Stands for `struct sock`.
///
/// # Invariants
///
/// A `Sock` is a valid `struct sock` whose count is not zero.
#[repr(transparent)]
pub struct Sock(Opaque<bindings::sock>);

// SAFETY: `sock_hold()` and `sock_put()` count references, and the last put frees the socket.
unsafe impl AlwaysRefCounted for Sock {
    #[inline]
    fn inc_ref(&self) {
        // SAFETY: By the type invariant the count is not zero.
        unsafe { bindings::sock_hold(self.as_ptr()) }
    }

    #[inline]
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller owns the count that is given up here.
        unsafe { bindings::sock_put(obj.as_ptr().cast()) }
    }
}

// SAFETY: A socket may be put from any thread.
unsafe impl Send for Sock {}

// SAFETY: All methods of `Sock` may be called from any thread at the same time.
unsafe impl Sync for Sock {}

impl Sock {
    /// The C socket.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sock {
        self.0.get()
    }

    /// Was it made with `SOCK_STREAM`? Never changes.
    #[inline]
    pub fn is_stream(&self) -> bool {
        // SAFETY: By the type invariant the socket is valid.
        unsafe { bindings::sk_is_stream(self.as_ptr()) }
    }

    /// Takes the socket lock, which may sleep.
    ///
    /// The lock holds the reference that it was taken with.
    #[doc(alias = "lock_sock")]
    pub fn lock(this: ARef<Self>) -> LockedSock {
        // SAFETY: By the type invariant the socket is valid; process context is the caller's duty
        // as with any lock that sleeps.
        unsafe { bindings::lock_sock(this.as_ptr()) };
        // INVARIANT: The lock was just taken.
        LockedSock {
            sk: this,
            _not_send: NotThreadSafe,
        }
    }
}

/// A socket and its lock, both owned.
///
/// Dropping it releases the lock, then the reference.
///
/// # Invariants
///
/// The socket lock of `sk` is held by this value, which stays in the task that took it.
pub struct LockedSock {
    sk: ARef<Sock>,
    _not_send: NotThreadSafe,
}

impl LockedSock {
    /// Calls `f` with `sk_callback_lock` held for reading.
    ///
    /// This orders what `f` sees against sockmap, which replaces a socket's callbacks under that
    /// lock and not under the socket lock.
    #[inline]
    pub fn with_callback_lock<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: The socket is valid. `sk_callback_lock` nests inside of the socket lock.
        unsafe { bindings::sk_callback_read_lock_bh(self.as_ptr()) };
        let ret = f();
        // SAFETY: The lock was taken above.
        unsafe { bindings::sk_callback_read_unlock_bh(self.as_ptr()) };
        ret
    }

    /// Tells a writer that there is room.
    #[doc(alias = "sk_write_space")]
    #[inline]
    pub fn write_space(&self) {
        // SAFETY: The socket is valid, and its lock is held, as the C receive path has it.
        unsafe { bindings::sk_write_space(self.as_ptr()) }
    }
}

impl Deref for LockedSock {
    type Target = Sock;

    #[inline]
    fn deref(&self) -> &Sock {
        &self.sk
    }
}

impl Drop for LockedSock {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the lock is ours. The reference goes after it, with `sk`.
        unsafe { bindings::release_sock(self.sk.as_ptr()) }
    }
}
