// SPDX-License-Identifier: GPL-2.0

//! A workqueue of one's own.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)
//!
//! `kernel::workqueue` knows the system's queues only. A module needs its own: destroying it is
//! what shows that none of the module's code is running or about to run in a worker. (A queued
//! `Arc` keeps memory alive, but not code.) The name is that of a public patch series, so that
//! this file can go when that is merged.

use core::ptr::NonNull;
use kernel::{
    bindings,
    prelude::*,
    types::ForeignOwnable,
    workqueue::{
        Queue,
        RawWorkItem, //
    },
};

/// A workqueue that is drained and destroyed when dropped.
///
/// Dropping it sleeps until all work that was queued has run; work that queues further work
/// elsewhere than from within this queue must be stopped before.
///
/// # Invariants
///
/// The pointer owns a workqueue.
pub struct OwnedQueue(NonNull<bindings::workqueue_struct>);

impl OwnedQueue {
    /// A queue whose work runs on the CPU that queued it, at normal priority.
    ///
    /// Stands for `alloc_workqueue(name, WQ_PERCPU, 0)`.
    pub fn new_percpu(name: &CStr) -> Result<Self> {
        // SAFETY: The format takes one string, and copies it.
        let queue = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                bindings::wq_flags_WQ_PERCPU,
                0,
                name.as_char_ptr(),
            )
        };
        // INVARIANT: The queue was just allocated, and is ours.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }
}

impl Drop for OwnedQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is ours.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) }
    }
}

// SAFETY: A workqueue may be used and destroyed from any thread.
unsafe impl Send for OwnedQueue {}

// SAFETY: Work may be queued from any number of threads at once.
unsafe impl Sync for OwnedQueue {}

/// An [`OwnedQueue`] that someone else owns.
///
/// Unlike `kernel::workqueue::Queue` it takes no delayed work, whose timer destroying the queue
/// would not wait for.
#[derive(Clone, Copy)]
pub struct QueueRef<'a>(&'a Queue);

impl QueueRef<'_> {
    /// Queues a work item, or gives it back if it is queued already.
    #[inline]
    pub fn enqueue<W, const ID: u64>(&self, work: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        self.0.enqueue(work)
    }
}

// SAFETY: `into_foreign` returns the queue's pointer, which is not null, and which `from_foreign`
// and `borrow` turn back.
unsafe impl ForeignOwnable for OwnedQueue {
    const FOREIGN_ALIGN: usize = 1;
    type Borrowed<'a> = QueueRef<'a>;
    type BorrowedMut<'a> = QueueRef<'a>;

    fn into_foreign(self) -> *mut c_void {
        core::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }

    unsafe fn from_foreign(ptr: *mut c_void) -> Self {
        // INVARIANT: The caller gives up the queue that `into_foreign` returned.
        //
        // SAFETY: As `into_foreign` returned it, `ptr` is not null.
        Self(unsafe { NonNull::new_unchecked(ptr.cast()) })
    }

    unsafe fn borrow<'a>(ptr: *mut c_void) -> QueueRef<'a> {
        // SAFETY: The caller keeps the queue for `'a`.
        QueueRef(unsafe { Queue::from_raw(ptr.cast()) })
    }

    unsafe fn borrow_mut<'a>(ptr: *mut c_void) -> QueueRef<'a> {
        // SAFETY: As for `borrow`.
        unsafe { Self::borrow(ptr) }
    }
}
