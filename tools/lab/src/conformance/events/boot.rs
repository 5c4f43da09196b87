// SPDX-License-Identifier: GPL-2.0
//! A host that connects from the first moment on.

use anyhow::{Context as _, Result};

use super::traffic::{STORM, Storm};
use crate::case::Case;
use crate::case::fixture::Fixture;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a host that connects all the time from before the driver is loaded on gets every answer",
            first_moment,
        )
        .quick()
        .short(),
    ]
}

/// Requests that come between the device being ready and its queues running are answered, and not
/// later by a time-out: no attempt may take as long as one that nobody answers.
fn first_moment(fixture: &Fixture<'_>) -> Result<()> {
    let driver = fixture.subject.driver();
    for round in 1..=fixture.rounds(3, 10, 100) {
        let attempt = || -> Result<()> {
            fixture.unload()?;
            let storm = Storm::begin(fixture, STORM)?;
            fixture.guest().insmod(driver.name(), driver.parameters())?;
            fixture.wait_bound()?;
            storm.completes(20)?;
            storm.end_without_timeouts()
        };
        attempt().with_context(|| format!("when the driver was loaded for the {round}. time"))?;
    }
    Ok(())
}
