// SPDX-License-Identifier: GPL-2.0
//! SEQPACKET messages of all sizes, and a device without them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::GuestSetup;
use vsock_peer::block::Blocking;
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::conformance::blocking::{block, hold, woken};
use crate::transfer::{Direction, Transfer};

/// The longest message: as long as the kernel's default receive buffer, and some sixty times a receive
/// buffer of the ring.
const LONGEST: usize = 256 << 10;

/// A receive buffer that holds many small messages, whose overhead the kernel accounts, too.
const ROOMY: u64 = 4 << 20;

/// What makes a program's sockets SEQPACKET.
const SEQPACKET: [&str; 1] = ["--type=seqpacket"];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let of = |eor: bool| {
        let with = if eor { "with" } else { "without" };
        let name = format!("messages of 1 B to 256 KiB {with} MSG_EOR, both ways");
        Case::new(name, move |fixture| {
            let mut transfer = mixed(fixture, Direction::BothWays);
            transfer.eor = eor;
            fixture.transfer(&transfer)
        })
    };
    let without = GuestSetup::default().without_seqpacket();
    vec![
        of(true),
        of(false),
        Case::new(
            "MSG_PEEK shows a message, and MSG_TRUNC its real length",
            looks,
        ),
        Case::new(
            "without SEQPACKET in the device, such connections are refused and streams work",
            refused,
        )
        .setup(without),
    ]
}

fn mixed(fixture: &Fixture<'_>, direction: Direction) -> Transfer {
    let bytes = fixture.rounds(1 << 20, 4 << 20, 64 << 20);
    let mut transfer = Transfer::new(Kind::Seqpacket, direction, LONGEST, bytes);
    transfer.buffer_size = Some(ROOMY);
    transfer.habits.mixed = true;
    transfer.timeout = Duration::from_secs(fixture.rounds(60, 60, 600));
    transfer
}

fn looks(fixture: &Fixture<'_>) -> Result<()> {
    for direction in [Direction::ToGuest, Direction::FromGuest] {
        for (peek, truncate) in [(true, false), (false, true), (true, true)] {
            let mut transfer = mixed(fixture, direction);
            transfer.habits.peek = peek;
            transfer.habits.truncate = truncate;
            let how = format!("MSG_PEEK {peek}, MSG_TRUNC {truncate}");
            fixture.transfer(&transfer).context(how)?;
        }
    }
    Ok(())
}

fn refused(fixture: &Fixture<'_>) -> Result<()> {
    let (guest, far) = (fixture.guest(), fixture.far());
    for (from, to) in [(guest, far), (far, guest)] {
        let (hold, port) = hold(to, &SEQPACKET)?;
        let job = block(from, Blocking::Connect, (to.cid(), port), &SEQPACKET)?;
        let errno = woken(job)?.errno;
        let name = from.name();
        ensure!(
            errno.is_some(),
            "a SEQPACKET connection from {name} was made over a device that has none"
        );
        if from.name() == guest.name() {
            ensure!(
                errno.as_deref() != Some("ETIMEDOUT"),
                "the guest found out by a time-out only"
            );
        }
        hold.kill()?;
    }
    for transfer in crate::transfer::smoke() {
        if transfer.kind == Kind::Stream {
            fixture.transfer(&transfer)?;
        }
    }
    Ok(())
}
