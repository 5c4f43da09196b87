// SPDX-License-Identifier: GPL-2.0

//! The lab root in a machine.

use super::Machine;
use crate::error::{Error, Result};
use crate::share;
use std::time::Duration;

/// It is mounted at once, but a loaded machine takes its time to run the script.
const LIMIT: Duration = Duration::from_secs(60);

impl Machine {
    /// The folder in which the machine has the lab root, for [`crate::Program::root`]; mounted now, if
    /// it was not. It is read-only but for `/tmp` and `/run`.
    pub fn lab_root(&self) -> Result<&'static str> {
        if !self.traits.lab_root {
            let name = self.name();
            return Err(Error::Setup(format!(
                "{name} was not given the lab root; the machines of the wire rig are, if its \
                 configuration says so"
            )));
        }
        let script = share::mount_script();
        self.run(["sh", "-exc", &script], LIMIT)?.success()?;
        Ok(share::ROOT)
    }
}
