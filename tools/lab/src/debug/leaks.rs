// SPDX-License-Identifier: GPL-2.0
//! What the driver has allocated and lost, by kmemleak.

use std::time::Duration;

use anyhow::{Result, bail};
use rig::VsockDevice;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, until};
use crate::case::mode::Mode;

const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// kmemleak says nothing of what is younger than five seconds.
const AGE: Duration = Duration::from_secs(6);

/// A scan of a guest's whole memory takes its time under emulation.
const SCAN: Duration = Duration::from_secs(120);

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![Case::new(
        "loading, traffic in each mode, and a device that comes and goes lose no memory",
        |fixture| around(fixture, || life(fixture)),
    )]
}

/// Does some work, and fails if anything that was allocated meanwhile is lost once the driver is gone.
pub(super) fn around(fixture: &Fixture<'_>, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let has = fixture.guest_shell(&format!("test -e {KMEMLEAK} && echo yes; true"))?;
    if has.text().trim() != "yes" {
        return work();
    }
    // What was lost before is not this work's affair.
    command(fixture, "scan")?;
    command(fixture, "clear")?;
    work()?;
    fixture.unload()?;
    std::thread::sleep(AGE);
    // A pointer that the first scan meets in a register or on a stack may be gone by the second.
    command(fixture, "scan")?;
    command(fixture, "scan")?;
    let lost = fixture.guest().read_text(KMEMLEAK)?;
    fixture.reload([])?;
    if lost.contains("unreferenced object") {
        bail!("kmemleak reports:\n{lost}");
    }
    Ok(())
}

fn command(fixture: &Fixture<'_>, word: &str) -> Result<()> {
    let line = format!("echo {word} > {KMEMLEAK}");
    let output = fixture.guest().run(["sh", "-c", &line], SCAN)?;
    output.success()?;
    Ok(())
}

fn life(fixture: &Fixture<'_>) -> Result<()> {
    for mode in Mode::ALL {
        fixture.reload([])?;
        fixture.switch(mode)?;
        fixture.works()?;
    }
    fixture.guest().unplug(VsockDevice::First)?;
    fixture.guest().plug(VsockDevice::First)?;
    let wanted = [Some(fixture.subject.driver().name().to_owned())];
    until("the driver to take the device again", PATIENCE, || {
        Ok((fixture.bound_drivers()? == wanted).then_some(()))
    })?;
    fixture.works()
}
