// SPDX-License-Identifier: GPL-2.0
//! What happens to a guest and its device in their life, under traffic in both directions.

use crate::case::Case;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    Vec::new()
}
