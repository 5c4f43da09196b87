// SPDX-License-Identifier: GPL-2.0

//! Pages for receive buffers that come back when a buffer was read.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

use super::skbuff::SkBuff;
use crate::{
    bindings,
    gfp::Gfp, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

/// A pool of pages.
///
/// A page that was given out in an skb comes back when that skb is freed, by whomever, and is given
/// out again as it is: without the way through the page allocator, which clears every page on a
/// kernel with `init_on_alloc=1`. On a kernel without page pools, buffers are allocated as in C.
///
/// Dropping the pool does not wait for pages that are out; the kernel frees it with the last one.
///
/// Stands for `struct page_pool`.
///
/// # Invariants
///
/// The pointer is null on a kernel without `CONFIG_PAGE_POOL`, and owns a pool otherwise.
pub struct PagePool(*mut bindings::page_pool);

// SAFETY: A pool belongs to no thread; what must not be done by two at a time takes `&mut self`.
unsafe impl Send for PagePool {}

impl PagePool {
    /// A pool that keeps up to `size` pages which are not in use. May sleep.
    pub fn new(size: u32) -> Result<Self> {
        // SAFETY: May be called in any context that may sleep.
        let pool = from_err_ptr(unsafe { bindings::page_pool_create(size) })?;
        // INVARIANT: The pool was just made, or there is none on this kernel.
        Ok(Self(pool))
    }

    /// An skb as `virtio_vsock_alloc_linear_skb()` makes it for a receive buffer.
    pub(crate) fn alloc_rx_skb(&mut self, gfp: Gfp) -> Option<SkBuff> {
        // SAFETY: By the type invariant the pool is valid, or null where that is right. The pool's
        // cache is used by one at a time.
        let skb = unsafe { bindings::page_pool_alloc_rx_skb(self.0, gfp.as_raw()) };
        // SAFETY: The skb was just allocated.
        NonNull::new(skb).map(|skb| unsafe { SkBuff::from_raw(skb) })
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the pool is ours.
        unsafe { bindings::page_pool_destroy(self.0) }
    }
}
