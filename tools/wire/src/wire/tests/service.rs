// SPDX-License-Identifier: GPL-2.0
//! The host's services, as a guest's driver sees them.

use serde_json::Value;

use super::*;
use crate::header::{SHUTDOWN_BOTH, SHUTDOWN_SEND, TYPE_STREAM};
use crate::testing::Received;

const CLIENT_PORT: u32 = 1000;

/// A guest with one connection to a service.
struct Client {
    wire: Wire,
    guest: Guest,
    kind: u16,
    port: u32,
    buffer: u32,
    received: u32,
}

impl Client {
    fn new(service: &str, kind: u16, buffer: u32) -> Self {
        let spec: ServiceSpec = service.parse().unwrap();
        let port = spec.port;
        Self::with_services(&[spec], port, kind, buffer)
    }

    /// A client of the one at `port`.
    fn with_services(services: &[ServiceSpec], port: u32, kind: u16, buffer: u32) -> Self {
        let ports = [PortSpec {
            cid: 3,
            socket: "/3".into(),
        }];
        let mut wire = Wire::new(&ports, UsedBatch::On, services);
        let guest = Guest::new(&mut wire, 0);
        Client {
            wire,
            guest,
            kind,
            port,
            buffer,
            received: 0,
        }
    }

    /// A client whose connection stands.
    fn connected(service: &str, kind: u16, buffer: u32) -> Self {
        let mut client = Self::new(service, kind, buffer);
        client.say(op::REQUEST, 0, b"");
        client.guest.post(0);
        client.guest.kick(&mut client.wire, Side::Rx);
        let response = client.guest.receive();
        assert_eq!(response[0].header.op.get(), op::RESPONSE);
        client
    }

    fn header(&self, op: u16, flags: u32, len: usize) -> Header {
        Header {
            op: op.into(),
            flags: flags.into(),
            kind: self.kind.into(),
            src_port: CLIENT_PORT.into(),
            dst_port: self.port.into(),
            buf_alloc: self.buffer.into(),
            fwd_cnt: self.received.into(),
            ..rw(3, 2, len)
        }
    }

    fn say(&mut self, op: u16, flags: u32, payload: &[u8]) {
        let header = self.header(op, flags, payload.len());
        self.guest.send(&mut self.wire, &header, payload);
    }

    /// All that the host has to say.
    fn hear(&mut self) -> Vec<Received> {
        let mut heard = Vec::new();
        loop {
            let mut news = self.guest.receive();
            self.guest.fill(4096);
            self.guest.kick(&mut self.wire, Side::Rx);
            news.extend(self.guest.receive());
            if news.is_empty() {
                return heard;
            }
            for packet in &news {
                assert_eq!(packet.header.src_cid.get(), 2);
                assert_eq!(packet.header.src_port.get(), self.port);
                assert_eq!(packet.header.dst_port.get(), CLIENT_PORT);
                assert_eq!(packet.header.kind.get(), self.kind);
            }
            heard.extend(news);
        }
    }

    /// Operation, length and flags of all that the host has to say.
    fn outline(&mut self) -> Vec<(u16, usize, u32)> {
        let outline = |p: Received| (p.header.op.get(), p.payload.len(), p.header.flags.get());
        self.hear().into_iter().map(outline).collect()
    }

    fn report(&self) -> Value {
        let report = serde_json::to_value(self.wire.report()).unwrap();
        report["ports"][0]["services"][0].clone()
    }
}

const RESET: (u16, usize, u32) = (op::RST, 0, 0);
const GOODBYE: (u16, usize, u32) = (op::SHUTDOWN, 0, SHUTDOWN_BOTH);

#[test]
fn only_requests_to_a_service_open_a_connection() {
    let mut client = Client::new("sink=7", TYPE_STREAM, 1000);
    for op in [op::RW, op::RESPONSE, op::SHUTDOWN, op::CREDIT_REQUEST, 99] {
        client.say(op, 0, b"");
        assert_eq!(client.outline(), [RESET], "{op}");
    }
    client.say(op::RST, 0, b"");
    assert_eq!(client.outline(), []);
    client.port = 8;
    client.say(op::REQUEST, 0, b"");
    assert_eq!(client.outline(), [RESET]);
    (client.port, client.kind) = (7, 3);
    client.say(op::REQUEST, 0, b"");
    assert_eq!(client.outline(), [RESET]);
    assert_eq!(client.report()["connections"], 0);
}

