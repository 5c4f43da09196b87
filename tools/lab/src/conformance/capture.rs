// SPDX-License-Identifier: GPL-2.0
//! What a capture on a vsockmon device shows of the guest's connections.

mod tcpdump;

use anyhow::{Context as _, Result, bail, ensure};
use rig::RigKind;
use vsock_capture::connection::End;
use vsock_capture::{Opened, Packet, Summary, check};
use vsock_peer::pattern::{Lane, Pattern};
use vsock_peer::plan::{Kind, Side};

use super::debian::Debian;
use crate::case::Case;
use crate::case::fixture::{Fixture, Subject};
use crate::case::mode::Mode;
use crate::transfer::{Direction, Transfer};
use tcpdump::Tcpdump;

/// What all transfers make their payload from.
const SEED: u64 = 1;
/// So many violations say enough.
const SHOWN: usize = 5;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    let case = |mode: Mode| {
        let name = format!("{mode}: tcpdump decodes vsockmon, and every packet keeps the protocol");
        let case = Case::new(name, move |fixture| captured(fixture, mode));
        // The guests of the other rigs have no tcpdump.
        let case = case.only_on([RigKind::Wire]);
        match mode == Mode::DEFAULT {
            true => case,
            false => case.ours_only(),
        }
    };
    Mode::ALL.map(case).into()
}

/// Connections in both directions at once, with small packets that batch and with large ones.
fn traffic(fixture: &Fixture<'_>) -> Vec<[Transfer; 2]> {
    let longer = fixture.rounds(1, 1, 10);
    let sizes = [
        (Kind::Stream, 64, 20_000_u64),
        (Kind::Stream, 100_000, 300_000),
        (Kind::Seqpacket, 5000, 60_000),
    ];
    let pair = |(kind, write_size, bytes)| {
        [true, false].map(|guest_connects| {
            let bytes = bytes * longer;
            let mut transfer = Transfer::new(kind, Direction::BothWays, write_size, bytes).over(2);
            transfer.guest_connects = guest_connects;
            transfer
        })
    };
    sizes.map(pair).into()
}

fn captured(fixture: &Fixture<'_>, mode: Mode) -> Result<()> {
    fixture.switch(mode)?;
    let debian = Debian::of(fixture.guest())?;
    let traffic = traffic(fixture);
    let before = match fixture.subject {
        Subject::Rust => Some(fixture.counters()?),
        Subject::C => None,
    };
    let tcpdump = Tcpdump::start(&debian)?;
    let moved = traffic.iter().try_for_each(|[one, other]| {
        let running = [fixture.begin(one)?, fixture.begin(other)?];
        running.into_iter().try_for_each(|end| end.finish())
    });
    let caught = tcpdump.finish();
    moved.context("the traffic that is captured")?;
    let caught = caught?;
    let packets = vsock_capture::file::read(&caught.file[..]).context("reading the capture")?;
    ensure!(
        caught.decoded == packets.len(),
        "tcpdump decodes {} packets, and {} are in the file",
        caught.decoded,
        packets.len()
    );
    let summary = protocol(&packets)?;
    totals(&summary, traffic.as_flattened())?;
    if let Some(before) = before {
        counted(fixture, &packets, &fixture.counters()?.since(&before))?;
    }
    Ok(())
}

/// Holds the packets against the protocol and the payload that was sent.
fn protocol(packets: &[Packet]) -> Result<Summary> {
    let pattern = Pattern::new(SEED);
    let lane = |opened: &Opened, end: End| -> Lane {
        let side = match end {
            End::Connector => Side::Connect,
            End::Acceptor => Side::Listen,
        };
        pattern.lane(opened.number, side)
    };
    let compare = |opened: &Opened, end: End, offset: u64, got: &[u8]| {
        let compared = lane(opened, end).compare(offset, got);
        compared.map_err(|difference| match difference.belongs_at {
            Some(place) => {
                format!("the data of offset {place} is where that of {offset} should be")
            }
            None => format!("the data of offset {offset} is wrong: {difference:?}"),
        })
    };
    match check(packets, compare) {
        Ok(summary) => Ok(summary),
        Err(violations) => {
            let lines = violations.iter().take(SHOWN).map(ToString::to_string);
            let lines: Vec<String> = lines.collect();
            bail!(
                "{} violations in {} packets; the first ones:\n{}",
                violations.len(),
                packets.len(),
                lines.join("\n")
            )
        }
    }
}

/// Every connection was captured with every byte.
fn totals(summary: &Summary, traffic: &[Transfer]) -> Result<()> {
    let sent = traffic.iter().flat_map(|transfer| {
        let both = [transfer.bytes; 2];
        std::iter::repeat_n(both, transfer.connections as usize)
    });
    let mut sent: Vec<[u64; 2]> = sent.collect();
    let mut captured: Vec<[u64; 2]> = summary
        .connections
        .iter()
        .map(|(_, bytes)| *bytes)
        .collect();
    sent.sort_unstable();
    captured.sort_unstable();
    ensure!(
        sent == captured,
        "bytes of each connection both ways: {sent:?} were sent, {captured:?} captured"
    );
    Ok(())
}

/// The driver has counted as many packets each way as were captured.
fn counted(
    fixture: &Fixture<'_>,
    packets: &[Packet],
    added: &crate::counters::Counters,
) -> Result<()> {
    let cid = u64::from(fixture.guest().cid());
    let sent = packets.iter().filter(|packet| packet.source().cid == cid);
    let sent = sent.count() as u64;
    let received = packets.len() as u64 - sent;
    let counts = [
        added.get("tx_direct")? + added.get("tx_queued")?,
        added.get("rx_packets")?,
    ];
    ensure!(
        counts == [sent, received],
        "the driver has sent and received {counts:?} packets, {:?} were captured: {}",
        [sent, received],
        added.shown()
    );
    Ok(())
}
