// SPDX-License-Identifier: GPL-2.0
//! The guest's vsock devices, and which driver each of them has.

use anyhow::{Result, bail};
use vsock_peer::report::Line;

use super::fixture::{Fixture, PATIENCE, until};

impl Fixture<'_> {
    /// The name of the driver of each vsock device that the guest has; none if nothing is bound to it.
    pub(crate) fn bound_drivers(&self) -> Result<Vec<Option<String>>> {
        let devices = self.vsock_devices()?.into_iter();
        Ok(devices.map(|(_, driver)| driver).collect())
    }

    /// The kernel's name of the guest's one vsock device, which the driver under test has.
    pub(crate) fn device(&self) -> Result<String> {
        let driver = self.subject.driver();
        match &self.vsock_devices()?[..] {
            [(name, Some(bound))] if bound == driver.name() => Ok(name.clone()),
            others => bail!(
                "one vsock device of {} was expected; there are: {others:?}",
                driver.name()
            ),
        }
    }

    /// Parts the driver under test from a device.
    pub(crate) fn unbind(&self, device: &str) -> Result<()> {
        self.put_device("unbind", device)
    }

    /// Gives a device to the driver under test.
    pub(crate) fn bind(&self, device: &str) -> Result<()> {
        self.put_device("bind", device)
    }

    /// Waits until the guest's vsock devices have these drivers.
    pub(crate) fn wait_for_drivers(&self, what: &str, wanted: &[Option<&str>]) -> Result<()> {
        until(what, PATIENCE, || {
            let bound = self.bound_drivers()?;
            let bound: Vec<Option<&str>> = bound.iter().map(Option::as_deref).collect();
            Ok((bound == wanted).then_some(()))
        })
    }

    /// Waits until the driver under test is bound to the guest's one device.
    pub(crate) fn wait_bound(&self) -> Result<()> {
        let driver = self.subject.driver();
        self.wait_for_drivers("the driver to take the device", &[Some(driver.name())])
    }

    /// The CID that the guest has now.
    pub(crate) fn shown_cid(&self) -> Result<u32> {
        let output = self.guest().run(["vsock-peer", "cid"], PATIENCE)?;
        let text = output.success()?.text();
        match serde_json::from_str(&text) {
            Ok(Line::Cid(cid)) => Ok(cid),
            _ => bail!("the guest shows no CID: {text}"),
        }
    }

    /// Name and driver of each vsock device, of which there is one type in the standard.
    fn vsock_devices(&self) -> Result<Vec<(String, Option<String>)>> {
        let line = "for d in /sys/bus/virtio/devices/*; do
                if [ \"$(cat $d/device)\" = 0x0013 ]; then
                    echo ${d##*/} $(basename \"$(readlink $d/driver || echo none)\")
                fi
            done";
        let output = self.guest_shell(line)?.text();
        let device = |line: &str| {
            let (name, driver) = line.split_once(' ')?;
            Some((
                name.to_owned(),
                (driver != "none").then(|| driver.to_owned()),
            ))
        };
        Ok(output.lines().filter_map(device).collect())
    }

    fn put_device(&self, file: &str, device: &str) -> Result<()> {
        let driver = self.subject.driver();
        let path = format!("/sys/bus/virtio/drivers/{}/{file}", driver.name());
        Ok(self.guest().write(&path, format!("{device}\n"))?)
    }
}
