// SPDX-License-Identifier: GPL-2.0

//! Kernel modules.

use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};
use std::ffi::CString;
use std::fs::File;
use std::io;

/// Loads a module from a file.
pub(crate) fn load(path: &str, parameters: &str) -> io::Result<()> {
    let file = File::open(path)?;
    let parameters = CString::new(parameters)?;
    Ok(finit_module(&file, &parameters, ModuleInitFlags::empty())?)
}

/// Unloads a module, unless it is in use.
pub(crate) fn unload(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    Ok(delete_module(&name, DeleteModuleFlags::O_NONBLOCK)?)
}
