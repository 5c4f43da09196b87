// SPDX-License-Identifier: GPL-2.0
//! Scripts, as a guest's driver sees what they do.

use super::*;
use crate::header::TYPE_STREAM;
use crate::hostile::report::OTHERS;
use crate::testing::Received;

/// The guest's port of its connections.
const PORT: u32 = 1000;

/// A guest, and a script under way.
struct Stage {
    wire: Wire,
    guest: Guest,
    over: std::sync::mpsc::Receiver<()>,
}

impl Stage {
    fn new(script: &str) -> Self {
        let ports = [PortSpec {
            cid: 3,
            socket: "/3".into(),
        }];
        let services = ["echo=7".parse().unwrap()];
        let mut wire = Wire::new(&ports, UsedBatch::On, &services);
        let guest = Guest::new(&mut wire, 0);
        let script = script.parse().unwrap();
        let over = wire.start_script(PortId(0), script).unwrap();
        while wire.work() {}
        Stage { wire, guest, over }
    }

    fn header(to: u32, op: u16, len: usize) -> Header {
        Header {
            op: op.into(),
            src_port: PORT.into(),
            dst_port: to.into(),
            buf_alloc: 1000.into(),
            ..rw(3, 2, len)
        }
    }

    fn say(&mut self, to: u32, op: u16, payload: &[u8]) {
        let header = Self::header(to, op, payload.len());
        self.guest.send(&mut self.wire, &header, payload);
    }

    /// Post buffers, and take what comes.
    fn hear(&mut self, buffers: usize) -> Vec<(u16, u32)> {
        for _ in 0..buffers {
            self.guest.post(100);
        }
        self.guest.kick(&mut self.wire, Side::Rx);
        self.guest.used(Side::Rx)
    }

    fn receive(&mut self, buffers: usize) -> Vec<Received> {
        for _ in 0..buffers {
            self.guest.post(100);
        }
        self.guest.kick(&mut self.wire, Side::Rx);
        self.guest.receive()
    }

    fn tick(&mut self, milliseconds: u64) {
        let later = Instant::now() + std::time::Duration::from_millis(milliseconds);
        self.wire.tick(PortId(0), later);
        while self.wire.work() {}
    }

    /// The script's end; it must have come.
    fn end(mut self) -> ScriptReport {
        assert!(self.over.try_recv().is_ok(), "the script is not over");
        let report = self.wire.end_script(PortId(0));
        assert_eq!(self.wire.ports[0].report().holding, 0);
        report
    }
}

fn ops(received: &[Received]) -> Vec<u16> {
    received
        .iter()
        .map(|packet| packet.header.op.get())
        .collect()
}

#[test]
fn an_honest_beginning_and_then_a_packet_too_many() {
    let mut stage = Stage::new(
        "accept a at=5000
         send a payload=60
         send a payload=credit+1 used=posted
         send a payload=1 len=right+1 used=max buf_alloc=0 fwd_cnt=right-1
         wait a op=rst",
    );
    stage.say(5000, op::REQUEST, b"");
    let got = stage.hear(4);
    assert_eq!(
        got.iter().map(|(_, len)| *len).collect::<Vec<_>>(),
        [44, 104, 144, u32::MAX]
    );
    stage.say(5000, op::RST, b"");
    let report = stage.end();
    assert_eq!(report.error, None);
    assert_eq!((report.sent, report.publications), (4, 4));
    assert_eq!(report.wrong, 2);
    assert_eq!(report.answers[OTHERS], [("request".into(), 1)].into());
    assert_eq!(report.answers["a"], [("rst".into(), 1)].into());
}

#[test]
fn headers_are_right_but_for_what_is_said() {
    let mut stage = Stage::new(
        "serve a at=5000
         wait ms=0
         repeat 2
           send a payload=3 op=9 src=77 src_port=a.guest+i
         end
         send type=5 dst_port=8 op=rst",
    );
    stage.say(5000, op::REQUEST, b"");
    let got = stage.receive(4);
    let right = Header {
        src_cid: 2.into(),
        dst_cid: 3.into(),
        src_port: 5000.into(),
        dst_port: PORT.into(),
        kind: TYPE_STREAM.into(),
        op: op::RESPONSE.into(),
        buf_alloc: (256 * 1024).into(),
        ..Header::zeroed()
    };
    // The first went out before there was a connection; the script does not wait for one.
    assert_eq!(got.len(), 4);
    assert!(got.iter().any(|packet| packet.header == right), "{got:?}");
    let last = &got[3].header;
    assert_eq!(
        (last.kind.get(), last.dst_port.get(), last.op.get()),
        (5, 8, op::RST)
    );
    assert_eq!(stage.end().error, None);
}

