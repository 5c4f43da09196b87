// SPDX-License-Identifier: GPL-2.0
//! Unloading while sockets are open, and loading again and again.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Job, Machine, Program};
use vsock_peer::report::Line;

use crate::case::Case;
use crate::case::fixture::{EAGAIN, EBUSY, Fixture, PATIENCE, until};
use crate::case::memory::Memory;
use crate::transfer::smoke;

/// Times the driver is loaded in all.
const RELOADS: usize = 50;

/// So often in between memory is measured.
const POINTS: usize = 5;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "unloading is refused while a connection is open",
            refused_while_open,
        )
        .short(),
        Case::new(
            "a listener outlives the driver and serves the next one",
            listener_stays,
        ),
        Case::new(
            "unloading with a connection just closed ends in order",
            just_closed,
        ),
        Case::new(
            format!("{RELOADS} times loaded and unloaded, and no memory is lost"),
            again_and_again,
        ),
    ]
}

/// A connection that stays open and silent: both ends wait for the other to send.
struct Open {
    guest: Job,
    far: Job,
}

fn silent(end: &Machine, place: &[String]) -> Result<Job> {
    let program = Program::new("vsock-peer").args(place.iter().map(String::as_str));
    let program = program.args(["--flow=receive", "--bytes=1", "--timeout=120"]);
    Ok(end.spawn(program)?)
}

fn open(fixture: &Fixture<'_>) -> Result<Open> {
    let (guest, far) = (fixture.guest(), fixture.far());
    let mut listener = silent(far, &["listen".into(), "--port=0".into()])?;
    let port = listener.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
    let place = [
        "connect".into(),
        format!("--cid={}", far.cid()),
        format!("--port={port}"),
    ];
    let connector = silent(guest, &place)?;
    let module = fixture.subject.driver().name().to_owned();
    until("the connection to hold the module", PATIENCE, || {
        let modules = guest.modules()?;
        let held = modules
            .iter()
            .any(|info| info.name == module && info.references > 0);
        if let Some(exit) = connector.exit() {
            bail!("the connection ended ({exit}): {}", connector.tail());
        }
        Ok(held.then_some(()))
    })?;
    Ok(Open {
        guest: connector,
        far: listener,
    })
}

fn refused_while_open(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.guest();
    let name = fixture.subject.driver().name().to_owned();
    let connection = open(fixture)?;
    match guest.rmmod(&name) {
        Ok(()) => bail!("the module was unloaded under an open connection"),
        Err(error) => match error.errno() {
            Some(EAGAIN | EBUSY) => {}
            _ => return Err(error).context("unloading failed otherwise than by EAGAIN or EBUSY"),
        },
    }
    ensure!(
        connection.guest.exit().is_none(),
        "the refused unload ended the connection"
    );
    connection.guest.kill()?;
    connection.far.kill()?;
    fixture.unload()?;
    fixture.reload([])
}

fn listener_stays(fixture: &Fixture<'_>) -> Result<()> {
    let (guest, far) = (fixture.guest(), fixture.far());
    let transfer = ["--flow=receive", "--bytes=100000", "--timeout=60"];
    let listener = Program::new("vsock-peer")
        .args(["listen", "--port=0"])
        .args(transfer);
    let mut listener = guest.spawn(listener)?;
    let port = listener.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
    fixture
        .reload([])
        .context("exchanging the driver under a listener")?;
    let connector = Program::new("vsock-peer")
        .args(["connect", "--flow=send", "--bytes=100000"])
        .args([format!("--cid={}", guest.cid()), format!("--port={port}")]);
    let sent = far.run(connector, PATIENCE)?;
    sent.success()
        .context("sending to the listener that stayed")?;
    listener.wait(Duration::from_secs(60))?.success()?;
    Ok(())
}

fn just_closed(fixture: &Fixture<'_>) -> Result<()> {
    for transfer in smoke() {
        fixture.transfer(&transfer)?;
        fixture.unload()?;
        fixture.reload([])?;
    }
    Ok(())
}

fn again_and_again(fixture: &Fixture<'_>) -> Result<()> {
    // The first rounds fill caches that stay; after them, memory has to stand still.
    let rounds = |count: usize| -> Result<Memory> {
        for round in 0..count {
            fixture.reload([])?;
            if round % 5 == 0 {
                fixture
                    .works()
                    .with_context(|| format!("in round {round}"))?;
            }
        }
        fixture.unload()?;
        Memory::of(fixture.guest())
    };
    let stretch = RELOADS / POINTS;
    let mut points = Vec::new();
    for _ in 0..POINTS {
        points.push(rounds(stretch)?);
    }
    let lost = Memory::lost(&points, stretch);
    ensure!(
        lost.is_empty(),
        "memory grew with every reload:\n{}",
        lost.join("\n")
    );
    Ok(())
}
