// SPDX-License-Identifier: GPL-2.0

//! When packets share one hold of a socket lock, and when not.
//!
//! This is policy alone: what a batch holds is a [`Run`], which tests replace.

/// A locked socket that receives packets of one flow.
pub(crate) trait Run {
    /// What says which flow a packet is of.
    type Header;
    /// A packet.
    type Packet;
    /// What a packet leaves when its payload was copied.
    type Buffer;

    /// Is a packet of this flow?
    fn is_same_flow(&self, hdr: &Self::Header) -> bool;

    /// Can the socket take the packet, as it is at this moment?
    fn admits(&self, hdr: &Self::Header) -> bool;

    /// Gives the socket a packet that it can take.
    fn take(&mut self, packet: Self::Packet) -> Option<Self::Buffer>;
}

/// The most that one uninterrupted hold of a socket lock receives.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// In packets, at least one.
    pub(crate) packets: u32,
    /// In bytes of payload.
    pub(crate) bytes: u32,
}

/// Why a batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// There was no further packet.
    Idle,
    /// The next packet was of another flow.
    Flow,
    /// It had as many packets as is allowed.
    Packets,
    /// It had as many bytes as is allowed, or would have had more with the next packet.
    Bytes,
    /// The next packet was no stream payload.
    Regular,
    /// The socket would not take the next packet.
    Refused,
    /// The next packet was malformed.
    Malformed,
    /// Replies have to be sent first.
    Replies,
    /// Batching was switched off.
    Off,
    /// Others get their turn, or the device is about to go.
    Budget,
}

impl End {
    /// The reason's number, for the tracepoint.
    pub(crate) fn number(self) -> u32 {
        // CAST: The discriminants are small and count up from zero.
        self as u32
    }
}

/// What a batch had when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Closed {
    /// Packets, at least one.
    pub(crate) packets: u32,
    /// Bytes of their payload.
    pub(crate) bytes: u32,
}

/// Consecutive packets of one flow, received in one hold of the socket's lock.
///
/// One owned value: closed, it owns nothing; open, it owns the [`Run`], and with it the socket
/// lock and a counted reference. Dropped or closed it gives both up, the lock first.
pub(crate) struct Batch<R: Run> {
    run: Option<R>,
    packets: u32,
    bytes: u32,
}

impl<R: Run> Batch<R> {
    /// A closed batch.
    pub(crate) const fn new() -> Self {
        Self {
            run: None,
            packets: 0,
            bytes: 0,
        }
    }

    /// Does the batch own nothing?
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.run.is_none()
    }

    /// Why the batch has to end before this packet of `len` bytes, if so. A closed one need not.
    #[inline]
    pub(crate) fn refuses(&self, hdr: &R::Header, len: u32, limits: &Limits) -> Option<End> {
        let run = self.run.as_ref()?;
        if self.packets >= limits.packets {
            Some(End::Packets)
        } else if !run.is_same_flow(hdr) {
            Some(End::Flow)
        } else if len > limits.bytes.saturating_sub(self.bytes) {
            Some(End::Bytes)
        } else if !run.admits(hdr) {
            Some(End::Refused)
        } else {
            None
        }
    }

    /// Begins a batch. One that was open ends.
    #[inline]
    pub(crate) fn open(&mut self, run: R) {
        self.close();
        self.run = Some(run);
    }

    /// Gives a packet of `len` bytes to the batch, which must be open, and not refuse it.
    #[inline]
    pub(crate) fn take(&mut self, packet: R::Packet, len: u32) -> Option<R::Buffer> {
        let run = self.run.as_mut()?;
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(len);
        run.take(packet)
    }

    /// Why the batch has to end although the next packet is not known, if so.
    #[inline]
    pub(crate) fn is_full(&self, limits: &Limits) -> Option<End> {
        if self.packets >= limits.packets {
            Some(End::Packets)
        } else if self.bytes >= limits.bytes {
            Some(End::Bytes)
        } else {
            None
        }
    }

    /// Ends the batch, and says what it had, if it was open.
    pub(crate) fn close(&mut self) -> Option<Closed> {
        let run = self.run.take()?;
        drop(run);
        Some(Closed {
            packets: core::mem::take(&mut self.packets),
            bytes: core::mem::take(&mut self.bytes),
        })
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_batch)]
mod tests {
    use super::*;

