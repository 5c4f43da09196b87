// SPDX-License-Identifier: GPL-2.0
//! What it costs a guest that its host has to do something for it.
//!
//! CPUID is the instruction that every hypervisor takes over, so that a guest leaves for its host with
//! it, and comes back. What such a way out costs is more than that way: translations of addresses and of
//! instructions may be gone after it, and come back one by one as the guest goes on. Which is why there
//! is something to go on with: a small write to a UNIX socket and its read, a way through the kernel.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{read, write};
use raw_cpuid::cpuid;
use serde::{Deserialize, Serialize};

use crate::report::Fault;

/// How many times in a row the guest leaves, or does not.
const RUN: u32 = 100;
/// Bytes of a write.
const SMALL: usize = 64;

/// How to measure.
#[derive(Args, Clone, Copy, Debug)]
pub struct Leave {
    /// Writes of 64 bytes after each time, each read at once.
    #[arg(long, default_value_t = 0)]
    writes: u32,
    /// Times.
    #[arg(long, default_value_t = 1000)]
    times: u32,
}

/// What one time took.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Price {
    /// Writes, and their reads, after it.
    pub writes: u32,
    /// These alone, in microseconds.
    pub stay_us: f64,
    /// Leaving the guest, and then these, in microseconds.
    pub leave_us: f64,
}

/// A socket to write to, and one to read that from.
type Ends = (OwnedFd, OwnedFd);

impl Leave {
    /// Measures by turns with and without leaving, as a machine is not as fast at all times.
    pub fn price(self) -> Result<Price, Fault> {
        let ends = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::empty(),
        );
        let ends = ends.map_err(|errno| Fault::call("making a pair of UNIX sockets", errno))?;
        let (mut stay, mut leave) = (Duration::ZERO, Duration::ZERO);
        let runs = self.times.div_ceil(RUN).max(1);
        for _ in 0..runs {
            stay += self.time(&ends, || {})?;
            leave += self.time(&ends, || {
                black_box(cpuid!(0));
            })?;
        }
        let one = |sum: Duration| sum.as_secs_f64() * 1e6 / f64::from(runs * RUN);
        Ok(Price {
            writes: self.writes,
            stay_us: one(stay),
            leave_us: one(leave),
        })
    }

    /// How long a run of `leave` takes, with all writes after each.
    fn time(&self, (to, from): &Ends, mut leave: impl FnMut()) -> Result<Duration, Fault> {
        let mut bytes = [0; SMALL];
        let begin = Instant::now();
        for _ in 0..RUN {
            leave();
            for _ in 0..self.writes {
                write(to, &bytes)
                    .and_then(|_| read(from, &mut bytes))
                    .map_err(|errno| Fault::call("passing bytes to itself", errno))?;
            }
        }
        Ok(begin.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_take_their_time() {
        let price = |writes| Leave { writes, times: 100 }.price().unwrap();
        let (none, many) = (price(0), price(100));
        assert_eq!((none.writes, many.writes), (0, 100));
        assert!(many.stay_us > none.stay_us, "{none:?}, {many:?}");
    }
}
