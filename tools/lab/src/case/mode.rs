// SPDX-License-Identifier: GPL-2.0
//! The driver's two switches.

use std::fmt;

/// How the driver works, switched at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// Received packets of one flow share one hold of the socket lock.
    pub batching: bool,
    /// Senders put packets onto the queue themselves.
    pub fast_path: bool,
}

impl Mode {
    /// As the driver loads by default.
    pub(crate) const DEFAULT: Self = Self {
        batching: true,
        fast_path: true,
    };

    /// Every mix.
    pub(crate) const ALL: [Self; 4] = [
        Self::DEFAULT,
        Self {
            batching: true,
            fast_path: false,
        },
        Self {
            batching: false,
            fast_path: true,
        },
        Self {
            batching: false,
            fast_path: false,
        },
    ];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |on| if on { "on" } else { "off" };
        let (batching, fast_path) = (state(self.batching), state(self.fast_path));
        write!(f, "batching {batching}, fast path {fast_path}")
    }
}
