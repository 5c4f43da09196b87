// SPDX-License-Identifier: GPL-2.0
//! How much is transferred in a case: the same with every driver, and about as long with each.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;

use crate::case::Case;
use crate::site::Site;
use crate::traffic;

/// Operations of the first try, from whose time the number is computed.
const PILOT: u64 = 300;
const PILOT_BYTES: u64 = 4 << 20;
/// Fewer say nothing.
const FEWEST: u64 = 50;
/// No case takes more memory or patience than so many.
const MOST: u64 = 5_000_000;

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

    /// The number for a case, found out by a try with the driver that is loaded now, if it is not known.
    pub(crate) fn find(&mut self, site: Site<'_>, case: Case) -> Result<u64> {
        if let Some(&known) = self.known.get(&case) {
            return Ok(known);
        }
        let most = case
            .operation_bytes()
            .map_or(PILOT, |bytes| PILOT_BYTES / bytes as u64);
        let pilot = traffic::run(site, case, PILOT.min(most).max(FEWEST))?;
        let each = pilot.seconds / pilot.operations as f64;
        let operations = (self.target.as_secs_f64() / each).ceil() as u64;
        let operations = operations.clamp(FEWEST, MOST);
        self.known.insert(case, operations);
        Ok(operations)
    }
}
