// SPDX-License-Identifier: GPL-2.0
//! The guest's device, which is the wire's: what it is told to do, and what it counts.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::{Machine, Script, Wire};
use serde_json::Value;
use vsock_wire::hostile::report::Report;

use crate::case::fixture::Fixture;
use crate::hostile::stage::report_of;

/// The wire at the side of the guest under test.
#[derive(Clone, Copy)]
pub(super) struct Device<'a> {
    wire: &'a Wire,
    guest: &'a Machine,
}

impl<'a> Device<'a> {
    /// That of the guest under test.
    pub(super) fn of(fixture: &Fixture<'a>) -> Result<Self> {
        Ok(Self {
            wire: fixture.pair.wire().context("this rig has no wire")?,
            guest: fixture.guest(),
        })
    }

    /// Has it do what a script says, until that is over or dropped.
    pub(super) fn run(&self, script: &str) -> Result<Script> {
        Ok(self.wire.run(self.guest.cid(), script)?)
    }

    /// Waits for a script's end, which has to be its own.
    pub(super) fn finish(&self, mut script: Script, patience: Duration) -> Result<Report> {
        let report = report_of(&mut script, self.guest, patience)?;
        ensure!(
            report.error.is_none(),
            "the device: {}; it heard {:?}",
            report.error.as_deref().unwrap_or_default(),
            report.answers
        );
        Ok(report)
    }

    /// What it has counted.
    pub(super) fn counts(&self) -> Result<Counts> {
        let all: Value = serde_json::from_str(&self.wire.stats()?)?;
        let port = entry(&all["ports"], "cid", self.guest.cid());
        let port = port.with_context(|| format!("the wire has no such port: {all}"))?;
        Ok(Counts(port.clone()))
    }
}

/// What the device has counted for the guest up to a moment.
pub(super) struct Counts(Value);

impl Counts {
    /// Buffers of the guest that it has filled.
    pub(super) fn filled(&self) -> Result<u64> {
        self.number(&self.0["rx_queue"]["used"])
    }

    /// Times that the guest's driver has let go of it.
    pub(super) fn stops(&self) -> Result<u64> {
        self.number(&self.0["stops"])
    }

    /// Buffers of the guest's packets that it keeps.
    pub(super) fn kept(&self) -> Result<u64> {
        self.number(&self.0["holding"])
    }

    /// Packets with payload that the service at a port has sent.
    pub(super) fn sent_by(&self, port: u32) -> Result<u64> {
        let service = entry(&self.0["services"], "port", port);
        self.number(service.map_or(&Value::Null, |service| &service["packets_out"]))
    }

    fn number(&self, value: &Value) -> Result<u64> {
        let number = value.as_u64();
        number.with_context(|| format!("the wire did not count that: {}", self.0))
    }
}

fn entry<'a>(list: &'a Value, key: &str, number: u32) -> Option<&'a Value> {
    let mut entries = list.as_array()?.iter();
    entries.find(|entry| entry[key] == number)
}
