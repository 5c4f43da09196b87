// SPDX-License-Identifier: GPL-2.0
//! What the driver counts, held against what was sent.

use anyhow::{Result, ensure};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::case::mode::Mode;
use crate::counters::Counters;
use crate::transfer::{Direction, Transfer};

/// The cases of this file; the C driver counts nothing.
pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        Case::new(
            "with batching on, batches hold more than one packet",
            batches,
        ),
        Case::new("with batching off, none does", no_batches),
        Case::new("with the fast path on, packets are sent directly", direct),
        Case::new("with the fast path off, none is", not_direct),
        Case::new(
            "every received packet and byte is counted once",
            everything_is_counted,
        ),
        Case::new("rx_batch_packets bounds a batch", bounded_by_packets),
        Case::new("rx_batch_bytes bounds a batch", bounded_by_bytes),
        Case::new("SEQPACKET takes the regular path", seqpacket_is_regular),
    ];
    cases.map(|case| case.ours_only().short()).into()
}

/// Small writes to the guest, sent faster than the guest takes them one by one.
fn small_writes() -> Transfer {
    Transfer::new(Kind::Stream, Direction::ToGuest, 64, 200_000)
}

fn added(fixture: &Fixture<'_>, mode: Mode, transfer: &Transfer) -> Result<Counters> {
    fixture.switch(mode)?;
    let (_, added) = fixture.counted(|| fixture.transfer(transfer))?;
    Ok(added)
}

fn batching(on: bool) -> Mode {
    Mode {
        batching: on,
        ..Mode::DEFAULT
    }
}

fn fast_path(on: bool) -> Mode {
    Mode {
        fast_path: on,
        ..Mode::DEFAULT
    }
}

fn batches(fixture: &Fixture<'_>) -> Result<()> {
    let added = added(fixture, batching(true), &small_writes())?;
    let shown = added.shown();
    ensure!(
        added.batches_from(2)? > 0,
        "no batch of two packets or more: {shown}"
    );
    ensure!(
        added.get("rx_fast_packets")? > 0,
        "no packet went the fast way: {shown}"
    );
    ensure!(
        added.get("rx_batch_end_idle")? > 0,
        "no batch ended because nothing was left to be received: {shown}"
    );
    let (batches, sizes) = (added.get("rx_batches")?, added.batches_from(1)?);
    ensure!(
        batches == sizes,
        "{batches} batches, but the histogram holds {sizes}: {shown}"
    );
    Ok(())
}

fn no_batches(fixture: &Fixture<'_>) -> Result<()> {
    let added = added(fixture, batching(false), &small_writes())?;
    let shown = added.shown();
    ensure!(
        added.batches_from(2)? == 0,
        "batches although they are off: {shown}"
    );
    ensure!(
        added.get("rx_fast_packets")? == 0,
        "fast packets although batching is off: {shown}"
    );
    ensure!(
        added.get("rx_slow_packets")? > 0,
        "the transfer was not seen at all: {shown}"
    );
    Ok(())
}

fn direct(fixture: &Fixture<'_>) -> Result<()> {
    let transfer = Transfer::new(Kind::Stream, Direction::FromGuest, 4096, 1 << 20);
    let added = added(fixture, fast_path(true), &transfer)?;
    ensure!(
        added.get("tx_direct")? > 0,
        "no packet was sent directly: {}",
        added.shown()
    );
    Ok(())
}

fn not_direct(fixture: &Fixture<'_>) -> Result<()> {
    let transfer = Transfer::new(Kind::Stream, Direction::FromGuest, 4096, 1 << 20);
    let added = added(fixture, fast_path(false), &transfer)?;
    let shown = added.shown();
    ensure!(
        added.get("tx_direct")? == 0,
        "direct sends although they are off: {shown}"
    );
    ensure!(
        added.get("tx_queued")? > 0,
        "the transfer was not seen at all: {shown}"
    );
    Ok(())
}

fn everything_is_counted(fixture: &Fixture<'_>) -> Result<()> {
    for mode in Mode::ALL {
        let transfer = Transfer::new(Kind::Stream, Direction::ToGuest, 1000, 1_000_000);
        let added = added(fixture, mode, &transfer)?;
        let shown = added.shown();
        let (bytes, sent) = (added.get("rx_bytes")?, transfer.bytes_to_guest());
        ensure!(
            bytes == sent,
            "{mode}: {sent} bytes came in, {bytes} were counted: {shown}"
        );
        let packets = added.get("rx_packets")?;
        let parts = added.get("rx_fast_packets")? + added.get("rx_slow_packets")?;
        ensure!(
            packets == parts,
            "{mode}: {packets} packets, but {parts} by way: {shown}"
        );
        let drops = added.sum("rx_drop_");
        ensure!(
            drops == 0,
            "{mode}: an honest peer's packets were dropped: {shown}"
        );
    }
    Ok(())
}

fn bounded_by_packets(fixture: &Fixture<'_>) -> Result<()> {
    fixture.reload(["rx_batch_packets=4"])?;
    let added = added(fixture, batching(true), &small_writes());
    fixture.reload([])?;
    let added = added?;
    let shown = added.shown();
    ensure!(
        added.batches_from(8)? == 0,
        "batches of eight and more: {shown}"
    );
    ensure!(
        added.get("rx_batch_size_4")? > 0,
        "no batch of four: {shown}"
    );
    ensure!(
        added.get("rx_batch_end_packets")? > 0,
        "no batch ended for its size: {shown}"
    );
    Ok(())
}

fn bounded_by_bytes(fixture: &Fixture<'_>) -> Result<()> {
    fixture.reload(["rx_batch_bytes=256"])?;
    let added = added(fixture, batching(true), &small_writes());
    fixture.reload([])?;
    let added = added?;
    let shown = added.shown();
    // Four packets of 64 bytes fill it.
    ensure!(
        added.batches_from(8)? == 0,
        "batches of more than 256 bytes: {shown}"
    );
    ensure!(
        added.get("rx_batch_end_bytes")? > 0,
        "no batch ended for its bytes: {shown}"
    );
    Ok(())
}

fn seqpacket_is_regular(fixture: &Fixture<'_>) -> Result<()> {
    let transfer = Transfer::new(Kind::Seqpacket, Direction::ToGuest, 64, 64_000);
    let added = added(fixture, Mode::DEFAULT, &transfer)?;
    let shown = added.shown();
    ensure!(
        added.get("rx_fast_packets")? == 0,
        "SEQPACKET went the fast way: {shown}"
    );
    ensure!(
        added.get("rx_slow_packets")? >= 1000,
        "fewer packets than messages: {shown}"
    );
    Ok(())
}
