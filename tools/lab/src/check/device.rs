// SPDX-License-Identifier: GPL-2.0
//! Devices that come and go while the driver is loaded.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::{Mark, VsockDevice};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, Subject, until};
use crate::transfer::{Direction, Transfer, report};

/// How soon the programs whose connections the device carried have to notice that it is gone.
const NOTICE: Duration = Duration::from_secs(20);

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "a second device is refused, and the first one keeps working",
            second,
        )
        .provokes([
            r"virtio_vsock_rs .*second",
            r"probe with driver \S+ failed with error -16",
        ]),
        Case::new("a device without its queues is refused", crippled).provokes([
            r"virtio_vsock_rs .*queues",
            r"probe with driver \S+ failed with error -(2|22)$",
        ]),
        Case::new(
            "its device is pulled out and put back, and works again",
            out_and_in,
        ),
        Case::new(
            "its device is pulled out under traffic, and nothing hangs",
            out_under_traffic,
        ),
    ];
    cases.into_iter().map(Case::debug).collect()
}

fn works(fixture: &Fixture<'_>, when: &'static str) -> Result<()> {
    fixture.works().context(when)
}

/// The driver's word of a refusal; the C driver refuses without one.
fn wait_for_word(fixture: &Fixture<'_>, mark: Mark, word: &str) -> Result<()> {
    if fixture.subject == Subject::C {
        return Ok(());
    }
    let what = format!("a message of ours with the word {word:?}");
    let said = fixture.guest().wait_klog(&what, mark, PATIENCE, |record| {
        let ours = record.text.starts_with(fixture.subject.driver().name());
        (ours && record.text.contains(word)).then_some(())
    });
    Ok(said?)
}

fn second(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let driver = fixture.subject.driver();
    let mark = guest.mark()?;
    guest.plug(VsockDevice::Second)?;
    let both = [Some(driver.name()), None];
    let seen = fixture.wait_for_drivers("the guest to see its second device", &both);
    let said = wait_for_word(fixture, mark, "second");
    let beside = works(fixture, "beside the second device");
    guest.unplug(VsockDevice::Second)?;
    seen.and(said).and(beside)?;
    works(fixture, "after the second device was pulled out")
}

/// It is tried as the only device, because a second one is refused for being that.
fn crippled(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    guest.unplug(VsockDevice::First)?;
    let mark = guest.mark()?;
    guest.plug(VsockDevice::Crippled)?;
    let seen = fixture.wait_for_drivers("the guest to see the crippled device", &[None]);
    let said = wait_for_word(fixture, mark, "queues");
    guest.unplug(VsockDevice::Crippled)?;
    let back = put_back(fixture);
    seen.and(said).and(back)
}

fn out_and_in(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    guest.unplug(VsockDevice::First)?;
    let left = fixture.bound_drivers()?;
    ensure!(
        left.is_empty(),
        "the device is out, and the guest still has {left:?}"
    );
    put_back(fixture)
}

fn put_back(fixture: &Fixture<'_>) -> Result<()> {
    fixture.guest().plug(VsockDevice::First)?;
    let driver = fixture.subject.driver();
    fixture.wait_for_drivers(
        "the driver to take the device again",
        &[Some(driver.name())],
    )?;
    works(fixture, "after the device was put back")
}

fn out_under_traffic(fixture: &Fixture<'_>) -> Result<()> {
    // More than it can move before it is pulled out.
    let endless = Transfer::new(Kind::Stream, Direction::BothWays, 4096, 1 << 40).over(4);
    let running = fixture.begin(&endless)?;
    let module = fixture.subject.driver();
    until("the connections to stand", PATIENCE, || {
        let modules = fixture.guest().modules()?;
        let held = |info: &rig::ModuleInfo| info.name == module.name() && info.references >= 4;
        Ok(modules.iter().any(held).then_some(()))
    })?;
    let pulled = fixture.guest().unplug(VsockDevice::First);
    let noticed = report(running.guest, NOTICE).context("the guest's end of the connections");
    running.far.kill()?;
    pulled?;
    let back = put_back(fixture);
    let noticed = noticed?;
    ensure!(
        !noticed.exact,
        "the transfer ended in order before the device was pulled out"
    );
    let errors = noticed.complaints().join("\n");
    ensure!(
        !errors.contains("still in"),
        "somebody hung on to the dead connection:\n{errors}"
    );
    back
}
