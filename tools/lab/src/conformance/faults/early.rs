// SPDX-License-Identifier: GPL-2.0
//! A device that acts the moment it may.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::RigKind;

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::conformance::blocking::hold;
use crate::conformance::device::Device;

/// Seconds in which a request has to be answered.
const WITHIN: f64 = 0.2;

/// The first port of the host's. Each request has one of its own, because the guest may still have the
/// socket of one before.
const FIRST: u32 = 7000;

/// The longest that a driver may take to find its device, and the script to end.
const LONGEST: Duration = Duration::from_secs(60);

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let case = |what: &str, requests: u32| {
        let name =
            format!("{what} in the first RX buffers that the driver posts: all are answered");
        Case::new(name, move |fixture| first_buffers(fixture, requests)).only_on([RigKind::Wire])
    };
    vec![case("one request", 1), case("eight requests", 8)]
}

/// Each time the driver takes the device, that interrupts both queues before they have a buffer, and
/// then fills the first buffers as soon as it sees them, without waiting to be told of them. Nothing
/// comes after these requests that could help.
fn first_buffers(fixture: &Fixture<'_>, requests: u32) -> Result<()> {
    let (hold, port) = hold(fixture.guest(), &["--again"])?;
    for round in 0..fixture.rounds(5, 50, 500) {
        let binding = || -> Result<_> {
            let driver_device = fixture.device()?;
            fixture.unbind(&driver_device)?;
            let device = Device::of(fixture)?;
            let script = device.run(&script(FIRST + round * requests, requests, port))?;
            fixture.bind(&driver_device)?;
            device.finish(script, LONGEST)
        };
        let report = binding().with_context(|| format!("in round {round}"))?;
        let answered = report.answers.get("others");
        let answered = answered
            .and_then(|answers| answers.get("response"))
            .copied();
        ensure!(
            answered == Some(u64::from(requests)),
            "in round {round} the guest answered {:?}",
            report.answers
        );
        ensure!(
            report.slowest <= WITHIN,
            "in round {round} the last answer came after {:.3} s",
            report.slowest
        );
    }
    hold.kill()?;
    Ok(())
}

fn script(from: u32, requests: u32, port: u32) -> String {
    format!(
        "
notify rx
notify tx
repeat {requests}
  send op=request src_port={from}+i dst_port={port}
end
wait op=response count={requests}
"
    )
}
