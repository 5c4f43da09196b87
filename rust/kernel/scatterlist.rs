// SPDX-License-Identifier: GPL-2.0

//! Scatterlists that live for one call and describe memory that is not yet mapped for DMA.
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h)

use crate::bindings;
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// The most entries a list can have: a header and each fragment of an skb.
pub const MAX_ENTRIES: usize = 1 + bindings::MAX_SKB_FRAGS as usize;

/// A scatterlist on the stack, built entry by entry.
///
/// Only entries that were pushed are ever initialised, so that a list of one costs what one entry
/// costs.
///
/// # Invariants
///
/// The first `len` entries are initialised, each describes memory in the kernel's linear mapping,
/// and the last of them, if any, carries the end mark.
pub struct ScatterList {
    entries: MaybeUninit<[bindings::scatterlist; MAX_ENTRIES]>,
    len: usize,
}

impl ScatterList {
    /// An empty list.
    #[inline]
    pub fn new() -> Self {
        // INVARIANT: No entry is claimed to be initialised.
        Self {
            entries: MaybeUninit::uninit(),
            len: 0,
        }
    }

    /// Appends `len` bytes at `buf`, or returns `ENOSPC` if the list is full.
    ///
    /// # Safety
    ///
    /// `buf` must be an address in the kernel's linear mapping, `len` must not be zero, and all of
    /// `buf..buf + len` must lie in one allocation.
    #[inline]
    pub(crate) unsafe fn push(&mut self, buf: NonNull<c_void>, len: u32) -> Result {
        if self.len == MAX_ENTRIES {
            return Err(ENOSPC);
        }
        // CAST: `len` is at most `MAX_ENTRIES`.
        let n = self.len as c_uint;
        // SAFETY:
        // - `n` is below `MAX_ENTRIES`, so that entry `n` is in the table; by the type invariant
        //   entry `n - 1`, if there is one, is initialised.
        // - The caller vouches for `buf` and `len`.
        unsafe {
            bindings::sg_append(self.entries.as_mut_ptr().cast(), n, buf.as_ptr(), len);
        }
        // INVARIANT: Entry `n` is now initialised, and `sg_append` moved the end mark to it.
        self.len += 1;
        Ok(())
    }

    /// The number of entries.
    #[inline]
    pub(crate) fn len(&self) -> c_uint {
        // CAST: At most `MAX_ENTRIES`.
        self.len as c_uint
    }

    /// The table, for a C function that takes it together with [`ScatterList::len`].
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut bindings::scatterlist {
        self.entries.as_mut_ptr().cast()
    }
}

impl Default for ScatterList {
    fn default() -> Self {
        Self::new()
    }
}