#[test]
fn a_sink_takes_all_and_gives_credit() {
    let mut client = Client::connected("sink=7,buffer=128K", TYPE_STREAM, 1000);
    let data = bytes(30_000);
    client.say(op::RW, 0, &data);
    assert_eq!(client.outline(), []);
    client.say(op::RW, 0, &data);
    let update = client.hear().remove(0).header;
    assert_eq!(update.op.get(), op::CREDIT_UPDATE);
    assert_eq!(update.buf_alloc.get(), 128 * 1024);
    assert_eq!(update.fwd_cnt.get(), 60_000);

    client.say(op::CREDIT_REQUEST, 0, b"");
    assert_eq!(client.outline(), [(op::CREDIT_UPDATE, 0, 0)]);

    client.say(op::SHUTDOWN, SHUTDOWN_SEND, b"");
    assert_eq!(client.outline(), [GOODBYE]);
    client.say(op::RST, 0, b"");
    let report = client.report();
    assert_eq!(
        (&report["bytes_in"], &report["packets_in"]),
        (&60_000.into(), &2.into())
    );
    assert_eq!((&report["open"], &report["broken"]), (&0.into(), &0.into()));
}

#[test]
fn an_orderly_end_is_confirmed() {
    let mut client = Client::connected("sink=7", TYPE_STREAM, 1000);
    client.say(op::SHUTDOWN, SHUTDOWN_BOTH, b"");
    assert_eq!(client.outline(), [RESET]);
    assert_eq!(client.report()["open"], 0);
}

#[test]
fn a_source_keeps_to_its_credit_exactly() {
    let mut client = Client::connected("source=7,size=300,bytes=1000", TYPE_STREAM, 700);
    assert_eq!(client.outline(), [(op::RW, 300, 0); 2]);
    client.received = 199;
    client.say(op::CREDIT_UPDATE, 0, b"");
    assert_eq!(client.outline(), [], "299 bytes of room are not 300");
    client.received = 200;
    client.say(op::CREDIT_UPDATE, 0, b"");
    assert_eq!(client.outline(), [(op::RW, 300, 0)]);
    client.received = 900;
    client.say(op::CREDIT_UPDATE, 0, b"");
    assert_eq!(client.outline(), [(op::RW, 100, 0), GOODBYE]);
    assert_eq!(client.report()["bytes_out"], 1000);
}

#[test]
fn packets_that_never_fit_are_cut_and_messages_end_once() {
    let mut client = Client::connected("source=7,size=300,bytes=300", TYPE_SEQPACKET, 200);
    assert_eq!(client.outline(), [(op::RW, 200, 0)]);
    client.received = 150;
    client.say(op::CREDIT_UPDATE, 0, b"");
    assert_eq!(client.outline(), [(op::RW, 100, FLAG_EOM), GOODBYE]);
}

#[test]
fn a_source_is_no_faster_than_the_ring() {
    let mut client = Client::connected("source=7,size=1", TYPE_STREAM, u32::MAX);
    for _ in 0..10 {
        client.guest.fill(64);
        client.guest.kick(&mut client.wire, Side::Rx);
        assert_eq!(client.guest.receive().len(), usize::from(RING));
        let waiting = client.wire.report().ports[0].waiting;
        assert!(waiting > 0 && waiting <= 256, "{waiting}");
    }
}

#[test]
fn more_than_credit_allows_is_a_reset() {
    let mut client = Client::connected("echo=7,buffer=100", TYPE_STREAM, 0);
    client.say(op::RW, 0, &bytes(100));
    assert_eq!(client.outline(), [], "the client has no room for the echo");
    client.say(op::RW, 0, b"x");
    assert_eq!(client.outline(), [RESET]);
    let report = client.report();
    assert_eq!(
        (&report["overflows"], &report["open"]),
        (&1.into(), &0.into())
    );
    assert_eq!(report["bytes_in"], 100);
}

#[test]
fn an_echo_returns_messages_and_then_the_room_they_took() {
    let mut client = Client::connected("echo=7,buffer=100", TYPE_SEQPACKET, 1000);
    let data = bytes(100);
    client.say(op::RW, 0, &data[..60]);
    client.say(op::RW, FLAG_EOM, &data[60..]);
    let heard = client.hear();
    assert_eq!(heard[0].payload, data[..60]);
    assert_eq!(heard[0].header.flags.get(), 0);
    assert_eq!(heard[0].header.fwd_cnt.get(), 60);
    assert_eq!(heard[1].payload, data[60..]);
    assert_eq!(heard[1].header.flags.get(), FLAG_EOM);
    assert_eq!(heard[1].header.fwd_cnt.get(), 100);
    client.say(op::RW, FLAG_EOM, &data);
    client.say(op::SHUTDOWN, SHUTDOWN_SEND, b"");
    assert_eq!(client.outline(), [(op::RW, 100, FLAG_EOM), GOODBYE]);
}

