// SPDX-License-Identifier: GPL-2.0
//! The wire with guests' rings in real memory.

use super::*;
use crate::header::{FLAG_EOM, HEADER_LEN, Header, TYPE_SEQPACKET, op};
use crate::testing::{Guest, RING, bytes, rw};

fn wire(cids: &[u32]) -> Wire {
    wire_with(cids, UsedBatch::On)
}

fn wire_with(cids: &[u32], used_batch: UsedBatch) -> Wire {
    let spec = |&cid: &u32| PortSpec {
        cid,
        socket: format!("/{cid}").into(),
    };
    Wire::new(&cids.iter().map(spec).collect::<Vec<_>>(), used_batch, &[])
}

fn pair() -> (Wire, Guest, Guest) {
    let mut wire = wire(&[3, 4]);
    let a = Guest::new(&mut wire, 0);
    let b = Guest::new(&mut wire, 1);
    (wire, a, b)
}

impl Wire {
    fn stats(&self, port: usize) -> &crate::stats::PortStats {
        &self.ports[port].stats
    }
}

#[test]
fn packets_arrive_unchanged_and_in_order() {
    let (mut wire, mut a, mut b) = pair();
    for _ in 0..3 {
        b.post(4096);
    }
    b.kick(&mut wire, Side::Rx);
    let odd = Header {
        op: 77.into(),
        kind: 9.into(),
        flags: 0xffff_ffff.into(),
        buf_alloc: 1.into(),
        fwd_cnt: 2.into(),
        ..rw(3, 4, 0)
    };
    let heads = [
        a.queue(&rw(3, 4, 5), b"first"),
        a.queue(&odd, b""),
        a.queue(&rw(3, 4, 6), b"second"),
    ];
    a.kick(&mut wire, Side::Tx);
    let got = b.receive();
    assert_eq!(got.len(), 3);
    assert_eq!(
        (got[0].header, &got[0].payload[..]),
        (rw(3, 4, 5), &b"first"[..])
    );
    assert_eq!((got[1].header, &got[1].payload[..]), (odd, &b""[..]));
    assert_eq!(
        (got[2].header, &got[2].payload[..]),
        (rw(3, 4, 6), &b"second"[..])
    );
    assert_eq!(a.used(Side::Tx), heads.map(|head| (head, 0)));
    assert_eq!(wire.stats(0).tx_bytes, 11);
    assert_eq!(wire.stats(1).rx_packets, 3);
}

#[test]
fn payload_behind_the_packet_is_not_passed() {
    let (mut wire, mut a, mut b) = pair();
    b.post(4096);
    a.send(&mut wire, &rw(3, 4, 3), b"abcdef");
    assert_eq!(b.receive()[0].payload, b"abc");
}

#[test]
fn a_guest_can_write_to_itself() {
    let (mut wire, mut a, _b) = pair();
    a.post(64);
    a.send(&mut wire, &rw(3, 3, 2), b"me");
    assert_eq!(a.receive()[0].payload, b"me");
}

#[test]
fn chains_are_held_until_there_is_room() {
    let (mut wire, mut a, mut b) = pair();
    b.post(4096);
    let first = a.send(&mut wire, &rw(3, 4, 1), b"1");
    let second = a.send(&mut wire, &rw(3, 4, 1), b"2");
    let third = a.send(&mut wire, &rw(3, 4, 1), b"3");
    assert_eq!(b.receive().len(), 1);
    assert_eq!(a.used(Side::Tx), [(first, 0)]);
    assert_eq!(wire.report().ports[0].holding, 2);
    assert_eq!(wire.stats(1).held, 2);

    b.post(4096);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(b.receive()[0].payload, b"2");
    assert_eq!(a.used(Side::Tx), [(second, 0)]);
    assert_eq!(wire.stats(1).held, 2);

    b.post(4096);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(b.receive()[0].payload, b"3");
    assert_eq!(a.used(Side::Tx), [(third, 0)]);
    assert_eq!(wire.report().ports[0].holding, 0);
}

