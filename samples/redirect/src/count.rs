// SPDX-License-Identifier: GPL-2.0
//! What became of the datagrams.

use std::fmt;

/// How many datagrams came, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Passed on to the vsock socket.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped, because a stream has no way to say that nothing was sent.
    pub empty: u64,
    /// Dropped, because the vsock socket was not connected any more.
    pub refused: u64,
}

impl From<[u64; 4]> for Counts {
    /// As the BPF program keeps them.
    fn from([datagrams, bytes, empty, refused]: [u64; 4]) -> Self {
        Self {
            datagrams,
            bytes,
            empty,
            refused,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            datagrams,
            bytes,
            empty,
            refused,
        } = self;
        write!(f, "redirected {datagrams} datagrams, {bytes} bytes")?;
        if *empty > 0 {
            write!(f, "; dropped {empty} that were empty")?;
        }
        if *refused > 0 {
            write!(
                f,
                "; dropped {refused} that came after the vsock peer's end"
            )?;
        }
        Ok(())
    }
}
