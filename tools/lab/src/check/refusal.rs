// SPDX-License-Identifier: GPL-2.0
//! What the driver refuses: one clear message, a clean error, nothing half-registered.

use anyhow::{Context as _, Result, ensure};
use rig::{Driver, KlogRecord};

use crate::case::Case;
use crate::case::fixture::{EBUSY, Fixture};

const EINVAL: i32 = 22;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let ours = |case: Case| case.ours_only().provokes([r"^virtio_vsock_rs"]);
    vec![
        ours(Case::new(
            "with the C driver loaded it names it, and how to unload it",
            beside_c,
        ))
        .short(),
        ours(Case::new(
            "load parameters out of range are named, with EINVAL",
            out_of_range,
        ))
        .short(),
        ours(Case::new(
            "load parameters at their bounds are taken",
            at_the_bounds,
        )),
        ours(Case::new(
            "a load parameter that does not exist changes nothing",
            unknown_parameter,
        ))
        .provokes([r"unknown parameter"]),
    ]
}

/// Tries to load the driver, which has to fail; returns the error number and its messages.
fn refused(fixture: &Fixture<'_>, parameters: &[&str]) -> Result<(i32, Vec<KlogRecord>)> {
    let guest = fixture.guest();
    let name = Driver::rust().name().to_owned();
    let mark = guest.mark()?;
    let result = guest.insmod(&name, parameters);
    let errno = match result {
        Ok(()) => {
            guest.rmmod(&name)?;
            anyhow::bail!("it loaded with {parameters:?}");
        }
        Err(error) => match error.errno() {
            Some(errno) => errno,
            None => return Err(error.into()),
        },
    };
    ensure!(
        !guest.has_module(&name)?,
        "refused with error {errno}, and still loaded"
    );
    let said: Vec<_> = guest
        .klog_since(mark)?
        .into_iter()
        .filter(|record| record.text.starts_with("virtio_vsock_rs"))
        .collect();
    let left = fixture.guest_shell(
        "ls -d /sys/kernel/debug/virtio_vsock_rs /sys/bus/virtio/drivers/virtio_vsock_rs \
         2>/dev/null; true",
    )?;
    ensure!(
        left.text().is_empty(),
        "left behind by a refused load:\n{}",
        left.text()
    );
    Ok((errno, said))
}

/// The one message that a refusal has.
fn only(said: &[KlogRecord]) -> Result<&str> {
    let texts: Vec<&str> = said.iter().map(|record| record.text.as_str()).collect();
    ensure!(
        texts.len() == 1,
        "one message was expected, there are {}: {texts:#?}",
        texts.len()
    );
    Ok(texts[0])
}

fn beside_c(fixture: &Fixture<'_>) -> Result<()> {
    let c = Driver::c();
    fixture.use_driver(&c)?;
    let (errno, said) = refused(fixture, &[])?;
    ensure!(errno == EBUSY, "the error is {errno}, not EBUSY");
    let message = only(&said)?;
    for needed in [c.name(), "modprobe -r"] {
        ensure!(
            message.contains(needed),
            "the message does not say {needed:?}: {message}"
        );
    }
    fixture.works().context("the C driver, after the refusal")?;
    fixture.reload([])?;
    fixture.works().context("after the C driver was unloaded")
}

fn out_of_range(fixture: &Fixture<'_>) -> Result<()> {
    fixture.unload()?;
    for (name, value) in [
        ("rx_batch_packets", "0"),
        ("rx_batch_packets", "1025"),
        ("rx_batch_bytes", "0"),
        ("rx_batch_bytes", "1048577"),
    ] {
        let parameter = format!("{name}={value}");
        let (errno, said) = refused(fixture, &[&parameter])?;
        ensure!(
            errno == EINVAL,
            "{parameter}: the error is {errno}, not EINVAL"
        );
        let message = only(&said).with_context(|| parameter.clone())?;
        for needed in [name, value] {
            ensure!(
                message.contains(needed),
                "{parameter}: the message lacks {needed:?}: {message}"
            );
        }
    }
    fixture.reload([])
}

fn at_the_bounds(fixture: &Fixture<'_>) -> Result<()> {
    for parameters in [
        ["rx_batch_packets=1", "rx_batch_bytes=1"],
        ["rx_batch_packets=1024", "rx_batch_bytes=1048576"],
    ] {
        fixture.reload(parameters)?;
        fixture.works().with_context(|| parameters.join(" "))?;
    }
    fixture.reload([])
}

/// The kernel itself ignores it, with a message; the driver has to work all the same.
fn unknown_parameter(fixture: &Fixture<'_>) -> Result<()> {
    fixture.reload(["no_such_parameter=1"])?;
    fixture.works()?;
    fixture.reload([])
}
