// SPDX-License-Identifier: GPL-2.0
//! Interrupts, kicks, and how used entries are published.

use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;

use super::*;

/// Send `count` packets of growing size in one go, and receive them.
fn burst(wire: &mut Wire, a: &mut Guest, b: &mut Guest, count: u16) -> Vec<u32> {
    for _ in 0..count {
        b.post(64);
    }
    for i in 0..count {
        let data = bytes(usize::from(i));
        let mut packet = a.packet(&rw(3, 4, data.len()), &data);
        // One descriptor, so that as many fit as the ring has.
        packet[0].len += data.len() as u32;
        a.offer(Side::Tx, &packet[..1]);
    }
    a.kick(wire, Side::Tx);
    assert_eq!(a.used(Side::Tx).len(), usize::from(count));
    b.used(Side::Rx).into_iter().map(|(_, len)| len).collect()
}

#[test]
fn used_entries_are_published_in_batches_each_with_its_own_length() {
    for (batch, publications) in [
        (UsedBatch::On, 1),
        (UsedBatch::Off, 10),
        (UsedBatch::Limit(4), 3),
        (UsedBatch::Limit(100), 1),
    ] {
        let mut wire = wire_with(&[3, 4], batch);
        let mut a = Guest::new(&mut wire, 0);
        let mut b = Guest::new(&mut wire, 1);
        // Many times, so that batches cross the end of the ring.
        for round in 1..=50 {
            let lens = burst(&mut wire, &mut a, &mut b, 10);
            assert_eq!(lens, (44..54).collect::<Vec<_>>(), "{batch:?}");
            assert!(b.interrupted(Side::Rx));
            assert!(!b.interrupted(Side::Rx));
            // The guest wants the next one.
            b.set_used_event(Side::Rx, 10 * round);
            a.set_used_event(Side::Tx, 10 * round);
            let queue = &wire.stats(1).rx_queue;
            let rounds = u64::from(round);
            assert_eq!(queue.used, 10 * rounds);
            assert_eq!(queue.publications, publications * rounds, "{batch:?}");
            assert_eq!(queue.signals, rounds);
            assert_eq!(wire.stats(0).tx_queue.signals, rounds);
        }
    }
}

#[test]
fn no_interrupt_before_the_event_that_the_guest_waits_for() {
    let (mut wire, mut a, mut b) = pair();
    b.set_used_event(Side::Rx, 7);
    a.set_used_event(Side::Tx, 100);
    burst(&mut wire, &mut a, &mut b, 7);
    assert!(!b.interrupted(Side::Rx));
    burst(&mut wire, &mut a, &mut b, 1);
    assert!(b.interrupted(Side::Rx));
    burst(&mut wire, &mut a, &mut b, 8);
    assert!(!b.interrupted(Side::Rx));
    assert!(!a.interrupted(Side::Tx));
}

#[test]
fn guests_without_event_idx_have_a_flag() {
    let mut wire = wire(&[3, 4]);
    let mut a = Guest::with_event_idx(&mut wire, 0, false);
    let mut b = Guest::with_event_idx(&mut wire, 1, false);
    burst(&mut wire, &mut a, &mut b, 2);
    assert!(b.interrupted(Side::Rx));
    b.set_avail_flags(Side::Rx, VRING_AVAIL_F_NO_INTERRUPT as u16);
    burst(&mut wire, &mut a, &mut b, 2);
    assert!(!b.interrupted(Side::Rx));
    b.set_avail_flags(Side::Rx, 0);
    burst(&mut wire, &mut a, &mut b, 2);
    assert!(b.interrupted(Side::Rx));
}

#[test]
fn nothing_done_means_no_interrupt() {
    let (mut wire, mut a, mut b) = pair();
    for side in [Side::Rx, Side::Tx] {
        a.kick(&mut wire, side);
        assert!(!a.interrupted(side));
    }
    a.send(&mut wire, &rw(3, 4, 1), b"x");
    assert!(!a.interrupted(Side::Tx));
    assert!(!b.interrupted(Side::Rx));
}

#[test]
fn kicks_are_asked_for_where_the_device_stopped_looking() {
    let (mut wire, mut a, mut b) = pair();
    b.post(64);
    b.kick(&mut wire, Side::Rx);
    a.send(&mut wire, &rw(3, 4, 1), b"x");
    assert_eq!(a.avail_event(Side::Tx), 1);
    assert_eq!(b.avail_event(Side::Rx), 0, "room is of no interest yet");
    a.send(&mut wire, &rw(3, 4, 1), b"y");
    assert_eq!(a.avail_event(Side::Tx), 2);
    assert_eq!(b.avail_event(Side::Rx), 1, "now a packet waits for room");
}