#[test]
fn a_batch_is_shown_at_once_in_any_order_and_ids_can_be_told_again() {
    let mut stage = Stage::new(
        "batch reversed
           repeat 3
             send payload=i
           end
         end
         send id=last used=9
         send id=70000 used=0",
    );
    let got = stage.hear(5);
    assert_eq!(got[..3], [(2, 46), (1, 45), (0, 44)]);
    assert_eq!(got[3], (0, 9), "the last id that was used, and its length");
    assert_eq!(got[4], (70000u32 as u16, 0));
    let stats = stage.wire.stats(0).rx_queue.clone();
    assert_eq!((stats.used, stats.publications), (5, 3));
    stage.end();
}

#[test]
fn a_batch_that_is_too_long_for_the_buffers_goes_on_when_there_are_more() {
    let mut stage = Stage::new("batch\nrepeat 20\nsend\nend\nend");
    assert_eq!(stage.hear(8).len(), 8);
    assert_eq!(stage.hear(8).len(), 8);
    assert_eq!(stage.hear(8).len(), 4);
    let report = stage.end();
    assert_eq!((report.sent, report.publications), (20, 3));
    assert_eq!(report.wrong, 20, "they are of no connection");
}

#[test]
fn a_header_changes_after_it_was_shown_and_is_as_it_was_again() {
    let mut stage = Stage::new("batch\nsend payload=5\nend\nchange us=2000 len=0 op=rst");
    stage.guest.interrupted(Side::Rx);
    let got = stage.receive(1);
    assert_eq!(
        (got[0].header.len.get(), got[0].header.op.get()),
        (5, op::RW)
    );
    assert!(stage.guest.interrupted(Side::Rx));
    stage.end();
}

#[test]
fn chains_are_kept_until_they_are_let_go_of() {
    let mut stage = Stage::new("hold\nwait count=2\nwait op=rst\nrelease\nwait ms=0");
    stage.say(5000, op::RW, b"a");
    stage.say(5000, op::RW, b"b");
    assert!(!stage.guest.has_used(Side::Tx));
    stage.say(5000, op::RST, b"");
    assert_eq!(stage.guest.used(Side::Tx).len(), 3);
    stage.end();
}

#[test]
fn kept_chains_go_back_at_the_end_and_when_the_driver_leaves() {
    let mut stage = Stage::new("hold\nwait reset");
    stage.say(5000, op::RW, b"a");
    stage.say(7, op::REQUEST, b"");
    assert!(!stage.guest.has_used(Side::Tx), "a service's as well");
    stage.guest.stop(&mut stage.wire);
    assert_eq!(stage.guest.used(Side::Tx).len(), 2);
    assert_eq!(stage.end().error, None);

    let mut stage = Stage::new("hold\nwait ms=50");
    stage.say(5000, op::RW, b"a");
    stage.tick(60);
    stage.guest.kick(&mut stage.wire, Side::Tx);
    assert_eq!(stage.guest.used(Side::Tx).len(), 1);
    stage.end();
}

#[test]
fn a_deaf_device_takes_nothing() {
    let mut stage = Stage::new("deaf\nwait ms=50\nlisten\nwait op=rst");
    stage.say(5000, op::RST, b"");
    assert!(!stage.guest.has_used(Side::Tx));
    stage.tick(60);
    assert_eq!(stage.guest.used(Side::Tx).len(), 1);
    stage.end();
}

#[test]
fn services_are_served_meanwhile() {
    let mut stage = Stage::new("wait op=rst within=60000");
    stage.say(7, op::REQUEST, b"");
    assert_eq!(ops(&stage.receive(1)), [op::RESPONSE]);
    stage.say(7, op::RW, b"echo");
    let got = stage.receive(1);
    assert_eq!(got[0].payload, b"echo");
    stage.say(5000, op::RST, b"");
    assert_eq!(stage.end().answers[OTHERS], [("rst".into(), 1)].into());
}

