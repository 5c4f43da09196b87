// SPDX-License-Identifier: GPL-2.0
//! Guests that break the rules.

use virtio_bindings::bindings::virtio_ring::{VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT};

use super::*;
use crate::header::MAX_PAYLOAD;
use crate::testing::{MEMORY, Piece};

fn readable(address: u64, len: u32) -> Piece {
    Piece {
        address,
        len,
        writable: false,
    }
}

/// `offer` puts a bad chain on A's TX ring: it must come back, be counted once
/// by `counter`, reach nobody, and the next packet must pass.
#[track_caller]
fn dropped(offer: impl FnOnce(&mut Guest) -> u16, counter: fn(&crate::stats::Drops) -> u64) {
    let (mut wire, mut a, mut b) = pair();
    b.post(64);
    let head = offer(&mut a);
    a.kick(&mut wire, Side::Tx);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);
    assert_eq!(counter(&wire.stats(0).drops), 1);
    assert_eq!(b.receive(), []);
    a.send(&mut wire, &rw(3, 4, 4), b"good");
    assert_eq!(b.receive()[0].payload, b"good");
}

#[test]
fn chains_without_a_header_are_dropped() {
    dropped(
        |a| a.offer(Side::Tx, &[readable(0x10_0000, 43)]),
        |drops| drops.short,
    );
    dropped(
        |a| a.offer(Side::Tx, &[readable(0x10_0000, 0)]),
        |drops| drops.short,
    );
}

#[test]
fn chains_longer_than_a_packet_are_dropped() {
    let size = (HEADER_LEN + MAX_PAYLOAD + 1) as u32;
    dropped(
        |a| a.offer(Side::Tx, &[readable(0x10_0000, size)]),
        |drops| drops.long,
    );
}

#[test]
fn promised_payload_must_be_there() {
    for len in [6, 65536, u32::MAX] {
        dropped(
            |a| {
                let header = Header {
                    len: len.into(),
                    ..rw(3, 4, 0)
                };
                a.queue(&header, b"five!")
            },
            |drops| drops.payload,
        );
    }
}

#[test]
fn chains_must_be_readable_guest_memory() {
    let wrong = [
        readable(MEMORY, 64),
        readable(MEMORY - 10, 64),
        readable(u64::MAX - 10, 64),
        Piece {
            address: 0x10_0000,
            len: 64,
            writable: true,
        },
    ];
    for piece in wrong {
        dropped(|a| a.offer(Side::Tx, &[piece]), |drops| drops.descriptors);
        dropped(
            |a| {
                let mut pieces = a.packet(&rw(3, 4, 0), b"");
                pieces.push(piece);
                a.offer(Side::Tx, &pieces)
            },
            |drops| drops.descriptors,
        );
    }
}

#[test]
fn circular_chains_end() {
    dropped(
        |a| {
            let table = 0x1000 + 0x4000;
            a.write_desc(
                table,
                0,
                &readable(0x10_0000, 8192),
                VRING_DESC_F_NEXT,
                Some(0),
            );
            a.announce(Side::Tx, 0);
            0
        },
        |drops| drops.long,
    );
}

#[test]
fn indirect_tables_in_indirect_tables_are_dropped() {
    dropped(
        |a| {
            let table = 0x8_0000;
            a.write_desc(table, 0, &readable(table, 16), VRING_DESC_F_INDIRECT, None);
            let ring = 0x1000 + 0x4000;
            a.write_desc(ring, 0, &readable(table, 16), VRING_DESC_F_INDIRECT, None);
            a.announce(Side::Tx, 0);
            0
        },
        |drops| drops.short,
    );
}

#[test]
fn indirect_and_scattered_packets_are_packets() {
    let (mut wire, mut a, mut b) = pair();
    let data = bytes(300);
    let whole = a.packet(&rw(3, 4, 300), &data)[0].address;
    let cut = [0, 10, 44, 45, 200, 344];
    let pieces: Vec<_> = cut
        .windows(2)
        .map(|w| readable(whole + w[0], (w[1] - w[0]) as u32))
        .collect();
    b.post(512);
    let head = a.offer_indirect(Side::Tx, 0x8_0000, &pieces);
    a.kick(&mut wire, Side::Tx);
    assert_eq!(b.receive()[0].payload, data);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);
}

