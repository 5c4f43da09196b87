// SPDX-License-Identifier: GPL-2.0
//! Sockets that are put into a BPF sockmap, whose protocol is then another one.

use anyhow::{Result, ensure};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::{Fixture, Subject};
use crate::counters::Counters;
use crate::transfer::{Direction, Transfer};

/// Bytes of a transfer, in writes that make many packets.
const BYTES: u64 = 400_000;
const WRITE: usize = 500;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a socket in a sockmap receives everything, without batches",
            whole,
        )
        .quick(),
        Case::new(
            "a socket that is put into a sockmap while it receives loses nothing",
            midway,
        )
        .quick(),
    ]
}

/// Receives in the guest with a socket that is put into a sockmap after so many bytes. Returns what our
/// driver counted.
fn receive(fixture: &Fixture<'_>, after: u64) -> Result<Option<Counters>> {
    let mut transfer = Transfer::new(Kind::Stream, Direction::ToGuest, WRITE, BYTES);
    // What comes before the socket is in the map does not count, and nothing comes before this is read.
    transfer.buffer_size = Some(WRITE as u64 * 8);
    transfer.habits.sockmap = Some(after);
    match fixture.subject {
        Subject::C => fixture.transfer(&transfer).map(|()| None),
        Subject::Rust => {
            let (_, counted) = fixture.counted(|| fixture.transfer(&transfer))?;
            Ok(Some(counted))
        }
    }
}

fn whole(fixture: &Fixture<'_>) -> Result<()> {
    let Some(counted) = receive(fixture, 0)? else {
        return Ok(());
    };
    // The first buffer full may be there before the receiver's program is.
    let before = counted.get("rx_fast_packets")?;
    ensure!(
        before <= 8,
        "{before} packets were taken in batches by a socket that is in a sockmap: {}",
        counted.shown()
    );
    Ok(())
}

fn midway(fixture: &Fixture<'_>) -> Result<()> {
    let Some(counted) = receive(fixture, BYTES / 2)? else {
        return Ok(());
    };
    let (fast, slow) = (
        counted.get("rx_fast_packets")?,
        counted.get("rx_slow_packets")?,
    );
    let half = BYTES / 2 / WRITE as u64;
    ensure!(
        fast >= half / 2 && fast <= half + 16 && slow >= half - 16,
        "of {} packets, half of which came before the socket was in a sockmap, {fast} were taken in \
         batches and {slow} were not: {}",
        2 * half,
        counted.shown()
    );
    Ok(())
}
