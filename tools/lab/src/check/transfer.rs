// SPDX-License-Identifier: GPL-2.0
//! Byte-exact transfers, in every mode of the driver.

use anyhow::Result;
use vsock_peer::plan::{End, Kind};

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::case::mode::Mode;
use crate::transfer::{Direction, Transfer};

/// Write sizes around what the driver decides by: the 64 and 128 bytes up to which
/// payload is copied together, a page, the largest packet, and beyond.
const WRITE_SIZES: [usize; 13] = [
    1, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097, 65536, 200_000,
];

/// The few that the short pass keeps.
const FEW_SIZES: [usize; 4] = [64, 129, 4096, 200_000];

/// Totals from the smallest to the largest, each in writes that suit it.
const TOTALS: [(u64, usize); 8] = [
    (1, 4096),
    (2, 1),
    (127, 128),
    (4097, 4096),
    (65_535, 65_536),
    (65_537, 1000),
    (1_000_001, 4097),
    (64 << 20, 65_536),
];

/// Writes of one transfer: with more of them, small sizes would take minutes under
/// emulation and show nothing new.
const WRITES: u64 = 1500;

/// Most bytes of one transfer of the matrix; [`TOTALS`] has the larger ones.
const MOST: u64 = 4 << 20;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in Mode::ALL {
        for kind in [Kind::Stream, Kind::Seqpacket] {
            cases.extend(matrix(mode, kind));
        }
        cases.push(totals(mode));
    }
    for kind in [Kind::Stream, Kind::Seqpacket] {
        cases.extend(few(kind));
    }
    cases.push(Case::new(
        "SEQPACKET messages keep MSG_EOR, and the lack of it",
        eor,
    ));
    cases.push(
        Case::new(
            "MSG_ZEROCOPY sends are exact, each completed once",
            zerocopy,
        )
        .short(),
    );
    cases.push(Case::new("a sender that closes at once loses nothing", close_at_once).short());
    cases.push(Case::new(
        "reads of 1 and 1000 bytes get all of a stream",
        small_reads,
    ));
    cases
}

fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::Stream => "STREAM",
        Kind::Seqpacket => "SEQPACKET",
    }
}

/// A transfer of the matrix, sized for its writes.
fn sized(kind: Kind, direction: Direction, write_size: usize, connections: u32) -> Transfer {
    let bytes = (write_size as u64 * WRITES).min(MOST) / u64::from(connections);
    // Not a multiple of the write size, so that the last write is a short one.
    let bytes = (bytes | 1).max(write_size as u64 + 1);
    Transfer::new(kind, direction, write_size, bytes).over(connections)
}

fn matrix(mode: Mode, kind: Kind) -> Vec<Case> {
    let shapes = [
        ("to the guest", Direction::ToGuest, 1),
        ("from the guest", Direction::FromGuest, 1),
        (
            "both ways at once on eight connections",
            Direction::BothWays,
            8,
        ),
    ];
    shapes
        .into_iter()
        .map(|(way, direction, connections)| {
            let name = format!("{} {way}, {mode}: every write size is exact", label(kind));
            let case = Case::new(name, move |fixture| {
                fixture.switch(mode)?;
                for size in WRITE_SIZES {
                    fixture.transfer(&sized(kind, direction, size, connections))?;
                }
                Ok(())
            });
            // The C driver knows one mode only.
            if mode == Mode::DEFAULT {
                case
            } else {
                case.ours_only()
            }
        })
        .collect()
}

fn totals(mode: Mode) -> Case {
    let case = Case::new(
        format!("STREAM, {mode}: totals from 1 byte to 64 MiB are exact both ways"),
        move |fixture| {
            fixture.switch(mode)?;
            for (bytes, write_size) in TOTALS {
                for direction in [Direction::ToGuest, Direction::FromGuest] {
                    fixture.transfer(&Transfer::new(Kind::Stream, direction, write_size, bytes))?;
                }
            }
            Ok(())
        },
    );
    if mode == Mode::DEFAULT {
        case
    } else {
        case.ours_only()
    }
}

/// The same as the matrix, in a form that fits the short pass.
fn few(kind: Kind) -> Vec<Case> {
    let modes = [Mode::ALL[0], Mode::ALL[3]];
    modes
        .into_iter()
        .map(|mode| {
            let name = format!(
                "{}, {mode}: a few sizes, both ways and eight at once",
                label(kind)
            );
            let case = Case::new(name, move |fixture| {
                fixture.switch(mode)?;
                for size in FEW_SIZES {
                    for direction in [Direction::ToGuest, Direction::FromGuest] {
                        fixture.transfer(&sized(kind, direction, size, 1))?;
                    }
                }
                fixture
                    .transfer(&sized(kind, Direction::BothWays, 1000, 8))
                    .map(drop)
            });
            let case = case.only_short();
            if mode == Mode::DEFAULT {
                case
            } else {
                case.ours_only()
            }
        })
        .collect()
}

fn eor(fixture: &Fixture<'_>) -> Result<()> {
    for eor in [true, false] {
        for size in [1, 4096, 200_000] {
            let mut transfer = sized(Kind::Seqpacket, Direction::BothWays, size, 1);
            transfer.eor = eor;
            fixture.transfer(&transfer)?;
        }
    }
    Ok(())
}

fn zerocopy(fixture: &Fixture<'_>) -> Result<()> {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        for size in [1000, 4096, 65_536, 200_000] {
            for direction in [Direction::FromGuest, Direction::ToGuest] {
                let mut transfer = sized(kind, direction, size, 1);
                transfer.zerocopy = true;
                fixture.transfer(&transfer)?;
            }
        }
    }
    Ok(())
}

fn close_at_once(fixture: &Fixture<'_>) -> Result<()> {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        for direction in [Direction::ToGuest, Direction::FromGuest] {
            for size in [64, 4096, 65_536] {
                let mut transfer = sized(kind, direction, size, 1);
                transfer.end = End::Close;
                fixture.transfer(&transfer)?;
            }
        }
    }
    Ok(())
}

fn small_reads(fixture: &Fixture<'_>) -> Result<()> {
    for (read_size, bytes) in [(1, 20_001), (1000, 1_000_001)] {
        for direction in [Direction::ToGuest, Direction::FromGuest] {
            let mut transfer = Transfer::new(Kind::Stream, direction, 4096, bytes);
            transfer.read_size = read_size;
            fixture.transfer(&transfer)?;
        }
    }
    Ok(())
}
