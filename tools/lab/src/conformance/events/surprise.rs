// SPDX-License-Identifier: GPL-2.0
//! The device vanishes, and the guest hears of it afterwards.

use anyhow::{Result, ensure};
use rig::{GuestSetup, RigKind, VsockDevice};

use super::blocked::Blocked;
use super::rounds::rounds;
use super::traffic::BULK;
use crate::case::Case;
use crate::case::fixture::Fixture;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "torn out and plugged in again and again, every connection notices and the next one works",
            under_traffic,
        )
        .debug(),
        Case::new(
            "blocked recv() and send() see ECONNRESET when the device is torn out",
            blocked,
        ),
    ];
    let cases = cases.into_iter().map(|case| {
        case.only_on([RigKind::Wire])
            .setup(GuestSetup::default().native_hotplug())
    });
    cases.collect()
}

fn under_traffic(fixture: &Fixture<'_>) -> Result<()> {
    rounds(fixture, BULK, fixture.rounds(2, 5, 50), |traffic| {
        let before = traffic.seen()?;
        tear_out(fixture)?;
        traffic.all_noticed("every connection to notice that the device is gone")?;
        put_back(fixture)?;
        traffic.flows("traffic after the device was plugged in again", &before)
    })
}

fn blocked(fixture: &Fixture<'_>) -> Result<()> {
    for _ in 0..fixture.rounds(1, 3, 50) {
        let blocked = Blocked::begin(fixture)?;
        tear_out(fixture)?;
        let reset = blocked.all_reset();
        put_back(fixture)?;
        reset?;
    }
    Ok(())
}

/// Has the device vanish, which the guest has to take for what it is.
fn tear_out(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let mark = guest.mark()?;
    guest.tear_out(VsockDevice::First)?;
    fixture.wait_for_drivers("the guest to have no device", &[])?;
    // The slot's driver says which way it went; of an orderly removal it says that the button was
    // pressed, and then nothing.
    let said = guest.klog_since(mark)?;
    let said = |word: &str| said.iter().any(|record| record.text.contains(word));
    let surprised = said("Card not present") || said("Link Down");
    ensure!(
        surprised && !said("utton"),
        "the guest was asked for its device; that is no surprise"
    );
    Ok(())
}

fn put_back(fixture: &Fixture<'_>) -> Result<()> {
    fixture.guest().plug(VsockDevice::First)?;
    fixture.wait_bound()
}
