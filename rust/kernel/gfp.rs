// SPDX-License-Identifier: GPL-2.0

//! The allocation contexts of a driver's packet path.
//!
//! C header: [`include/linux/gfp_types.h`](srctree/include/linux/gfp_types.h)
//!
//! `kernel::alloc::Flags` does not give its value away outside its crate, so the functions here
//! that lead to a C function with a `gfp_t` take this enum instead.

use crate::bindings;

/// What an allocation may do to succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gfp {
    /// `GFP_ATOMIC`: must not sleep.
    Atomic,
    /// `GFP_KERNEL`: may sleep.
    Kernel,
}

impl Gfp {
    /// The C value.
    #[inline]
    pub(crate) fn as_raw(self) -> bindings::gfp_t {
        match self {
            Self::Atomic => bindings::GFP_ATOMIC,
            Self::Kernel => bindings::GFP_KERNEL,
        }
    }
}
