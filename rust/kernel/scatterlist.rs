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

/// How pieces of memory become entries of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Each piece is an entry, for a device that looks where one ends.
    Kept,
    /// A piece that begins where the one before it ends is part of the same entry.
    Free,
}

/// A scatterlist on the stack, built piece by piece.
///
/// Only entries that are needed are ever initialised, so that a list of one costs what one entry
/// costs.
///
/// # Invariants
///
/// - The first `len` entries are initialised, each describes memory in the kernel's linear mapping,
///   and the last of them, if any, carries the end mark.
/// - `last` is memory in the kernel's linear mapping, and not empty.
pub struct ScatterList {
    entries: MaybeUninit<[bindings::scatterlist; MAX_ENTRIES]>,
    len: usize,
    /// The last piece, which the next may still become a part of.
    last: Option<(NonNull<c_void>, u32)>,
    framing: Framing,
}

impl ScatterList {
    /// An empty list.
    #[inline]
    pub fn new(framing: Framing) -> Self {
        // INVARIANT: No entry is claimed to be initialised.
        Self {
            entries: MaybeUninit::uninit(),
            len: 0,
            last: None,
            framing,
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
        if let Some((first, before)) = self.last {
            if self.framing == Framing::Free
                && first.as_ptr().wrapping_byte_add(before as usize) == buf.as_ptr()
            {
                if let Some(sum) = before.checked_add(len) {
                    // INVARIANT: What is adjacent in the linear mapping is so in memory.
                    self.last = Some((first, sum));
                    return Ok(());
                }
            }
            self.flush()?;
        }
        // INVARIANT: The caller vouches for `buf` and `len`.
        self.last = Some((buf, len));
        Ok(())
    }

    /// Makes an entry of the last piece.
    #[inline]
    fn flush(&mut self) -> Result {
        let Some((buf, len)) = self.last else {
            return Ok(());
        };
        if self.len == MAX_ENTRIES {
            return Err(ENOSPC);
        }
        // CAST: `len` is at most `MAX_ENTRIES`.
        let n = self.len as c_uint;
        // SAFETY:
        // - `n` is below `MAX_ENTRIES`, so that entry `n` is in the table; by the type invariant
        //   entry `n - 1`, if there is one, is initialised.
        // - By the type invariant `buf` and `len` are memory that can be listed.
        unsafe {
            bindings::sg_append(self.entries.as_mut_ptr().cast(), n, buf.as_ptr(), len);
        }
        // INVARIANT: Entry `n` is now initialised, and `sg_append` moved the end mark to it.
        self.len += 1;
        self.last = None;
        Ok(())
    }

    /// The table and the number of its entries, for a C function that takes both. It is at the
    /// table's own place, and stays valid while the list is borrowed.
    ///
    /// `EINVAL` if there is nothing in it, and `ENOSPC` as for [`ScatterList::push`].
    #[inline]
    pub(crate) fn table(&mut self) -> Result<(*mut bindings::scatterlist, c_uint)> {
        self.flush()?;
        if self.len == 0 {
            return Err(EINVAL);
        }
        // CAST: At most `MAX_ENTRIES`.
        Ok((self.entries.as_mut_ptr().cast(), self.len as c_uint))
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_scatterlist)]
mod tests {
    use super::*;

    /// The lengths of the entries that pieces of `memory` make, each `(offset, length)`.
    fn lengths(framing: Framing, memory: &KVec<u8>, pieces: &[(usize, u32)]) -> Result<KVec<u32>> {
        let mut list = ScatterList::new(framing);
        for (offset, len) in pieces {
            let buf = NonNull::from(&memory[*offset]).cast();
            // SAFETY: The piece is in the allocation, which is in the linear mapping.
            unsafe { list.push(buf, *len)? };
        }
        let (table, entries) = list.table()?;
        let mut lengths = KVec::new();
        for n in 0..entries as usize {
            // SAFETY: `table` has that many entries.
            lengths.push(unsafe { (*table.add(n)).length }, GFP_KERNEL)?;
        }
        Ok(lengths)
    }

    #[test]
    fn neighbours_are_one_entry_where_framing_is_free() -> Result {
        let memory = KVec::from_elem(0u8, 4096, GFP_KERNEL)?;
        // A header with its payload behind it, and a piece that is elsewhere.
        let pieces = [(0, 44), (44, 1000), (2000, 7)];
        assert_eq!(
            lengths(Framing::Free, &memory, &pieces)?.as_slice(),
            [1044, 7]
        );
        assert_eq!(
            lengths(Framing::Kept, &memory, &pieces)?.as_slice(),
            [44, 1000, 7]
        );
        // What comes before, or overlaps, does not follow.
        let pieces = [(44, 10), (0, 44), (43, 1)];
        assert_eq!(
            lengths(Framing::Free, &memory, &pieces)?.as_slice(),
            [10, 44, 1]
        );
        Ok(())
    }

    #[test]
    fn a_list_has_an_end() -> Result {
        let memory = KVec::from_elem(0u8, 4096, GFP_KERNEL)?;
        let mut pieces = [(0, 1); MAX_ENTRIES + 1];
        for (number, piece) in pieces.iter_mut().enumerate() {
            piece.0 = 2 * number;
        }
        let most = lengths(Framing::Free, &memory, &pieces[1..])?;
        assert_eq!(most.len(), MAX_ENTRIES);
        assert_eq!(lengths(Framing::Free, &memory, &pieces).err(), Some(ENOSPC));
        assert_eq!(lengths(Framing::Free, &memory, &[]).err(), Some(EINVAL));
        Ok(())
    }
}
