// SPDX-License-Identifier: GPL-2.0

//! Holding, resuming and switching off a machine.

use super::Machine;
use crate::error::Result;
use proto::Call;
use std::time::Duration;

/// A guest has nothing to save, and is off at once.
const OFF_LIMIT: Duration = Duration::from_secs(60);

impl Machine {
    /// Stops all its virtual CPUs; the missing heartbeat is not minded until it is resumed.
    pub fn hold(&self) -> Result<()> {
        let mut monitor = self.monitor()?;
        self.seat().hold_heart();
        monitor.execute(qapi::qmp::stop {}).map(drop)
    }

    /// Lets its virtual CPUs run again.
    pub fn resume(&self) -> Result<()> {
        let mut monitor = self.monitor()?;
        self.seat().release_heart();
        monitor.execute(qapi::qmp::cont {}).map(drop)
    }

    /// Switches it off and waits until it is.
    pub(crate) fn power_off(&self) -> Result<()> {
        self.seat().post(|seat| seat.leaving = true);
        self.link.send(Call::PowerOff);
        let what = "the machine to switch itself off".to_owned();
        self.seat().wait_gone(what, OFF_LIMIT)
    }
}
