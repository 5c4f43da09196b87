// SPDX-License-Identifier: GPL-2.0
//! Ends of connections never overtake their data.

use anyhow::Result;
use vsock_peer::plan::{End, Kind};

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::transfer::{Direction, Transfer};

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let ways = [
        (Direction::ToGuest, "to the guest"),
        (Direction::FromGuest, "from the guest"),
    ];
    ways.into_iter()
        .flat_map(|(direction, way)| {
            [
                Case::new(
                    format!("{way}: 1 MiB and a close at once, towards a slow reader"),
                    move |fixture| close_at_once(fixture, direction),
                ),
                Case::new(
                    format!("{way}: a long stream after the other direction was shut down"),
                    move |fixture| after_half_close(fixture, direction),
                ),
            ]
        })
        .collect()
}

fn close_at_once(fixture: &Fixture<'_>, direction: Direction) -> Result<()> {
    for (write_size, read_size) in [(65_536, 100), (4096, 1000), (200, 4096)] {
        let mut transfer = Transfer::new(Kind::Stream, direction, write_size, 1 << 20);
        transfer.read_size = read_size;
        transfer.end = End::Close;
        // The sender is done and closed before the reader has read the first byte of the last part.
        transfer.habits.read_when_full = true;
        fixture.transfer(&transfer)?;
    }
    // All of it is in the reader's buffer, and the close behind it, before the first read.
    let mut transfer = Transfer::new(Kind::Stream, direction, 4096, 1 << 20);
    transfer.buffer_size = Some(2 << 20);
    transfer.end = End::Close;
    transfer.habits.read_when_full = true;
    fixture.transfer(&transfer)
}

fn after_half_close(fixture: &Fixture<'_>, direction: Direction) -> Result<()> {
    let bytes = fixture.rounds(1 << 20, 8 << 20, 100 << 20);
    let mut transfer = Transfer::new(Kind::Stream, direction, 65_536, bytes);
    transfer.habits.mute = true;
    fixture.transfer(&transfer)
}
