// SPDX-License-Identifier: GPL-2.0

//! Lock backends that `kernel::sync::lock` does not have.

pub mod spinlock_bh;
