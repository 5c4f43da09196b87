// SPDX-License-Identifier: GPL-2.0
//! The credit of streams: small writes, unusual reads, a window that shrinks.

use std::time::Duration;

use anyhow::Result;
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::{Fixture, Length};
use crate::transfer::{Direction, Transfer};

/// Writes on both sides of what drivers copy together, and of a power of two.
const SMALL_WRITES: [usize; 9] = [1, 64, 100, 128, 129, 200, 300, 452, 512];

/// The kernel's default receive buffer.
const BUFFER: u64 = 256 << 10;

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = SMALL_WRITES.into_iter().map(small_writes).collect();
    cases.extend([1, 1000, 65_537].map(reads));
    cases.push(Case::new(
        "a reader with SO_RCVLOWAT a byte below its buffer, the most there is, gets all",
        lowat,
    ));
    cases.push(Case::new(
        "a peer's full window shrinks below what is in flight, and traffic resumes",
        shrink,
    ));
    cases
}

fn small_writes(size: usize) -> Case {
    let name = format!(
        "writes of {size} bytes to a sleeping reader: it finds its buffer full of them, and the rest"
    );
    let case = Case::new(name, move |fixture| {
        // The kernel accounts some 600 bytes of overhead to a packet: whatever the size of the buffer,
        // packets that are not merged are too many for it long before it is full.
        let (buffer, bytes) = match fixture.length {
            Length::Full => (BUFFER, 2 << 20),
            _ if size < 64 => (8 << 10, 32 << 10),
            _ if size < 100 => (64 << 10, 256 << 10),
            _ => (BUFFER, 1 << 20),
        };
        let mut transfer = Transfer::new(Kind::Stream, Direction::ToGuest, size, bytes);
        transfer.buffer_size = Some(buffer);
        transfer.habits.read_when_full = true;
        transfer.timeout = Duration::from_secs(fixture.rounds(60, 60, 600));
        fixture.transfer(&transfer)
    });
    match size {
        100 | 452 => case.quick(),
        _ => case,
    }
}

fn reads(size: usize) -> Case {
    let name = format!("a one-way stream to the guest with reads of {size} bytes does not stall");
    Case::new(name, move |fixture| {
        let bytes = match size {
            1 => fixture.rounds(16 << 10, 64 << 10, 16 << 20),
            _ => fixture.rounds(1 << 20, 8 << 20, 1 << 30),
        };
        let mut transfer = Transfer::new(Kind::Stream, Direction::ToGuest, 65_536, bytes);
        transfer.read_size = size;
        transfer.timeout = Duration::from_secs(fixture.rounds(60, 60, 1200));
        fixture.transfer(&transfer)
    })
}

fn lowat(fixture: &Fixture<'_>) -> Result<()> {
    for write_size in [100, 4096, 65_536] {
        let bytes = fixture
            .rounds(1 << 20, 2 << 20, 256 << 20)
            .min(write_size as u64 * 200_000);
        let mut transfer = Transfer::new(Kind::Stream, Direction::ToGuest, write_size, bytes);
        transfer.read_size = BUFFER as usize - 1;
        transfer.habits.rcvlowat = Some(BUFFER as i32 - 1);
        transfer.timeout = Duration::from_secs(fixture.rounds(60, 60, 600));
        fixture.transfer(&transfer)?;
    }
    Ok(())
}

fn shrink(fixture: &Fixture<'_>) -> Result<()> {
    for to in [4096, 100_000] {
        // What is left crosses in windows of this size.
        let bytes = BUFFER + (to * 500).min(4 << 20);
        let mut transfer = Transfer::new(Kind::Stream, Direction::FromGuest, 4096, bytes);
        transfer.habits.read_when_full = true;
        transfer.habits.shrink = Some(to);
        fixture.transfer(&transfer)?;
    }
    Ok(())
}