#[test]
fn what_one_guest_holds_up_stops_no_other() {
    let mut wire = wire(&[3, 4, 5]);
    let mut a = Guest::new(&mut wire, 0);
    let mut full = Guest::new(&mut wire, 1);
    let mut c = Guest::new(&mut wire, 2);
    a.post(64);
    c.post(64);
    let held = a.send(&mut wire, &rw(3, 4, 1), b"x");
    let past = a.send(&mut wire, &rw(3, 5, 1), b"y");
    assert_eq!(c.receive()[0].payload, b"y");
    assert_eq!(a.used(Side::Tx), [(past, 0)]);
    c.send(&mut wire, &rw(5, 3, 1), b"z");
    assert_eq!(a.receive()[0].payload, b"z");
    full.post(64);
    full.kick(&mut wire, Side::Rx);
    assert_eq!(full.receive()[0].payload, b"x");
    assert_eq!(a.used(Side::Tx), [(held, 0)]);
}

#[test]
fn a_full_tx_ring_is_looked_at_again_when_chains_went_back() {
    let (mut wire, mut a, mut b) = pair();
    let empty = Header {
        len: 0.into(),
        ..rw(3, 4, 0)
    };
    for _ in 0..RING {
        a.queue(&empty, b"");
    }
    a.kick(&mut wire, Side::Tx);
    assert_eq!(wire.report().ports[0].holding, usize::from(RING));
    b.post(64);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(a.used(Side::Tx).len(), 1);
    // This one comes without a kick if the device does not ask for one.
    let event = a.avail_event(Side::Tx);
    a.queue(&empty, b"");
    assert_eq!(
        event, RING,
        "the device wants to be kicked for the next chain"
    );
    a.kick(&mut wire, Side::Tx);
    for _ in 0..RING {
        b.post(64);
    }
    b.kick(&mut wire, Side::Rx);
    assert_eq!(a.used(Side::Tx).len(), usize::from(RING));
}

#[test]
fn large_packets_are_split_as_room_comes() {
    let (mut wire, mut a, mut b) = pair();
    let data = bytes(10_000);
    let header = Header {
        kind: TYPE_SEQPACKET.into(),
        flags: FLAG_EOM.into(),
        ..rw(3, 4, data.len())
    };
    b.post(4000);
    b.post(1000);
    let head = a.send(&mut wire, &header, &data);
    assert_eq!(a.used(Side::Tx), []);
    b.post(4096);
    b.post(4096);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);

    let got = b.receive();
    let lens: Vec<_> = got.iter().map(|p| p.header.len.get()).collect();
    let flags: Vec<_> = got.iter().map(|p| p.header.flags.get()).collect();
    assert_eq!(lens, [4000, 1000, 4096, 904]);
    assert_eq!(flags, [0, 0, 0, FLAG_EOM]);
    assert_eq!(
        got.iter()
            .flat_map(|p| p.payload.clone())
            .collect::<Vec<_>>(),
        data
    );
    assert_eq!((wire.stats(1).splits, wire.stats(1).fragments), (1, 4));
}

#[test]
fn an_address_without_a_guest_answers_with_a_reset() {
    let mut wire = wire(&[3, 4]);
    let mut a = Guest::new(&mut wire, 0);
    for dst in [2, 4, 9] {
        let request = Header {
            op: op::REQUEST.into(),
            ..rw(3, dst, 0)
        };
        // The answer has no room yet, and so the question is held.
        let head = a.send(&mut wire, &request, b"");
        assert_eq!(a.used(Side::Tx), []);
        a.post(64);
        a.kick(&mut wire, Side::Rx);
        assert_eq!(a.receive()[0].header, request.reset().unwrap());
        assert_eq!(a.used(Side::Tx), [(head, 0)]);
    }
    let reset = Header {
        op: op::RST.into(),
        ..rw(3, 9, 0)
    };
    a.post(64);
    a.send(&mut wire, &reset, b"");
    assert_eq!(a.receive(), []);
    assert_eq!(a.used(Side::Tx).len(), 1);
    assert_eq!((wire.stats(0).resets, wire.stats(0).drops.unheard), (3, 1));
}

