// SPDX-License-Identifier: GPL-2.0
//! The programs at either end are killed in the middle of a transfer.

use anyhow::Result;

use super::rounds::rounds;
use super::traffic::{BULK, Seen, Traffic};
use crate::case::Case;
use crate::case::fixture::Fixture;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "the host's programs are killed in mid-transfer, again and again",
            host,
        )
        .quick()
        .short(),
        Case::new(
            "the guest's programs are killed in mid-transfer, again and again",
            guest,
        ),
        Case::new(
            "both sides' programs are killed in mid-transfer, again and again",
            both,
        ),
    ]
}

fn host(fixture: &Fixture<'_>) -> Result<()> {
    rounds(fixture, BULK, fixture.rounds(5, 10, 100), |traffic| {
        traffic.kill_far()?;
        traffic.all_noticed("the guest to notice that its peers were killed")?;
        let before = traffic.seen()?;
        traffic.start_far()?;
        traffic.flows("traffic with new peers", &before)
    })
}

fn guest(fixture: &Fixture<'_>) -> Result<()> {
    rounds(fixture, BULK, fixture.rounds(5, 10, 100), |traffic| {
        traffic.kill_guest()?;
        begin_again(traffic)
    })
}

fn both(fixture: &Fixture<'_>) -> Result<()> {
    rounds(fixture, BULK, fixture.rounds(5, 10, 100), |traffic| {
        traffic.kill_guest()?;
        traffic.kill_far()?;
        traffic.start_far()?;
        begin_again(traffic)
    })
}

fn begin_again(traffic: &mut Traffic<'_>) -> Result<()> {
    traffic.start_guest()?;
    // New programs count from zero.
    traffic.flows("traffic with the guest's new programs", &Seen::default())
}
