// SPDX-License-Identifier: GPL-2.0
//! Suites that others wrote.

mod vsock_test;

use crate::case::Case;

/// The cases of all of them.
pub(crate) fn cases() -> Vec<Case> {
    vsock_test::cases()
}
