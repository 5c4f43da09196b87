// SPDX-License-Identifier: GPL-2.0
//! Captures that are in order, and one for each way in which they can be not.

use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use vsock_wire::header::{Header, SHUTDOWN_BOTH, SHUTDOWN_SEND, TYPE_STREAM, op};
use zerocopy::IntoBytes;

use crate::check::{Opened, Summary, check};
use crate::connection::End;
use crate::file::{LINK, Unreadable, read};
use crate::packet::{Malformed, MonitorHeader, Packet, TRANSPORT_VIRTIO, monitor_op};

const GUEST: (u64, u32) = (3, 1000);
const HOST: (u64, u32) = (2, 80);
const ROOM: u32 = 4096;

/// A packet of the guest, which connects, or of the host.
fn packet(guest: bool, op: u16) -> Packet {
    let (source, target) = if guest { (GUEST, HOST) } else { (HOST, GUEST) };
    Packet {
        header: Header {
            src_cid: source.0.into(),
            dst_cid: target.0.into(),
            src_port: source.1.into(),
            dst_port: target.1.into(),
            kind: TYPE_STREAM.into(),
            op: op.into(),
            buf_alloc: ROOM.into(),
            ..Header::zeroed()
        },
        payload: Vec::new(),
    }
}

fn forwarded(mut packet: Packet, count: u32) -> Packet {
    packet.header.fwd_cnt = count.into();
    packet
}

fn shutdown(guest: bool, flags: u32) -> Packet {
    let mut packet = packet(guest, op::SHUTDOWN);
    packet.header.flags = flags.into();
    packet
}

/// Data as it stands at an offset of either stream.
fn data(guest: bool, offset: usize, len: usize) -> Packet {
    let mut packet = packet(guest, op::RW);
    packet.header.len = (len as u32).into();
    packet.payload = (offset..offset + len).map(|at| (at % 251) as u8).collect();
    packet
}

fn compare(_: &Opened, _: End, offset: u64, got: &[u8]) -> Result<(), String> {
    let expected = |index: usize| ((offset as usize + index) % 251) as u8;
    let good = got
        .iter()
        .enumerate()
        .all(|(at, byte)| *byte == expected(at));
    good.then_some(())
        .ok_or_else(|| format!("the data is not that of offset {offset}"))
}

/// A whole life: both send, the guest reads, and shuts down before the host does.
fn life() -> Vec<Packet> {
    vec![
        packet(true, op::REQUEST),
        packet(false, op::RESPONSE),
        data(true, 0, 3000),
        data(false, 0, 1000),
        data(true, 3000, 1096),
        forwarded(packet(false, op::CREDIT_UPDATE), 4096),
        data(true, 4096, 4096),
        forwarded(shutdown(true, SHUTDOWN_SEND), 1000),
        forwarded(data(false, 1000, 500), 8192),
        forwarded(shutdown(false, SHUTDOWN_BOTH), 8192),
        forwarded(packet(true, op::RST), 1500),
    ]
}

/// What is wrong with a capture: its frame and the first words.
fn wrong(packets: &[Packet]) -> Vec<(usize, String)> {
    let violations = check(packets, compare).expect_err("it is not in order");
    let shown = |violation: crate::Violation| (violation.frame, violation.what);
    violations.into_iter().map(shown).collect()
}

/// It has this one fault.
fn has(packets: &[Packet], frame: usize, words: &str) {
    let wrong = wrong(packets);
    assert!(
        wrong.len() == 1 && wrong[0].0 == frame && wrong[0].1.contains(words),
        "{wrong:?} is not {words:?} in frame {frame}"
    );
}

#[test]
fn a_whole_life_is_in_order() {
    let Summary {
        packets,
        connections,
    } = check(&life(), compare).unwrap();
    assert_eq!(packets, 11);
    assert_eq!(connections.len(), 1);
    assert_eq!(connections[0].1, [8192, 1500]);
}