#[test]
fn a_wait_in_vain_ends_the_script_and_says_what_for() {
    let mut stage = Stage::new("wait op=rst count=3 within=20");
    stage.say(5000, op::RST, b"");
    stage.tick(30);
    let error = stage.end().error.unwrap();
    assert!(
        error.contains("in vain for 3 packets with operation rst; 1 came"),
        "{error}"
    );
}

#[test]
fn a_name_that_stands_for_nothing_is_an_error() {
    let mut stage = Stage::new("send a");
    stage.hear(1);
    let error = stage.end().error.unwrap();
    assert!(error.contains("no connection 'a'"), "{error}");
}

#[test]
fn a_connection_to_the_guest_is_one_that_it_accepts() {
    let mut stage = Stage::new("connect a from=5000 to=1000 type=seqpacket\nsend a flags=eom");
    let got = stage.receive(1);
    assert_eq!(
        (got[0].header.op.get(), got[0].header.kind.get()),
        (op::REQUEST, TYPE_SEQPACKET)
    );
    stage.say(5000, op::RESPONSE, b"");
    let got = stage.receive(1);
    assert_eq!(
        (got[0].header.op.get(), got[0].header.flags.get()),
        (op::RW, FLAG_EOM)
    );
    stage.end();

    let mut stage = Stage::new("connect a from=5000 to=1000");
    stage.receive(1);
    stage.say(5000, op::RST, b"");
    let error = stage.end().error.unwrap();
    assert!(
        error.contains("answered the request of a with rst"),
        "{error}"
    );
}

#[test]
fn after_a_sync_all_was_dealt_with() {
    let mut stage = Stage::new("send\nsync\nsend op=rst\nsync");
    for _ in 0..2 {
        let got = stage.receive(2);
        assert_eq!(got.len(), 2);
        let reset = got[1].header.reset().unwrap();
        stage.guest.send(&mut stage.wire, &reset, b"");
    }
    let report = stage.end();
    assert_eq!(report.error, None);
    assert!(report.answers.is_empty(), "its own probes are not counted");
}

#[test]
fn bursts_repeat_with_their_seed() {
    let headers = |seed: u64, first: u64| {
        let mut stage = Stage::new(&format!(
            "seed {seed}\nserve a at=5000\nserve b at=5001\nserve s at=5002\nfuzz first={first} bursts=3"
        ));
        let mut heads = Vec::new();
        for _ in 0..100 {
            heads.extend(stage.hear(4).iter().map(|(_, len)| *len));
        }
        stage.end();
        heads
    };
    assert_eq!(headers(1, 0), headers(1, 0));
    assert_ne!(headers(1, 0), headers(2, 0));
    assert_ne!(headers(1, 0), headers(1, 1));
}

#[test]
fn a_drivers_first_buffers_are_used_before_it_tells_of_them() {
    let mut stage = Stage::new("send");
    assert!(!stage.wire.is_watching(PortId(0)), "the driver was there");
    stage.guest.stop(&mut stage.wire);
    stage.guest.start(&mut stage.wire);
    assert!(stage.wire.is_watching(PortId(0)));
    stage.guest.post(100);
    assert!(!stage.guest.has_used(Side::Rx));
    stage.tick(1);
    assert!(stage.guest.has_used(Side::Rx));
    assert!(!stage.wire.is_watching(PortId(0)));
    stage.end();
}

#[test]
fn the_longest_wait_for_the_guest_is_told() {
    let mut stage = Stage::new("wait op=rst\nwait ms=50");
    stage.tick(30);
    stage.say(5000, op::RST, b"");
    stage.tick(200);
    let slowest = stage.end().slowest;
    assert!((0.03..0.2).contains(&slowest), "{slowest}");
}

#[test]
fn an_event_needs_a_queue_that_is_the_wires_to_serve() {
    let mut stage = Stage::new("event cid=7");
    stage.tick(30_000);
    assert_eq!(stage.wire.cid(PortId(0)), 3, "it was not told of another");
    let error = stage.end().error.unwrap();
    assert!(error.contains("a buffer in an event queue"), "{error}");
}

#[test]
fn one_script_at_a_time() {
    let mut stage = Stage::new("wait ms=1000");
    let other = stage.wire.start_script(PortId(0), Script::default());
    assert!(
        other
            .unwrap_err()
            .to_string()
            .contains("another script runs")
    );
    assert_eq!(
        stage.wire.end_script(PortId(0)).error.unwrap(),
        "it was aborted"
    );
}
