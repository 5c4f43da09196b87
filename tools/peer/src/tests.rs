// SPDX-License-Identifier: GPL-2.0
//! Both ends over a pair of UNIX sockets, which have the same two types.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};

use crate::habits::Habits;
use crate::pattern::Pattern;
use crate::plan::{End, Flow, Kind, Partner, Plan, Side};
use crate::report::Report;
use crate::run::transfer;
use crate::socket::Socket;

fn pair(kind: Kind) -> (Socket, Socket) {
    let kind = match kind {
        Kind::Stream => SockType::Stream,
        Kind::Seqpacket => SockType::SeqPacket,
    };
    let (a, b): (OwnedFd, OwnedFd) =
        socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
    (a.into(), b.into())
}

fn plan(kind: Kind, flow: Flow) -> Plan {
    Plan {
        side: Side::Connect,
        flow,
        kind,
        connections: 1,
        bytes: 300_001,
        write_size: 4097,
        read_size: 1000,
        seed: 42,
        buffer_size: None,
        zerocopy: false,
        eor: false,
        end: End::HalfClose,
        partner: Partner::Peer,
        habits: Habits::default(),
        timeout: Duration::from_secs(20),
    }
}

fn other_end(plan: &Plan) -> Plan {
    Plan {
        side: plan.side.opposite(),
        flow: plan.flow.opposite(),
        ..plan.clone()
    }
}

fn both_ends(plan: &Plan) -> (Report, Report) {
    let (near, far): (Vec<_>, Vec<_>) = (0..plan.connections).map(|_| pair(plan.kind)).unzip();
    let deadline = Instant::now() + plan.timeout;
    let other = other_end(plan);
    let far = thread::spawn(move || transfer(&other, &Pattern::new(other.seed), far, deadline));
    let near = transfer(plan, &Pattern::new(plan.seed), near, deadline);
    (near, far.join().unwrap())
}

/// Hands raw bytes or messages to a receiver, and takes its report.
fn feed(plan: &Plan, messages: &[&[u8]]) -> Report {
    let (near, far) = pair(plan.kind);
    let deadline = Instant::now() + plan.timeout;
    let receiver = {
        let plan = plan.clone();
        thread::spawn(move || transfer(&plan, &Pattern::new(plan.seed), vec![far], deadline))
    };
    for message in messages {
        near.send(message, MsgFlags::empty()).unwrap();
    }
    drop(near);
    receiver.join().unwrap()
}

fn what(report: &Report) -> String {
    serde_json::to_string(report).unwrap()
}

#[test]
fn every_flow_of_both_types_is_exact() {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        for flow in [Flow::Send, Flow::Receive, Flow::Both, Flow::Bounce] {
            let (near, far) = both_ends(&plan(kind, flow));
            assert!(near.exact, "{}", what(&near));
            assert!(far.exact, "{}", what(&far));
        }
    }
}

#[test]
fn many_connections_and_odd_sizes_are_exact() {
    for (write_size, read_size, bytes) in [(1, 1, 777), (65536, 333, 1 << 20), (64, 65536, 12_345)]
    {
        let plan = Plan {
            connections: 8,
            write_size,
            read_size,
            bytes,
            ..plan(Kind::Stream, Flow::Both)
        };
        let (near, far) = both_ends(&plan);
        assert!(near.exact && far.exact, "{} {}", what(&near), what(&far));
    }
}

#[test]
fn a_sender_may_close_at_once() {
    let plan = Plan {
        end: End::Close,
        ..plan(Kind::Stream, Flow::Send)
    };
    let (near, far) = both_ends(&plan);
    assert!(near.exact && far.exact, "{} {}", what(&near), what(&far));
}

#[test]
fn a_stream_that_ends_early_is_not_exact() {
    let plan = plan(Kind::Stream, Flow::Receive);
    let lane = Pattern::new(plan.seed).lane(0, Side::Listen);
    let report = feed(&plan, &[lane.at(0, 300_000)]);
    assert!(!report.exact);
    assert!(
        what(&report).contains("ended after 300000 of 300001"),
        "{}",
        what(&report)
    );
}

#[test]
fn one_byte_too_many_is_not_exact() {
    let plan = plan(Kind::Stream, Flow::Receive);
    let lane = Pattern::new(plan.seed).lane(0, Side::Listen);
    let report = feed(&plan, &[lane.at(0, 300_002)]);
    assert!(!report.exact);
    assert!(
        what(&report).contains("300002 bytes arrived"),
        "{}",
        what(&report)
    );
}

