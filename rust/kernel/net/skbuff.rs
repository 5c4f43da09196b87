// SPDX-License-Identifier: GPL-2.0

//! Socket buffers that have one owner.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)
//!
//! This is not a general skb API: it is what a transport needs that owns each of its packets
//! alone, from allocation or arrival until it hands it on.

use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A socket buffer with no other owner.
///
/// Dropping it is `kfree_skb()`.
///
/// # Invariants
///
/// The pointer is a valid `struct sk_buff`, linked into no list, whose only user is this value.
#[repr(transparent)]
pub struct SkBuff(NonNull<bindings::sk_buff>);

// SAFETY: An skb belongs to no thread.
unsafe impl Send for SkBuff {}

impl SkBuff {
    /// Takes the skb over.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, linked into no list, and given up by the caller, its only user.
    #[inline]
    pub(crate) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self(skb)
    }

    /// Gives the skb up, to whoever takes the pointer.
    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<bindings::sk_buff> {
        ManuallyDrop::new(self).0
    }

    /// The C skb.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// The fields of the C skb.
    #[inline]
    fn fields(&self) -> &bindings::sk_buff {
        // SAFETY: By the type invariant the skb is valid and has no other user.
        unsafe { self.0.as_ref() }
    }

    /// The number of bytes of payload.
    #[inline]
    pub fn len(&self) -> u32 {
        self.fields().len
    }

    /// Is there no payload?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is part of the payload outside of the linear buffer?
    #[doc(alias = "skb_is_nonlinear")]
    #[inline]
    pub fn is_nonlinear(&self) -> bool {
        self.fields().data_len != 0
    }

    /// Where the buffer begins.
    #[inline]
    pub(crate) fn head(&self) -> *mut u8 {
        self.fields().head
    }

    /// Where the linear payload begins.
    #[inline]
    pub(crate) fn data(&self) -> *mut u8 {
        self.fields().data
    }
}

impl Drop for SkBuff {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the skb is ours.
        unsafe { bindings::kfree_skb(self.as_ptr()) }
    }
}

/// A chain of skbs in their order, without a lock.
///
/// Unlike `struct sk_buff_head` it may be moved, and holds them by `skb->next` alone.
///
/// # Invariants
///
/// `head` leads over `next` to `tail`, whose `next` is null, in `len` steps, the first being
/// `head` itself; both are `None` if `len` is zero. All of the skbs are owned by the chain.
#[derive(Default)]
pub struct SkBuffList {
    head: Option<NonNull<bindings::sk_buff>>,
    tail: Option<NonNull<bindings::sk_buff>>,
    len: u32,
}

// SAFETY: A chain owns its skbs, which belong to no thread.
unsafe impl Send for SkBuffList {}