#[test]
fn an_address_pair_may_be_used_again_after_a_reset() {
    let twice = [life(), life()].concat();
    let summary = check(&twice, compare).unwrap();
    let numbers: Vec<u32> = summary
        .connections
        .iter()
        .map(|(opened, _)| opened.number)
        .collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn more_in_flight_than_granted_is_refused() {
    let mut packets = life();
    packets[4] = data(true, 3000, 1097);
    has(
        &packets[..5],
        5,
        "4097 bytes are in flight, and 4096 were granted",
    );
}

#[test]
fn a_smaller_buffer_takes_nothing_back_and_grants_nothing() {
    let mut packets = life();
    let mut smaller = packet(false, op::CREDIT_UPDATE);
    smaller.header.buf_alloc = 100.into();
    packets.insert(3, smaller);
    check(&packets[..6], compare).unwrap();
    packets[6] = forwarded(packet(false, op::CREDIT_UPDATE), 4096);
    packets[6].header.buf_alloc = 100.into();
    has(
        &packets[..8],
        8,
        "4096 bytes are in flight, and 100 were granted",
    );
}

#[test]
fn a_receivers_count_that_goes_backwards_is_refused() {
    let mut packets = life();
    packets.insert(6, forwarded(packet(false, op::CREDIT_UPDATE), 4095));
    has(
        &packets[..7],
        7,
        "fwd_cnt 4095 is behind the last one, 4096",
    );
}

#[test]
fn a_receivers_count_may_pass_the_end_of_its_32_bits() {
    let step: u32 = 1 << 30;
    let mut packets = life()[..2].to_vec();
    for packet in &mut packets {
        packet.header.buf_alloc = u32::MAX.into();
    }
    for round in 1..=9_u32 {
        // Only the length in the header counts, so that this takes no room.
        let mut huge = data(true, 0, 0);
        huge.header.len = step.into();
        packets.push(huge);
        let mut update = packet(false, op::CREDIT_UPDATE);
        update.header.buf_alloc = step.into();
        packets.push(forwarded(update, step.wrapping_mul(round)));
    }
    let summary = check(&packets, |_, _, _, _| Ok(())).unwrap();
    assert_eq!(summary.connections[0].1[0], 9 << 30);
}

#[test]
fn a_count_of_more_than_was_sent_is_refused() {
    let mut packets = life();
    packets[5] = forwarded(packets[5].clone(), 4097);
    has(&packets[..6], 6, "4097 bytes, and 4096 were sent");
}

#[test]
fn data_behind_a_shutdown_is_refused() {
    let mut packets = life();
    packets.insert(10, forwarded(data(true, 8192, 1), 1000));
    has(&packets[..11], 11, "behind its sender's SHUTDOWN(SEND)");
}

#[test]
fn a_shutdown_of_receiving_stops_no_data() {
    let mut packets = life();
    packets[7] = forwarded(shutdown(true, 1), 1000);
    packets.insert(9, forwarded(data(true, 8192, 1), 1000));
    check(&packets[..10], compare).unwrap();
}

#[test]
fn data_that_was_captured_twice_is_refused() {
    let mut packets = life();
    packets.insert(4, packets[3].clone());
    let wrong = wrong(&packets[..5]);
    assert_eq!(
        wrong,
        [(5, "it is frame 4 once more: captured twice".to_owned())]
    );
}

#[test]
fn a_request_or_response_that_was_captured_twice_is_refused() {
    let mut packets = life();
    packets.insert(1, packets[0].clone());
    has(&packets[..2], 2, "there already: captured twice");
    let mut packets = life();
    packets.insert(2, packets[1].clone());
    has(&packets[..3], 3, "answered before: captured twice");
}

#[test]
fn lost_and_reordered_data_is_refused() {
    let mut packets = life();
    packets.remove(2);
    assert!(wrong(&packets)[0].1.contains("not that of offset 0"));
    let mut packets = life();
    packets.swap(2, 4);
    assert!(wrong(&packets)[0].1.contains("not that of offset 0"));
}

#[test]
fn what_comes_before_the_response_or_after_a_reset_is_refused() {
    let mut packets = life();
    packets.swap(1, 2);
    assert!(wrong(&packets)[0].1.contains("not answered yet"));
    let mut packets = life();
    packets.push(forwarded(packet(true, op::CREDIT_UPDATE), 1500));
    has(&packets, 12, "has reset the connection before");
}

#[test]
fn what_nobody_asked_for_is_refused_but_its_reset_is_not() {
    has(&[data(true, 0, 1)], 1, "nobody has asked");
    check(&[packet(true, op::RST)], compare).unwrap();
}

#[test]
fn payload_of_a_packet_that_has_none_is_refused() {
    let mut packets = life();
    packets[5].payload = vec![0];
    has(&packets, 6, "its operation has no payload");
}

fn frame(packet: &Packet) -> Vec<u8> {
    let header = &packet.header;
    let monitor = MonitorHeader {
        src_cid: header.src_cid,
        dst_cid: header.dst_cid,
        src_port: header.src_port,
        dst_port: header.dst_port,
        op: monitor_op(header.op.get()).into(),
        transport: TRANSPORT_VIRTIO.into(),
        len: (header.as_bytes().len() as u16).into(),
        reserved: [0; 2],
    };
    [monitor.as_bytes(), header.as_bytes(), &packet.payload].concat()
}

fn file(link: u32, packets: &[Packet], cut: usize) -> Vec<u8> {
    let header = PcapHeader {
        datalink: DataLink::from(link),
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for packet in packets {
        let frame = frame(packet);
        let length = frame.len() as u32;
        let frame =
            PcapPacket::new_owned(Duration::ZERO, length, frame[..frame.len() - cut].to_vec());
        writer.write_packet(&frame).unwrap();
    }
    writer.into_writer()
}

#[test]
fn a_file_gives_back_its_packets() {
    assert_eq!(read(&file(LINK, &life(), 0)[..]).unwrap(), life());
}

#[test]
fn other_files_are_refused() {
    let refused = |file: &[u8]| read(file).unwrap_err();
    assert!(matches!(
        refused(b"no capture, but long enough"),
        Unreadable::Format(_)
    ));
    assert!(matches!(refused(&file(1, &life(), 0)), Unreadable::Link(1)));
    let cut = refused(&file(LINK, &life(), 1));
    assert!(matches!(cut, Unreadable::Cut { number: 1, .. }), "{cut}");
}

#[test]
fn malformed_frames_are_refused() {
    let good = frame(&data(true, 0, 10));
    assert!(matches!(
        Packet::parse(&good[..75]),
        Err(Malformed::Short(75))
    ));
    let parse = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        Packet::parse(&bad).unwrap_err()
    };
    assert!(matches!(
        parse(26, 1),
        Malformed::Transport { transport: 1, .. }
    ));
    assert!(matches!(parse(0, 9), Malformed::Disagreement { .. }));
    assert!(matches!(parse(24, 1), Malformed::Disagreement { .. }));
    assert!(matches!(
        parse(56, 11),
        Malformed::Payload {
            told: 11,
            there: 10
        }
    ));
}
