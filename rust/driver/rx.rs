// SPDX-License-Identifier: GPL-2.0

//! Receiving.

pub(crate) mod batch;
mod ring;
mod run;

pub(crate) use self::ring::Ring;

use self::batch::{
    Batch,
    End,
    Limits, //
};
use crate::{
    config::CONFIG,
    device::{
        Vsock,
        RETRY_DELAY,
        RX, //
    },
    module::STATS,
    stats::RxTally,
    transport::TRANSPORT, //
};
use kernel::{
    prelude::*,
    sync::ArcBorrow,
    time::delay::fsleep, //
};
use vsock_kernel::{
    trace,
    vsock::{
        Header,
        RxBuffer,
        RxPacket,
        RxRun, //
    },
};

/// How many packets are received before others get their turn on the workqueue.
const BUDGET: u32 = 1024;

/// One run of the RX worker.
///
/// The batch is in here, and not beside the ring: no batch outlives the run that opened it.
struct Receiver<'a> {
    /// Holds a socket's lock, if anything; dropped before all else.
    batch: Batch<RxRun>,
    limits: Limits,
    budget: u32,
    tally: RxTally,
    ring: &'a mut Ring,
    vsock: &'a Vsock,
}

/// Why the receiver stops taking packets off the ring.
enum Pause {
    /// There are none.
    Empty,
    /// The device should get buffers, and no batch is open.
    Due,
    /// As many replies wait as may.
    Replies,
    /// It took as many as it may in one go.
    Budget,
}

/// What has to happen after the receiver let go of its lock.
enum Next {
    /// Nothing: an interrupt, or the sender, starts it again.
    Wait,
    /// It goes on, after others had their turn.
    GoOn,
    /// It tries again later to get memory for buffers.
    Retry,
}

impl<'a> Receiver<'a> {
    fn new(ring: &'a mut Ring, vsock: &'a Vsock) -> Self {
        Self {
            batch: Batch::new(),
            limits: CONFIG.rx_batch_limits(),
            budget: BUDGET,
            tally: RxTally::default(),
            ring,
            vsock,
        }
    }

    /// Receives what there is, and gives the device new buffers.
    fn poll(&mut self) -> Next {
        loop {
            self.ring.disable_cb();
            let pause = self.drain();
            // Nothing below may find a socket locked: it sleeps, refills and stops.
            self.close_batch(match pause {
                Pause::Empty | Pause::Due => End::Idle,
                Pause::Replies => End::Replies,
                Pause::Budget => End::Budget,
            });
            self.tally.fold_into(&STATS);
            // Looked at after the batch was closed, which may have taken a while, and before
            // buffers go to a device that is about to be reset.
            if self.vsock.is_stopping() {
                return Next::Wait;
            }
            match self.ring.refill() {
                Ok(()) => (),
                // A broken device is not mended by trying again.
                Err(EIO) => return Next::Wait,
                Err(_) => {
                    STATS.rx_refill_failed.add(1);
                    return Next::Retry;
                }
            }
            match pause {
                Pause::Empty if self.ring.enable_cb() => return Next::Wait,
                Pause::Empty | Pause::Due => (),
                // Interrupts stay off: whoever makes room for replies starts this work again.
                Pause::Replies => {
                    STATS.replies_stalled.add(1);
                    return Next::Wait;
                }
                Pause::Budget => return Next::GoOn,
            }
        }
    }

    /// Takes packets off the ring until there is a reason to pause.
    fn drain(&mut self) -> Pause {
        loop {
            if !self.vsock.send_queue.has_room_for_reply() {
                return Pause::Replies;
            }
            if self.budget == 0 || self.vsock.is_stopping() {
                return Pause::Budget;
            }
            if self.ring.is_due() && self.batch.is_closed() {
                return Pause::Due;
            }
            let Some((buffer, used)) = self.ring.take() else {
                return Pause::Empty;
            };
            self.budget -= 1;
            match buffer.received(used) {
                Ok(packet) => {
                    if let Some(buffer) = self.receive(packet) {
                        self.ring.keep(buffer);
                    }
                }
                Err((buffer, why)) => {
                    self.close_batch(End::Malformed);
                    STATS.dropped(why);
                    self.ring.keep(buffer);
                }
            }
        }
    }

    /// Receives one packet. Returns its buffer, if that is free again.
    ///
    /// This is the hot path. Nothing after [`Batch::take`] can fail.
    fn receive(&mut self, mut packet: RxPacket) -> Option<RxBuffer> {
        packet.deliver_tap();
        let hdr = *packet.header();
        self.tally.packets += 1;
        self.tally.bytes += u64::from(hdr.payload_len());

        if !hdr.is_stream_data() {
            return self.receive_regular(packet, End::Regular);
        }
        if !CONFIG.rx_batch.is_on() {
            return self.receive_regular(packet, End::Off);
        }
        if let Some(end) = self.batch.refuses(&hdr, hdr.payload_len(), &self.limits) {
            if end == End::Refused {
                return self.receive_regular(packet, end);
            }
            self.close_batch(end);
        }
        if self.batch.is_closed() && !self.open_batch(&hdr) {
            return self.receive_regular(packet, End::Regular);
        }
        let buffer = self.batch.take(packet, hdr.payload_len());
        self.tally.copied += u64::from(buffer.is_some());
        if let Some(end) = self.batch.is_full(&self.limits) {
            self.close_batch(end);
        }
        buffer
    }

    /// Begins a batch with the socket that the packet is for, if that can take it.
    fn open_batch(&mut self, hdr: &Header) -> bool {
        if hdr.payload_len() > self.limits.bytes {
            return false;
        }
        match RxRun::open(&TRANSPORT, hdr) {
            Some(run) => {
                self.batch.open(run);
                true
            }
            None => false,
        }
    }

    /// Leaves a packet to the C code, which keeps its buffer.
    ///
    /// Ends the batch first, for the reason `end`: the C code locks the packet's socket, and the
    /// packets of a flow keep their order.
    fn receive_regular(&mut self, packet: RxPacket, end: End) -> Option<RxBuffer> {
        self.close_batch(end);
        self.tally.slow += 1;
        TRANSPORT.recv_pkt(packet);
        None
    }

    /// Ends the batch, if there is one, and counts it.
    fn close_batch(&mut self, end: End) {
        if let Some(closed) = self.batch.close() {
            trace::rx_batch(closed.packets, closed.bytes, end.number());
            STATS.batch_ended(&closed, end);
        }
    }
}

/// Receives what the device has for us.
pub(crate) fn work(vsock: ArcBorrow<'_, Vsock>) {
    let next = match &mut *vsock.rx.lock() {
        Some(ring) => Receiver::new(ring, &vsock).poll(),
        None => Next::Wait,
    };
    match next {
        Next::Wait => (),
        Next::GoOn => Vsock::queue_work::<RX>(vsock),
        Next::Retry => {
            fsleep(RETRY_DELAY);
            Vsock::queue_work::<RX>(vsock);
        }
    }
}
