// SPDX-License-Identifier: GPL-2.0
//! Loading, binding, and what the driver shows of itself.

use anyhow::{Context as _, Result, ensure};
use rig::Driver;

use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE, Subject};

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("it loads and binds the vsock device", binds).short(),
        Case::new("the guest has the CID that its device was given", cid).short(),
        Case::new("unloading with nothing open leaves nothing behind", unloads).short(),
        Case::new(
            "both switches are on, can be read, and take 0 and 1 only",
            switches,
        )
        .ours_only(),
        Case::new(
            "the load parameter tx_fast_path=0 is taken",
            fast_path_parameter,
        )
        .ours_only(),
        Case::new(
            "the C driver works after it, and it after the C driver",
            back_and_forth,
        )
        .short(),
    ]
}

fn binds(fixture: &Fixture<'_>) -> Result<()> {
    fixture.reload([])?;
    let wanted = fixture.subject.driver();
    let bound = fixture.bound_drivers()?;
    ensure!(
        bound == [Some(wanted.name().to_owned())],
        "{} is loaded; its devices' drivers are {bound:?}",
        wanted.name()
    );
    Ok(())
}

fn cid(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let output = guest.run(["vsock-peer", "cid"], PATIENCE)?.success()?;
    let shown = output.text();
    let given = format!("{{\"cid\":{}}}", guest.cid());
    ensure!(
        shown.trim() == given,
        "the device was given {given}, the guest shows {shown}"
    );
    Ok(())
}

fn unloads(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let name = fixture.subject.driver().name().to_owned();
    guest.rmmod(&name)?;
    ensure!(!guest.has_module(&name)?, "{name} is still loaded");
    let bound = fixture.bound_drivers()?;
    ensure!(bound == [None], "the device is still bound to {bound:?}");
    let left = fixture.guest_shell(
        "ls -d /sys/kernel/debug/virtio_vsock_rs /sys/bus/virtio/drivers/*vsock* 2>/dev/null; true",
    )?;
    ensure!(left.text().is_empty(), "left behind:\n{}", left.text());
    fixture.reload([])
}

fn switches(fixture: &Fixture<'_>) -> Result<()> {
    for name in ["rx_batch", "tx_fast_path"] {
        let shown = fixture.switched(name)?;
        ensure!(shown == "1", "{name} shows {shown:?} after loading");
        for value in ["0", "1"] {
            fixture.write_switch(name, value)?;
            let shown = fixture.switched(name)?;
            ensure!(
                shown == value,
                "{name} shows {shown:?} after writing {value}"
            );
        }
        for rubbish in ["2", "-1", "maybe", ""] {
            // An empty write does not reach the driver at all.
            let refused = fixture.write_switch(name, rubbish).is_err() || rubbish.is_empty();
            let shown = fixture.switched(name)?;
            ensure!(refused, "{name} took {rubbish:?} and shows {shown:?}");
            ensure!(
                shown == "1",
                "{name} shows {shown:?} after refusing {rubbish:?}"
            );
        }
    }
    Ok(())
}

fn fast_path_parameter(fixture: &Fixture<'_>) -> Result<()> {
    fixture.reload(["tx_fast_path=0"])?;
    let shown = fixture.switched("tx_fast_path")?;
    fixture.reload([])?;
    ensure!(shown == "0", "tx_fast_path shows {shown:?}");
    Ok(())
}

fn back_and_forth(fixture: &Fixture<'_>) -> Result<()> {
    let (ours, other) = match fixture.subject {
        Subject::Rust => (Driver::rust(), Driver::c()),
        Subject::C => (Driver::c(), Driver::c()),
    };
    for driver in [&other, &ours] {
        fixture.use_driver(driver)?;
        fixture
            .works()
            .with_context(|| format!("with {}", driver.name()))?;
    }
    Ok(())
}