    /// A header or packet of flow `.0`, with `.1` bytes.
    type Fake = (u32, u32);

    /// A socket of flow 1 with room for `room` bytes; small packets are copied.
    struct Socket {
        room: u32,
    }

    impl Run for Socket {
        type Header = Fake;
        type Packet = Fake;
        type Buffer = ();

        fn is_same_flow(&self, hdr: &Fake) -> bool {
            hdr.0 == 1
        }

        fn admits(&self, hdr: &Fake) -> bool {
            hdr.1 <= self.room
        }

        fn take(&mut self, packet: Fake) -> Option<()> {
            self.room -= packet.1;
            (packet.1 < 10).then_some(())
        }
    }

    const LIMITS: Limits = Limits {
        packets: 3,
        bytes: 100,
    };

    /// A batch that has taken packets of these lengths, of a socket with room for `room` bytes.
    fn batch(room: u32, lengths: &[u32]) -> Batch<Socket> {
        let mut batch = Batch::new();
        batch.open(Socket { room });
        for len in lengths {
            batch.take((1, *len), *len);
        }
        batch
    }

    #[test]
    fn a_closed_batch_owns_and_refuses_nothing() {
        let mut batch = Batch::<Socket>::new();
        assert!(batch.is_closed());
        assert!(batch.refuses(&(2, 1000), 1000, &LIMITS).is_none());
        assert!(batch.is_full(&LIMITS).is_none());
        assert!(batch.take((1, 1), 1).is_none());
        assert!(batch.close().is_none());
    }

    #[test]
    fn every_reason_to_end_is_found() {
        let table: [(u32, &[u32], Fake, Option<End>); 10] = [
            (1000, &[10], (1, 90), None),
            (1000, &[10], (1, 91), Some(End::Bytes)),
            (1000, &[100], (1, 1), Some(End::Bytes)),
            (1000, &[10], (2, 10), Some(End::Flow)),
            (1000, &[10], (2, 91), Some(End::Flow)),
            (20, &[10], (1, 10), None),
            (20, &[10], (1, 11), Some(End::Refused)),
            (1000, &[1, 1, 1], (1, 1), Some(End::Packets)),
            (1000, &[10], (1, u32::MAX), Some(End::Bytes)),
            // Another flow's packet says nothing about this socket's room.
            (10, &[10], (2, 10), Some(End::Flow)),
        ];
        for (room, lengths, next, end) in table {
            assert!(batch(room, lengths).refuses(&next, next.1, &LIMITS) == end);
        }
    }

    #[test]
    fn a_full_batch_says_so_before_the_next_packet() {
        assert!(batch(1000, &[1, 1]).is_full(&LIMITS).is_none());
        assert!(batch(1000, &[1, 1, 1]).is_full(&LIMITS) == Some(End::Packets));
        assert!(batch(1000, &[99]).is_full(&LIMITS).is_none());
        assert!(batch(1000, &[100]).is_full(&LIMITS) == Some(End::Bytes));
    }

    #[test]
    fn closing_counts_and_begins_anew() {
        let mut batch = batch(1000, &[10, 20]);
        let closed = Closed {
            packets: 2,
            bytes: 30,
        };
        assert!(batch.close() == Some(closed));
        assert!(batch.is_closed());
        batch.open(Socket { room: 1 });
        batch.take((1, 1), 1);
        let closed = Closed {
            packets: 1,
            bytes: 1,
        };
        assert!(batch.close() == Some(closed));
    }

    #[test]
    fn buffers_of_copied_packets_come_back() {
        let mut batch = batch(1000, &[]);
        assert!(batch.take((1, 9), 9).is_some());
        assert!(batch.take((1, 10), 10).is_none());
    }
}
