// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/debug/virtio_vsock_rs/`.
//!
//! - `stats`: the counters, a line `name value` each
//! - `rx_batch`, `tx_fast_path`: switches, `0` or `1`

use crate::{
    config::CONFIG,
    module::STATS, //
};
use kernel::{
    debugfs::Scope,
    fmt,
    prelude::*, //
};

/// Stands for the module's directory; what it shows is static.
pub(crate) struct DebugFs;

impl DebugFs {
    /// Makes the directory. Without `CONFIG_DEBUG_FS` there is none, which is no error.
    pub(crate) fn new(name: &'static CStr) -> impl PinInit<Scope<Self>, Error> {
        Scope::dir(Ok(Self), name, |this, dir| {
            dir.read_callback_file(c"stats", this, &|_: &Self, f: &mut fmt::Formatter<'_>| {
                STATS.show(f)
            });
            dir.read_write_file(c"rx_batch", &CONFIG.rx_batch);
            dir.read_write_file(c"tx_fast_path", &CONFIG.tx_fast_path);
        })
    }
}