#[test]
fn useless_rx_buffers_go_back_empty() {
    let (mut wire, mut a, mut b) = pair();
    let bad = [
        b.offer(Side::Rx, &[readable(0x10_0000, 4096)]),
        b.offer(
            Side::Rx,
            &[Piece {
                address: 0x10_0000,
                len: 43,
                writable: true,
            }],
        ),
        b.offer(
            Side::Rx,
            &[Piece {
                address: MEMORY,
                len: 4096,
                writable: true,
            }],
        ),
        // Good for a header; this packet has more.
        b.offer(
            Side::Rx,
            &[Piece {
                address: 0x10_0000,
                len: 44,
                writable: true,
            }],
        ),
    ];
    let good = b.post(64);
    a.send(&mut wire, &rw(3, 4, 4), b"good");
    let used = b.used(Side::Rx);
    assert_eq!(used[..4], bad.map(|head| (head, 0)));
    assert_eq!(used[4], (good, 48));
    assert_eq!(wire.stats(1).bad_buffers, 4);
    assert_eq!(wire.stats(1).rx_packets, 1);
}

#[test]
fn one_chain_offered_again_and_again_fills_no_memory() {
    let (mut wire, mut a, _b) = pair();
    let head = a.queue(&rw(3, 4, 1), b"x");
    for _ in 0..1000 {
        a.announce(Side::Tx, head);
        a.kick(&mut wire, Side::Tx);
    }
    assert!(wire.report().ports[1].waiting <= usize::from(RING));
}

#[test]
fn heads_beyond_the_ring_are_ignored() {
    let (mut wire, mut a, mut b) = pair();
    b.post(64);
    a.announce(Side::Tx, RING);
    a.announce(Side::Tx, 0xffff);
    a.kick(&mut wire, Side::Tx);
    assert_eq!(a.used(Side::Tx), []);
    assert_eq!(wire.stats(0).drops.short, 2);
    a.send(&mut wire, &rw(3, 4, 4), b"good");
    assert_eq!(b.receive()[0].payload, b"good");
}

#[test]
fn a_broken_ring_rests_until_it_is_reset() {
    let (mut wire, mut a, mut b) = pair();
    a.post(64);
    b.post(64);
    a.set_avail(Side::Tx, RING + 5);
    a.kick(&mut wire, Side::Tx);
    a.kick(&mut wire, Side::Tx);
    assert_eq!(wire.stats(0).tx_queue.broken, 1);

    b.set_avail(Side::Rx, 1000);
    wire.disconnect(a.port);
    let mut a = Guest::new(&mut wire, 0);
    a.post(64);
    a.send(&mut wire, &rw(3, 4, 1), b"x");
    // Nobody can receive there now, so that the sender is refused.
    assert_eq!(a.receive()[0].header.op.get(), op::RST);
    assert_eq!(wire.stats(1).rx_queue.broken, 1);
    assert!(!wire.report().ports[1].up);
}

#[test]
fn a_broken_ring_works_again_after_a_reset() {
    let (mut wire, mut a, mut b) = pair();
    for side in [Side::Rx, Side::Tx] {
        a.set_avail(side, RING + 5);
    }
    a.kick(&mut wire, Side::Tx);
    b.send(&mut wire, &rw(4, 3, 1), b"x");
    assert!(!wire.report().ports[0].up);
    a.stop(&mut wire);
    a.start(&mut wire);
    b.post(64);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(b.receive()[0].header.op.get(), op::RST);
    b.post(64);
    a.post(64);
    a.send(&mut wire, &rw(3, 4, 1), b"x");
    assert_eq!(b.receive()[0].payload, b"x");
    b.send(&mut wire, &rw(4, 3, 1), b"y");
    assert_eq!(a.receive()[0].payload, b"y");
}
