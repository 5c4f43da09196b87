// SPDX-License-Identifier: GPL-2.0
//! Ports served over real sockets.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use tempfile::TempDir;
use vhost::vhost_user::message::VhostUserVirtioFeatures;
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};

use super::*;
use crate::args::{PortSpec, UsedBatch};
use crate::header::op;
use crate::port::Side;
use crate::socket::listen;
use crate::testing::{Qemu, bytes, rw};

/// Ports with CIDs from 3, served until the test ends.
struct Served {
    wire: Arc<Mutex<Wire>>,
    sockets: Vec<PathBuf>,
    _folder: TempDir,
}

fn served(ports: u32, seqpacket: bool) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let spec = |cid: u32| PortSpec {
        cid,
        socket: folder.path().join(cid.to_string()),
    };
    let specs: Vec<_> = (3..3 + ports).map(spec).collect();
    let wire = Arc::new(Mutex::new(Wire::new(&specs, UsedBatch::On, &[])));
    for (index, spec) in specs.iter().enumerate() {
        let listener = Listener::from(listen(&spec.socket).unwrap());
        let (wire, cid) = (wire.clone(), spec.cid);
        let offer = Offer {
            seqpacket,
            queue_size: 128,
        };
        thread::spawn(move || serve(&wire, PortId(index), cid, offer, listener));
    }
    Served {
        wire,
        sockets: specs.into_iter().map(|spec| spec.socket).collect(),
        _folder: folder,
    }
}

impl Served {
    fn qemu(&self, port: usize) -> Qemu {
        let mut qemu = Qemu::connect(&self.sockets[port]);
        qemu.start();
        let start = Instant::now();
        // QEMU's last word was heard some time before its queues run.
        while !self.wire.lock().unwrap().report().ports[port].up {
            assert!(
                start.elapsed().as_secs() < 20,
                "port {port} did not come up"
            );
            thread::yield_now();
        }
        qemu
    }
}

#[test]
fn the_device_says_what_it_can_and_its_cid() {
    for seqpacket in [true, false] {
        let served = served(2, seqpacket);
        let mut qemu = Qemu::connect(&served.sockets[1]);
        let bit = |n: u32| qemu.features & (1 << n) != 0;
        assert!(bit(32), "VERSION_1");
        assert!(bit(VIRTIO_RING_F_EVENT_IDX) && bit(VIRTIO_RING_F_INDIRECT_DESC));
        assert!(qemu.features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0);
        assert_eq!(bit(1), seqpacket);
        assert_eq!(qemu.config(0, 8), Some(4u64.to_le_bytes().to_vec()));
        assert_eq!(qemu.config(0, 4), Some(4u32.to_le_bytes().to_vec()));
    }
}

#[test]
fn packets_pass_between_two_sockets() {
    let served = served(2, true);
    let (mut a, mut b) = (served.qemu(0), served.qemu(1));
    let data = bytes(5000);
    b.fill(4000);
    b.kick(Side::Rx);
    let head = a.queue(&rw(3, 4, data.len()), &data);
    a.kick(Side::Tx);
    b.wait(Side::Rx);
    a.wait(Side::Tx);
    let got: Vec<_> = b.receive().into_iter().flat_map(|p| p.payload).collect();
    assert_eq!(got, data);
    assert_eq!(a.used(Side::Tx), [(head, 0)]);

    assert_eq!(a.stop(), [0, 1]);
    assert_eq!(b.stop(), [2, 0]);
}

#[test]
fn a_guest_that_stops_leaves_nothing_held() {
    let served = served(2, true);
    let (mut a, mut b) = (served.qemu(0), served.qemu(1));
    let head = a.queue(&rw(3, 4, 1), b"x");
    a.kick(Side::Tx);
    // The next packet comes back for its source, and so the first was seen.
    a.queue(&rw(9, 4, 1), b"y");
    a.kick(Side::Tx);
    a.wait(Side::Tx);
    assert_eq!(a.stop()[Side::Tx as usize], 2);
    assert!(a.used(Side::Tx).contains(&(head, 0)));
    b.fill(64);
    b.kick(Side::Rx);
    b.wait(Side::Rx);
    assert_eq!(b.receive()[0].payload, b"x");

    a.start();
    a.queue(&rw(3, 4, 1), b"z");
    a.kick(Side::Tx);
    b.wait(Side::Rx);
    assert_eq!(b.receive()[0].payload, b"z");
}

#[test]
fn a_qemu_that_dies_makes_room_for_the_next() {
    let served = served(2, true);
    let mut a = served.qemu(0);
    a.fill(64);
    for life in 1..=5 {
        let b = served.qemu(1);
        let head = a.queue(&rw(3, 4, 1), b"x");
        a.kick(Side::Tx);
        // Nobody took it; when its receiver is gone, this is known.
        drop(b);
        a.wait(Side::Rx);
        assert_eq!(a.receive()[0].header.op.get(), op::RST);
        a.wait(Side::Tx);
        assert_eq!(a.used(Side::Tx), [(head, 0)]);
        let mut next = served.qemu(1);
        next.fill(64);
        next.kick(Side::Rx);
        let head = a.queue(&rw(3, 4, 1), b"y");
        a.kick(Side::Tx);
        next.wait(Side::Rx);
        assert_eq!(next.receive()[0].payload, b"y", "life {life}");
        a.wait(Side::Tx);
        assert_eq!(a.used(Side::Tx), [(head, 0)]);
        drop(next);
    }
    let report = served.wire.lock().unwrap().report();
    assert_eq!(report.ports[0].stats.connections, 1);
    assert_eq!(report.ports[1].stats.connections, 10);
}