#[test]
fn ping_pong_counts_round_trips() {
    let mut client = Client::connected("ping-pong=7,size=10,bytes=30", TYPE_STREAM, 1000);
    for _ in 0..3 {
        let heard = client.hear();
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0].payload.len(), 10);
        client.received += 10;
        client.say(op::RW, 0, &heard[0].payload);
    }
    assert_eq!(client.outline(), [GOODBYE]);
    assert_eq!(client.report()["round_trips"]["count"], 3);
}

#[test]
fn rules_end_a_connection_that_breaks_them() {
    let breaks: [fn(&mut Client); 5] = [
        |client| client.say(op::REQUEST, 0, b""),
        |client| client.say(op::RESPONSE, 0, b""),
        |client| client.say(0, 0, b""),
        |client| client.say(8, 0, b""),
        |client| {
            client.say(op::SHUTDOWN, SHUTDOWN_SEND, b"");
            assert_eq!(client.outline(), [GOODBYE]);
            client.say(op::RW, 0, b"late");
        },
    ];
    for (n, rule) in breaks.iter().enumerate() {
        let mut client = Client::connected("sink=7", TYPE_STREAM, 1000);
        rule(&mut client);
        assert_eq!(client.outline(), [RESET], "{n}");
        assert_eq!(client.report()["broken"], 1, "{n}");
        client.say(op::REQUEST, 0, b"");
        assert_eq!(client.outline(), [(op::RESPONSE, 0, 0)], "{n}");
    }
    let mut client = Client::connected("sink=7", TYPE_STREAM, 1000);
    client.kind = TYPE_SEQPACKET;
    client.say(op::RW, 0, b"x");
    assert_eq!(client.outline(), [RESET]);
}

#[test]
fn connections_take_turns_and_end_with_their_driver() {
    let mut client = Client::new("source=7,size=1", TYPE_STREAM, u32::MAX);
    for port in [1, 2, 3] {
        let mut request = client.header(op::REQUEST, 0, 0);
        request.src_port = port.into();
        client.guest.send(&mut client.wire, &request, b"");
    }
    let mut seen = Vec::new();
    for _ in 0..60 {
        client.guest.fill(64);
        client.guest.kick(&mut client.wire, Side::Rx);
        let ports = client.guest.receive();
        seen.extend(ports.iter().map(|p| p.header.dst_port.get()));
    }
    for port in [1, 2, 3] {
        let count = seen.iter().filter(|&&p| p == port).count();
        assert!(count >= 200, "port {port} had {count} of {}", seen.len());
    }
    client.guest.stop(&mut client.wire);
    assert_eq!(client.report()["open"], 0);
    client.guest.start(&mut client.wire);
    client.say(op::RW, 0, b"x");
    assert_eq!(client.outline(), [RESET]);
}

/// A guest whose ring is full of one connection's packets gets those of another
/// before any more of them.
#[test]
fn who_sends_much_does_not_stand_in_front_of_others() {
    let services = ["source=7,size=1", "echo=8"].map(|spec| spec.parse().unwrap());
    let mut client = Client::with_services(&services, 7, TYPE_STREAM, u32::MAX);
    client.say(op::REQUEST, 0, b"");
    client.port = 8;
    client.say(op::REQUEST, 0, b"");
    for _ in 0..20 {
        client.guest.fill(64);
        client.guest.kick(&mut client.wire, Side::Rx);
        client.guest.receive();
        client.say(op::RW, 0, b"x");
        client.guest.fill(64);
        client.guest.kick(&mut client.wire, Side::Rx);
        let ports: Vec<u32> = client
            .guest
            .receive()
            .iter()
            .map(|p| p.header.src_port.get())
            .collect();
        assert!(ports[..2].contains(&8), "{ports:?}");
        assert_eq!(ports.len(), usize::from(RING));
    }
}

#[test]
fn storms_of_connections_leave_nothing_behind() {
    let mut client = Client::new("source=7,size=1", TYPE_STREAM, u32::MAX);
    for _ in 0..1000 {
        client.say(op::REQUEST, 0, b"");
        client.say(op::RST, 0, b"");
    }
    assert_eq!(client.report()["connections"], 1000);
    assert_eq!(client.report()["open"], 0);
    assert!(client.wire.report().ports[0].waiting <= 256);
}

#[test]
fn a_service_can_publish_in_its_own_way() {
    for (option, publications) in [("", 1), (",used-batch=off", 10), (",used-batch=4", 3)] {
        let service = format!("source=7,size=10,bytes=100{option}");
        let mut client = Client::connected(&service, TYPE_STREAM, 1000);
        let before = client.wire.stats(0).rx_queue.clone();
        for _ in 0..10 {
            client.guest.post(64);
        }
        client.guest.kick(&mut client.wire, Side::Rx);
        let after = client.wire.stats(0).rx_queue.clone();
        assert_eq!(after.used - before.used, 10);
        assert_eq!(
            after.publications - before.publications,
            publications,
            "{option}"
        );
    }
}