/// Sets `skb->next`.
///
/// # Safety
///
/// `skb` must be valid and owned by the caller.
#[inline]
unsafe fn set_next(skb: NonNull<bindings::sk_buff>, next: *mut bindings::sk_buff) {
    // SAFETY: The caller owns the skb; `next` is the first of a union's fields that a list uses.
    unsafe { (*skb.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next = next };
}

/// Reads `skb->next`.
///
/// # Safety
///
/// `skb` must be valid and owned by the caller, and `next` have been set.
#[inline]
unsafe fn next(skb: NonNull<bindings::sk_buff>) -> *mut bindings::sk_buff {
    // SAFETY: By the requirements of this function.
    unsafe { (*skb.as_ptr()).__bindgen_anon_1.__bindgen_anon_1.next }
}

impl SkBuffList {
    /// An empty chain.
    pub const fn new() -> Self {
        // INVARIANT: An empty chain has no ends.
        Self {
            head: None,
            tail: None,
            len: 0,
        }
    }

    /// The number of skbs.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends one.
    #[inline]
    pub fn push_back(&mut self, skb: SkBuff) {
        let skb = skb.into_raw();
        // SAFETY: `skb` was just given to us.
        unsafe { set_next(skb, core::ptr::null_mut()) };
        match self.tail {
            // SAFETY: By the type invariant the tail is ours.
            Some(tail) => unsafe { set_next(tail, skb.as_ptr()) },
            None => self.head = Some(skb),
        }
        // INVARIANT: `skb` follows the old tail, and its `next` is null.
        self.tail = Some(skb);
        self.len += 1;
    }

    /// Takes the first.
    #[inline]
    pub fn pop_front(&mut self) -> Option<SkBuff> {
        let skb = self.head?;
        // SAFETY: By the type invariant `skb` is ours, and linked.
        let rest = unsafe { next(skb) };
        // SAFETY: As above. An skb outside of a list has a null `next`.
        unsafe { set_next(skb, core::ptr::null_mut()) };
        // INVARIANT: The chain begins with the second now.
        self.head = NonNull::new(rest);
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        // SAFETY: `skb` was ours, and is out of the chain.
        Some(unsafe { SkBuff::from_raw(skb) })
    }

    /// The last one; it stays in the chain.
    #[inline]
    pub(crate) fn tail(&self) -> Option<NonNull<bindings::sk_buff>> {
        self.tail
    }
}

impl Drop for SkBuffList {
    fn drop(&mut self) {
        while self.pop_front().is_some() {}
    }
}

/// A queue of skbs with its own lock, taken with `spin_lock_bh()`.
///
/// Stands for `struct sk_buff_head`.
///
/// # Invariants
///
/// The C queue is initialised, and owns the skbs in it.
#[pin_data(PinnedDrop)]
pub struct SkBuffQueue {
    #[pin]
    head: Opaque<bindings::sk_buff_head>,
}

// SAFETY: The skbs belong to no thread.
unsafe impl Send for SkBuffQueue {}

// SAFETY: The queue has a lock, which its methods take.
unsafe impl Sync for SkBuffQueue {}

impl SkBuffQueue {
    /// An empty queue.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid for writing, and pinned.
            head <- Opaque::ffi_init(|slot| unsafe { bindings::skb_queue_head_init(slot) }),
        })
    }

    /// The C queue.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sk_buff_head {
        self.head.get()
    }

    /// Is the queue empty, as far as one can tell without its lock?
    ///
    /// What the calling thread queued before is seen.
    #[doc(alias = "skb_queue_empty_lockless")]
    #[inline]
    pub fn is_empty_lockless(&self) -> bool {
        let head = self.as_ptr();
        // SAFETY: By the type invariant the queue is initialised. Only the field's address is
        // taken.
        let next = unsafe { &raw const (*head).__bindgen_anon_1.__bindgen_anon_1.next };
        // SAFETY: As above; a volatile read of the pointer, which others may change, is the
        // `READ_ONCE()` of the C function.
        let first = unsafe { next.read_volatile() };
        first.cast_const().cast() == head.cast_const()
    }

    /// Appends one.
    pub fn push_back(&self, skb: SkBuff) {
        // SAFETY: By the type invariant the queue is initialised; it owns `skb` from here on.
        unsafe {
            bindings::virtio_vsock_skb_queue_tail(self.as_ptr(), skb.into_raw().as_ptr());
        }
    }

    /// Puts one in front of all others.
    pub fn push_front(&self, skb: SkBuff) {
        // SAFETY: By the type invariant the queue is initialised; it owns `skb` from here on.
        unsafe {
            bindings::virtio_vsock_skb_queue_head(self.as_ptr(), skb.into_raw().as_ptr());
        }
    }

    /// Takes the first.
    pub fn pop_front(&self) -> Option<SkBuff> {
        // SAFETY: By the type invariant the queue is initialised.
        let skb = unsafe { bindings::virtio_vsock_skb_dequeue(self.as_ptr()) };
        // SAFETY: The skb was the queue's, and is ours now.
        NonNull::new(skb).map(|skb| unsafe { SkBuff::from_raw(skb) })
    }
}

#[pinned_drop]
impl PinnedDrop for SkBuffQueue {
    fn drop(self: Pin<&mut Self>) {
        while self.pop_front().is_some() {}
    }
}
