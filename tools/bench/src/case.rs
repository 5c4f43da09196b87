// SPDX-License-Identifier: GPL-2.0
//! What is measured.

use std::fmt;

/// Which way the bytes go, seen from the guest under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// It receives.
    ToGuest,
    /// It sends.
    FromGuest,
}

/// How much a receiver asks for at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reads {
    /// 64 KiB, whatever the sender writes.
    Fixed,
    /// As much as was written.
    AsWritten,
}

/// One thing to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Case {
    /// A transfer, as fast as it goes.
    Stream {
        /// Which way.
        way: Way,
        /// Bytes of one write.
        write_size: usize,
        /// The receiver.
        reads: Reads,
        /// Connections at once.
        streams: u32,
    },
    /// One write there, the same back, and so on.
    PingPong {
        /// Bytes of one write.
        size: usize,
        /// Whether a stream of 64-byte writes runs to the guest meanwhile.
        beside_bulk: bool,
    },
    /// Connections, one after the other.
    Connect,
    /// A transfer by the kernel's own `vsock_perf`, for a second opinion.
    Perf {
        /// Which way.
        way: Way,
        /// Bytes of one write.
        write_size: usize,
    },
}

/// Bytes of a fixed receiver's reads.
pub(crate) const FIXED_READ: usize = 65536;
/// Bytes of the writes of the stream beside which pings are measured.
pub(crate) const BULK_WRITE: usize = 64;

const SIZES: [usize; 8] = [64, 256, 512, 1024, 4096, 8192, 16384, 65536];
const HEADLINE_SIZES: [usize; 5] = [64, 256, 1024, 4096, 65536];

impl Case {
    /// The table. Without a Linux at the other end, nothing there reads as was written, and nothing
    /// there can run `vsock_perf`.
    pub(crate) fn all(quick: bool, linux_peer: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut stream = |way, write_size, reads, streams| {
            cases.push(Case::Stream {
                way,
                write_size,
                reads,
                streams,
            });
        };
        if quick {
            for size in HEADLINE_SIZES {
                stream(Way::ToGuest, size, Reads::Fixed, 1);
            }
            for size in [64, 4096, 65536] {
                stream(Way::FromGuest, size, Reads::Fixed, 1);
            }
            stream(Way::ToGuest, 4096, Reads::Fixed, 4);
            let ping = Case::PingPong {
                size: 512,
                beside_bulk: false,
            };
            cases.extend([ping, Case::Connect]);
            return cases;
        }
        for way in [Way::ToGuest, Way::FromGuest] {
            for reads in [Reads::Fixed, Reads::AsWritten] {
                if reads == Reads::Fixed || way == Way::ToGuest || linux_peer {
                    for size in SIZES {
                        stream(way, size, reads, 1);
                    }
                }
            }
            for size in [4096, 65536] {
                for streams in [2, 4] {
                    stream(way, size, Reads::Fixed, streams);
                }
            }
        }
        cases.extend([64, 512, 4096].map(|size| Case::PingPong {
            size,
            beside_bulk: false,
        }));
        cases.push(Case::PingPong {
            size: 512,
            beside_bulk: true,
        });
        cases.push(Case::Connect);
        if linux_peer {
            for way in [Way::ToGuest, Way::FromGuest] {
                cases.extend(HEADLINE_SIZES.map(|write_size| Case::Perf { way, write_size }));
            }
        }
        cases
    }

    /// Whether the guest's way of receiving payload can matter.
    pub(crate) fn guest_receives(self) -> bool {
        match self {
            Case::Stream { way, .. } | Case::Perf { way, .. } => way == Way::ToGuest,
            Case::PingPong { .. } => true,
            Case::Connect => false,
        }
    }

    /// Whether the guest's way of sending payload can matter.
    pub(crate) fn guest_sends(self) -> bool {
        match self {
            Case::Stream { way, .. } | Case::Perf { way, .. } => way == Way::FromGuest,
            Case::PingPong { .. } => true,
            Case::Connect => false,
        }
    }

    /// Payload bytes of one operation: a write, or a round trip's writes there.
    pub(crate) fn operation_bytes(self) -> Option<usize> {
        match self {
            Case::Stream { write_size, .. } | Case::Perf { write_size, .. } => Some(write_size),
            Case::PingPong { size, .. } => Some(size),
            Case::Connect => None,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::ToGuest => "to-guest",
            Way::FromGuest => "from-guest",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Stream {
                way,
                write_size,
                reads,
                streams,
            } => {
                write!(f, "{way}/{write_size}")?;
                if *reads == Reads::AsWritten {
                    f.write_str("/as-written")?;
                }
                if *streams > 1 {
                    write!(f, "/x{streams}")?;
                }
                Ok(())
            }
            Case::PingPong { size, beside_bulk } => {
                write!(f, "ping-pong/{size}")?;
                f.write_str(if *beside_bulk { "/beside-bulk" } else { "" })
            }
            Case::Connect => f.write_str("connect"),
            Case::Perf { way, write_size } => write!(f, "vsock_perf/{way}/{write_size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        for (quick, linux_peer) in [(true, true), (true, false), (false, true), (false, false)] {
            let cases = Case::all(quick, linux_peer);
            let names: HashSet<String> = cases.iter().map(ToString::to_string).collect();
            assert_eq!(names.len(), cases.len());
        }
    }

    #[test]
    fn without_a_linux_peer_nothing_asks_for_one() {
        let cases = Case::all(false, false);
        let needs = |case: &Case| {
            matches!(
                case,
                Case::Perf { .. }
                    | Case::Stream {
                        way: Way::FromGuest,
                        reads: Reads::AsWritten,
                        ..
                    }
            )
        };
        assert!(!cases.iter().any(needs));
        assert!(Case::all(false, true).iter().any(needs));
    }
}
