// SPDX-License-Identifier: GPL-2.0
//! The driver and its device are parted and joined.

use anyhow::{Context as _, Result};
use rig::{Program, RigKind};
use vsock_peer::report::Line;

use super::blocked::Blocked;
use super::rounds::{leaves_nothing, rounds};
use super::traffic::{Attempts, BULK, Shape};
use crate::case::Case;
use crate::case::fixture::{Fixture, PATIENCE};
use crate::conformance::device::Device;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "unbound and bound again and again, every connection notices and the next one works",
            unbind,
        )
        .quick()
        .short(),
        Case::new(
            "unbound and bound again and again under a storm of connections from both sides",
            unbind_in_a_storm,
        ),
        Case::new(
            "blocked recv() and send() see ECONNRESET when the driver is unbound",
            blocked,
        ),
        Case::new(
            "a socket that was reset takes nothing of its peer's any more, which is told",
            nothing_more,
        )
        .only_on([RigKind::Wire])
        .quick(),
        Case::new(
            "unloaded and loaded again and again under a storm of attempts to connect",
            reload,
        ),
    ]
}

fn blocked(fixture: &Fixture<'_>) -> Result<()> {
    for _ in 0..fixture.rounds(1, 3, 50) {
        let device = fixture.device()?;
        let blocked = Blocked::begin(fixture)?;
        fixture.unbind(&device)?;
        let reset = blocked.all_reset();
        fixture.bind(&device)?;
        fixture.wait_bound()?;
        reset?;
    }
    Ok(())
}

/// What the device does that the socket is connected to, with the port in the place of PORT: it goes on
/// after it was reset, as if it knew nothing of that.
const UNKNOWING: &str = "
    accept a at=PORT
    wait reset within=60000
    send a payload=100
    wait a op=rst within=20000";

/// The driver cannot tell the peer when the device is taken from it. The socket stays with its program,
/// and with the addresses by which a packet is found to be for it.
fn nothing_more(fixture: &Fixture<'_>) -> Result<()> {
    const PORT: &str = "5000";
    let (wire, device) = (Device::of(fixture)?, fixture.device()?);
    let script = wire.run(&UNKNOWING.replace("PORT", PORT))?;
    let hold = Program::from(["vsock-peer", "hold", "--connect", PORT, "--read"]);
    let mut hold = fixture.guest().spawn(hold)?;
    hold.wait_line("a connection", PATIENCE, |line| {
        let said = serde_json::from_str(line);
        matches!(said, Ok(Line::Held { .. })).then_some(())
    })?;
    fixture.unbind(&device)?;
    hold.wait_line("the connection's end", PATIENCE, |line| {
        let said = serde_json::from_str(line);
        matches!(said, Ok(Line::Ended { how, .. }) if how == "ECONNRESET").then_some(())
    })?;
    fixture.bind(&device)?;
    wire.finish(script, PATIENCE)?;
    hold.kill()?;
    Ok(())
}

fn unbind(fixture: &Fixture<'_>) -> Result<()> {
    unbind_under(fixture, BULK)
}

/// Connections are being made at the very moment at which the others are reset: each is over after a few
/// packets.
fn unbind_in_a_storm(fixture: &Fixture<'_>) -> Result<()> {
    let storm = Shape {
        connections: 4,
        bytes: 20_000,
        write_size: 4096,
    };
    unbind_under(fixture, storm)
}

fn unbind_under(fixture: &Fixture<'_>, shape: Shape) -> Result<()> {
    rounds(fixture, shape, fixture.rounds(5, 20, 200), |traffic| {
        let device = fixture.device()?;
        let before = traffic.seen()?;
        fixture.unbind(&device)?;
        traffic.all_noticed("every connection to notice that the driver left its device")?;
        fixture.bind(&device)?;
        traffic.flows("traffic after the driver was bound again", &before)
    })
}

/// Each attempt of the far side's is refused by a driver that is there. Nothing in the guest keeps the
/// module, so that it can go at any moment of the storm.
fn reload(fixture: &Fixture<'_>) -> Result<()> {
    let driver = fixture.subject.driver();
    let half = fixture.rounds(1, 4, 45);
    leaves_nothing(fixture, half / 4 + 1, half, |rounds| {
        let attempts = Attempts::begin(fixture)?;
        for round in 1..=rounds {
            let reload = || -> Result<()> {
                fixture.unload()?;
                fixture.guest().insmod(driver.name(), driver.parameters())?;
                fixture.wait_bound()?;
                attempts.refused_more(5)
            };
            reload().with_context(|| format!("in round {round}"))?;
        }
        attempts.end()
    })
}
