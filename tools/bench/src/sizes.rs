// SPDX-License-Identifier: GPL-2.0
//! How much is transferred in a case: the same with every driver, and about as long with each.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;

use crate::case::Case;
use crate::site::Site;
use crate::traffic;

/// Operations of the first try.
const PILOT: u64 = 1000;
const PILOT_BYTES: u64 = 4 << 20;
/// Fewer say nothing: neither of a percentile of round trips, nor of a stream that has to get going.
const FEWEST_PINGS: u64 = 300;
const FEWEST_WRITES: u64 = 3000;
const FEWEST: u64 = 50;
/// A stream of large writes is long enough with so many bytes.
const ENOUGH_BYTES: u64 = 8 << 20;
/// No case takes more memory or patience than so many.
const MOST: u64 = 5_000_000;
/// Tries: the fastest counts, as one may have met a hiccup of the machine. Each has at most so many
/// times as many operations as the one before.
const TRIES: u32 = 3;
const STRETCH: f64 = 16.0;

/// The number of operations of each case on a rig.
#[derive(Debug)]
pub(crate) struct Sizes {
    target: Duration,
    known: HashMap<Case, u64>,
}

impl Sizes {
    /// Transfers are to take about `target`.
    pub(crate) fn new(target: Duration) -> Self {
        Sizes {
            target,
            known: HashMap::new(),
        }
    }

    /// The number for a case, found out by tries with the driver that is loaded now, if it is not known.
    pub(crate) fn find(&mut self, site: Site<'_>, case: Case) -> Result<u64> {
        if let Some(&known) = self.known.get(&case) {
            return Ok(known);
        }
        let bytes = case.operation_bytes().map(|bytes| bytes as u64);
        let fewest = match (case, bytes) {
            (Case::PingPong { .. }, _) => FEWEST_PINGS,
            (_, Some(bytes)) => FEWEST_WRITES.min(ENOUGH_BYTES / bytes).max(FEWEST),
            (_, None) => FEWEST,
        };
        let target = self.target.as_secs_f64();
        let most = bytes.map_or(PILOT / 10, |bytes| PILOT_BYTES / bytes);
        let mut operations = PILOT.min(most).max(FEWEST);
        let mut rate: f64 = 0.0;
        for _ in 0..TRIES {
            let seconds = traffic::run(site, case, operations, None)?.seconds;
            rate = rate.max(operations as f64 / seconds);
            let stretched = (target * rate).min(operations as f64 * STRETCH);
            operations = (stretched.ceil() as u64).clamp(fewest, MOST);
        }
        self.known.insert(case, operations);
        Ok(operations)
    }
}
