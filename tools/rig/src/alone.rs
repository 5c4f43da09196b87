// SPDX-License-Identifier: GPL-2.0

//! The guest of a guest-bound rig.

use crate::error::{IoContext as _, Result};
use crate::machine::Machine;
use crate::wire::Wire;
use std::any::Any;
use std::path::PathBuf;

/// A guest whose only peers are the services of the wire, given as
/// [`crate::RigConfig::wire_options`], at the host's address. They run natively: where the guest is
/// emulated, it is the bottleneck.
#[derive(Debug)]
pub struct Alone {
    dut: Machine,
    wire: Wire,
    stats: PathBuf,
    /// The processes that carry the guest; ended in this order.
    carriers: Vec<Box<dyn Any + Send>>,
}

impl Alone {
    pub(crate) fn new(
        dut: Machine,
        wire: Wire,
        stats: PathBuf,
        carriers: Vec<Box<dyn Any + Send>>,
    ) -> Self {
        Alone {
            dut,
            wire,
            stats,
            carriers,
        }
    }

    /// The guest with the driver under test.
    pub fn dut(&self) -> &Machine {
        &self.dut
    }

    /// The wire, which can be told to do what no honest device would.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Switches the guest off in an orderly way, ends the wire, and returns its counters as JSON.
    pub fn power_off(mut self) -> Result<String> {
        self.dut.power_off()?;
        self.carriers.clear();
        std::fs::read_to_string(&self.stats).context(|| format!("read {}", self.stats.display()))
    }
}