#[test]
fn nobody_speaks_for_another() {
    let (mut wire, mut a, mut b) = pair();
    b.post(64);
    let head = a.send(&mut wire, &rw(2, 4, 1), b"x");
    assert_eq!(b.receive(), []);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);
    assert_eq!(wire.stats(0).drops.foreign_source, 1);
}

#[test]
fn a_packet_is_what_it_was_when_it_was_sent() {
    let (mut wire, mut a, mut b) = pair();
    let pieces = a.packet(&rw(3, 4, 5), b"first");
    a.offer(Side::Tx, &pieces);
    a.kick(&mut wire, Side::Tx);
    a.write(pieces[0].address, &[0xff; HEADER_LEN + 5]);
    b.post(64);
    b.kick(&mut wire, Side::Rx);
    let got = b.receive();
    assert_eq!(
        (got[0].header, &got[0].payload[..]),
        (rw(3, 4, 5), &b"first"[..])
    );
}

#[test]
fn a_receiver_that_leaves_is_refused_for() {
    let (mut wire, mut a, mut b) = pair();
    a.post(64);
    let data = a.send(&mut wire, &rw(3, 4, 1), b"x");
    let reset = Header {
        op: op::RST.into(),
        ..rw(3, 4, 0)
    };
    let last = a.send(&mut wire, &reset, b"");
    b.stop(&mut wire);
    assert_eq!(a.receive()[0].header, rw(3, 4, 1).reset().unwrap());
    let mut used = a.used(Side::Tx);
    used.sort();
    assert_eq!(used, [(data, 0), (last, 0)]);
    assert_eq!(wire.stats(0).drops.receiver_left, 2);
    assert!(!wire.report().ports[1].up);

    b.start(&mut wire);
    b.post(64);
    a.send(&mut wire, &rw(3, 4, 1), b"y");
    assert_eq!(b.receive()[0].payload, b"y");
}

#[test]
fn a_sender_that_leaves_gets_its_chains_and_its_packets_go_on() {
    let (mut wire, mut a, mut b) = pair();
    let head = a.send(&mut wire, &rw(3, 4, 1), b"x");
    a.stop(&mut wire);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);
    assert_eq!(wire.report().ports[0].holding, 0);
    b.post(64);
    b.kick(&mut wire, Side::Rx);
    assert_eq!(b.receive()[0].payload, b"x");

    a.start(&mut wire);
    b.post(64);
    let head = a.send(&mut wire, &rw(3, 4, 1), b"y");
    assert_eq!(b.receive()[0].payload, b"y");
    assert_eq!(a.used(Side::Tx), [(head, 0)]);
}

#[test]
fn the_last_words_of_the_gone_are_bounded() {
    let (mut wire, mut a, b) = pair();
    for _ in 0..100 {
        for _ in 0..RING {
            a.queue(&rw(3, 4, 0), b"");
        }
        a.kick(&mut wire, Side::Tx);
        a.stop(&mut wire);
        a.start(&mut wire);
    }
    let report = wire.report();
    assert_eq!(report.ports[1].waiting, 1024);
    let sent = 100 * u64::from(RING);
    assert_eq!(wire.stats(0).drops.sender_left, sent - 1024);
    drop(b);
}

#[test]
fn a_new_qemu_finds_a_new_device() {
    let (mut wire, mut a, b) = pair();
    a.post(64);
    a.send(&mut wire, &rw(3, 4, 1), b"x");
    wire.disconnect(b.port);
    while wire.work() {}
    assert_eq!(a.receive()[0].header.op.get(), op::RST);
    drop(b);
    let mut b = Guest::new(&mut wire, 1);
    b.post(64);
    a.send(&mut wire, &rw(3, 4, 1), b"y");
    assert_eq!(b.receive()[0].payload, b"y");
    assert_eq!(wire.stats(1).connections, 2);
}

mod hostile;
mod notify;
mod script;
mod service;
