// SPDX-License-Identifier: GPL-2.0
//! Faults that people met with other drivers.

use crate::case::Case;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    Vec::new()
}