#[test]
fn the_payload_of_another_connection_is_not_exact() {
    let plan = plan(Kind::Stream, Flow::Receive);
    let lane = Pattern::new(plan.seed).lane(1, Side::Listen);
    let report = feed(&plan, &[lane.at(0, 300_001)]);
    assert!(!report.exact);
    assert_eq!(report.mismatches.len(), 1);
}

#[test]
fn a_message_cut_in_two_is_not_exact() {
    let plan = plan(Kind::Seqpacket, Flow::Receive);
    let lane = Pattern::new(plan.seed).lane(0, Side::Listen);
    let report = feed(&plan, &[lane.at(0, 4000), lane.at(4000, 97)]);
    assert!(!report.exact);
    assert!(
        what(&report).contains("it has 4000 bytes, 4097 were sent"),
        "{}",
        what(&report)
    );
}

#[test]
fn two_messages_made_one_are_not_exact() {
    let plan = plan(Kind::Seqpacket, Flow::Receive);
    let lane = Pattern::new(plan.seed).lane(0, Side::Listen);
    let report = feed(&plan, &[lane.at(0, 8194)]);
    assert!(!report.exact);
    assert!(
        what(&report).contains("longer than the 4097"),
        "{}",
        what(&report)
    );
}

#[test]
fn a_deadline_says_what_was_waited_for() {
    let plan = Plan {
        // The worker has begun by then, on a busy machine as well.
        timeout: Duration::from_secs(2),
        ..plan(Kind::Stream, Flow::Receive)
    };
    let (near, _far) = pair(plan.kind);
    let report = transfer(
        &plan,
        &Pattern::new(plan.seed),
        vec![near],
        Instant::now() + plan.timeout,
    );
    assert!(!report.exact);
    assert!(
        what(&report).contains("in recv() after 0 of 300001 bytes"),
        "{}",
        what(&report)
    );
}

#[test]
fn pings_come_back_and_are_timed() {
    let plan = plan(Kind::Stream, Flow::Ping);
    let (near, far) = both_ends(&plan);
    assert!(near.exact && far.exact, "{} {}", what(&near), what(&far));
    let pings = plan.bytes.div_ceil(plan.write_size as u64);
    assert_eq!(near.latency.unwrap().count, pings);
    assert_eq!(near.received.bytes, plan.bytes);
}

#[test]
fn a_service_is_left_when_all_has_come() {
    let plan = Plan {
        partner: Partner::Service,
        bytes: 100_000,
        ..plan(Kind::Stream, Flow::Receive)
    };
    let (near, far) = pair(plan.kind);
    let pattern = Pattern::counting();
    let lane = pattern.lane(0, Side::Listen);
    far.send(lane.at(0, 100_500), MsgFlags::empty()).unwrap();
    let deadline = Instant::now() + plan.timeout;
    // The other end stays open: only the amount says that it is over.
    let report = transfer(&plan, &pattern, vec![near], deadline);
    assert!(report.exact, "{}", what(&report));
    assert_eq!(report.received.bytes, 100_000);
}

#[test]
fn hard_habits_are_exact() {
    let habits = [
        Habits {
            mixed: true,
            ..Habits::default()
        },
        Habits {
            mute: true,
            rcvlowat: Some(5000),
            ..Habits::default()
        },
        Habits {
            read_when_full: true,
            ..Habits::default()
        },
    ];
    for habits in habits {
        let plan = Plan {
            habits,
            // What a UNIX socket holds before its reader begins.
            buffer_size: Some(20_000),
            ..plan(Kind::Stream, Flow::Send)
        };
        let (near, far) = both_ends(&plan);
        assert!(near.exact && far.exact, "{} {}", what(&near), what(&far));
    }
}

#[test]
fn messages_are_peeked_at_and_truncated() {
    let plan = Plan {
        habits: Habits {
            mixed: true,
            peek: true,
            truncate: true,
            ..Habits::default()
        },
        ..plan(Kind::Seqpacket, Flow::Send)
    };
    let (near, far) = both_ends(&plan);
    assert!(near.exact && far.exact, "{} {}", what(&near), what(&far));
}

#[test]
fn a_sender_says_nothing_before_the_peer_is_mute() {
    let habits = Habits {
        mute: true,
        ..Habits::default()
    };
    let plan = Plan {
        habits,
        timeout: Duration::from_millis(200),
        ..plan(Kind::Stream, Flow::Send)
    };
    let (near, _far) = pair(plan.kind);
    let deadline = Instant::now() + plan.timeout;
    let report = transfer(&plan, &Pattern::new(plan.seed), vec![near], deadline);
    assert!(!report.exact && report.sent.bytes == 0, "{}", what(&report));
}
