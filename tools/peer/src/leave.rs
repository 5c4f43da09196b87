// SPDX-License-Identifier: GPL-2.0
//! What it costs a guest that its host has to do something for it.
//!
//! CPUID is the instruction that every hypervisor takes over, so that a guest leaves for its host with
//! it, and comes back. What such a way out costs is more than that way: translations of addresses may be
//! gone after it, and come back one by one as pages are touched, which is why pages are.

use std::hint::black_box;
use std::time::{Duration, Instant};

use clap::Args;
use raw_cpuid::cpuid;
use serde::{Deserialize, Serialize};

const PAGE: usize = 4096;

/// How many times in a row the guest leaves, or does not.
const RUN: u32 = 100;

/// How to measure.
#[derive(Args, Clone, Copy, Debug)]
pub struct Leave {
    /// Pages that are touched after each time.
    #[arg(long, default_value_t = 0)]
    pages: usize,
    /// Times.
    #[arg(long, default_value_t = 1000)]
    times: u32,
}

/// What one time took.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Price {
    /// Pages that were touched.
    pub pages: usize,
    /// Touching them, in microseconds.
    pub stay_us: f64,
    /// Leaving the guest, and then touching them, in microseconds.
    pub leave_us: f64,
}

impl Leave {
    /// Measures by turns with and without leaving, as a machine is not as fast at all times.
    pub fn price(self) -> Price {
        let mut pages = vec![0_u8; self.pages * PAGE];
        let (mut stay, mut leave) = (Duration::ZERO, Duration::ZERO);
        let runs = self.times.div_ceil(RUN).max(1);
        for _ in 0..runs {
            stay += time(&mut pages, || {});
            leave += time(&mut pages, || {
                black_box(cpuid!(0));
            });
        }
        let one = |sum: Duration| sum.as_secs_f64() * 1e6 / f64::from(runs * RUN);
        Price {
            pages: self.pages,
            stay_us: one(stay),
            leave_us: one(leave),
        }
    }
}

/// How long a run of `leave` takes, with all pages touched after each.
fn time(pages: &mut [u8], mut leave: impl FnMut()) -> Duration {
    let begin = Instant::now();
    for _ in 0..RUN {
        leave();
        for byte in pages.iter_mut().step_by(PAGE) {
            *byte = black_box(byte.wrapping_add(1));
        }
    }
    begin.elapsed()
}
