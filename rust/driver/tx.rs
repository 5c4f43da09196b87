// SPDX-License-Identifier: GPL-2.0

//! Sending.
//!
//! A packet goes straight onto the virtqueue when it can, and onto the send queue otherwise, which
//! a worker empties. It never overtakes an older one of its socket: whether older ones wait is
//! decided with the TX lock held, and a worker takes a packet from the queue, and puts one that
//! does not fit back to its head, under the same hold of that lock.

mod send_queue;

pub(crate) use self::send_queue::SendQueue;

use crate::{
    config::CONFIG,
    device::{
        Vsock,
        RETRY_DELAY,
        RX,
        SEND, //
    },
    module::STATS,
};
use kernel::{
    prelude::*,
    sync::ArcBorrow,
    time::delay::fsleep, //
};
use vsock_kernel::{
    gfp::Gfp,
    virtio::Virtqueue,
    vsock::TxPacket, //
};

/// The TX queue.
pub(crate) struct Tx {
    queue: Virtqueue<TxPacket>,
    /// How many packets the device has.
    in_flight: u32,
}

impl Tx {
    /// An empty queue.
    pub(crate) fn new(queue: Virtqueue<TxPacket>) -> Self {
        Self {
            queue,
            in_flight: 0,
        }
    }

    /// Gives a packet to the device, without telling it; or gives the packet back.
    ///
    /// Packet captures see it before it is the device's, as a token does not tell what it carries.
    /// One that has to wait, and is dropped, was seen all the same; none is seen twice.
    fn add(&mut self, mut packet: TxPacket, gfp: Gfp) -> Result<(), (TxPacket, Error)> {
        packet.deliver_tap();
        self.queue.add(packet, gfp)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Takes back all packets that the device has sent. True if there were any.
    fn complete(&mut self) -> bool {
        let mut any = false;
        loop {
            self.queue.disable_cb();
            while let Some((packet, _)) = self.queue.get_buf() {
                self.in_flight -= 1;
                packet.consume_sent();
                any = true;
            }
            if self.queue.enable_cb() {
                return any;
            }
        }
    }
}

/// Sends a packet, sooner or later. Does not sleep.
pub(crate) fn send(vsock: ArcBorrow<'_, Vsock>, packet: TxPacket) {
    if let Err(packet) = send_direct(&vsock, packet) {
        STATS.tx_queued.add(1);
        vsock.send_queue.push(packet);
        Vsock::queue_work::<SEND>(vsock);
    }
}

/// Puts a packet straight onto the virtqueue, or gives it back.
///
/// The caller is in an RCU read-side critical section, so that this must not sleep.
fn send_direct(vsock: &Vsock, packet: TxPacket) -> Result<(), TxPacket> {
    if !CONFIG.tx_fast_path.is_on() {
        return Err(packet);
    }
    let Some(mut tx) = vsock.tx.try_lock() else {
        STATS.tx_direct_busy.add(1);
        return Err(packet);
    };
    let Some(tx) = &mut *tx else {
        STATS.tx_direct_busy.add(1);
        return Err(packet);
    };
    // Older packets of this socket were queued by this thread or under the socket lock, so that
    // they are seen here; and with the TX lock held no worker has one of them in its hands.
    if !vsock.send_queue.is_empty() {
        return Err(packet);
    }
    match tx.add(packet, Gfp::Atomic) {
        Ok(()) => {
            tx.queue.kick();
            STATS.tx_direct.add_one_locked();
            Ok(())
        }
        Err((packet, _)) => {
            STATS.tx_direct_full.add(1);
            Err(packet)
        }
    }
}

/// Empties the send queue onto the virtqueue, as far as there is room.
pub(crate) fn send_work(vsock: ArcBorrow<'_, Vsock>) {
    let mut resume_rx = false;
    let mut retry = false;

    if let Some(tx) = &mut *vsock.tx.lock() {
        let mut added = 0;
        while let Some(packet) = vsock.send_queue.pop() {
            let is_reply = packet.is_reply();
            if let Err((packet, err)) = tx.add(packet, Gfp::Kernel) {
                vsock.send_queue.put_back(packet);
                // A completion makes room, and starts this work again. Without a packet in flight
                // there is none to come; it takes a lack of memory for that to happen, or a device
                // that is broken and will not be mended.
                retry = tx.in_flight == 0 && err != EIO;
                break;
            }
            if is_reply {
                resume_rx |= vsock.send_queue.reply_sent();
            }
            added += 1;
        }
        if added > 0 {
            tx.queue.kick();
            STATS.tx_worker.add(added);
        }
    }

    if resume_rx {
        Vsock::queue_work::<RX>(vsock);
    }
    if retry && !vsock.is_stopping() {
        fsleep(RETRY_DELAY);
        Vsock::queue_work::<SEND>(vsock);
    }
}

/// Takes back what the device has sent.
pub(crate) fn complete_work(vsock: ArcBorrow<'_, Vsock>) {
    let completed = (*vsock.tx.lock()).as_mut().is_some_and(Tx::complete);
    // Whoever queues a packet from now on starts the work by himself.
    if completed && !vsock.send_queue.is_empty() {
        Vsock::queue_work::<SEND>(vsock);
    }
}
