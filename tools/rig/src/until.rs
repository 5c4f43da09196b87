// SPDX-License-Identifier: GPL-2.0

//! Asking until the answer is yes, where nothing tells when it is.

use crate::error::{Error, Result};
use std::thread;
use std::time::{Duration, Instant};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks about a machine until the answer is yes, for at most so long.
pub(crate) fn until(
    machine: &str,
    what: String,
    limit: Duration,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !done()? {
        if started.elapsed() > limit {
            return Err(Error::TimedOut {
                machine: machine.into(),
                what,
                after: limit,
            });
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}
