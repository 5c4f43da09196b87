// SPDX-License-Identifier: GPL-2.0

//! What sysfs tells.

use crate::bindings;
use kernel::prelude::*;

/// Does `path` exist, as the current process sees the file system?
///
/// `find_module()` is not exported, so that a module which wants to name another one that stands
/// in its way has `/sys/module` to look at. May sleep.
///
/// Stands for `kern_path()`.
pub fn path_exists(path: &CStr) -> bool {
    // SAFETY: The path is a C string.
    unsafe { bindings::path_exists(path.as_char_ptr()) }
}
