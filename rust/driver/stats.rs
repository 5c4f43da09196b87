// SPDX-License-Identifier: GPL-2.0

//! Counters.
//!
//! All of them only ever go up, for as long as the module is loaded, whatever devices come and go.
//! The names here are those in debugfs and in the documentation.

use crate::rx::batch::{
    Closed,
    End, //
};
use kernel::{
    fmt,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};
use vsock_kernel::{
    sync::{
        read_once,
        write_once, //
    },
    vsock::Malformed, //
};

/// A number that many threads add to.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `n`.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // ORDERING: Counters order nothing.
        self.0.add(n, Relaxed);
    }

    /// Adds 1, where nobody else can add at the same time, and without an atomic instruction.
    ///
    /// The caller holds the lock that all who call this for this counter hold.
    #[inline]
    pub(crate) fn add_one_locked(&self) {
        // ORDERING: As for `add`.
        write_once(&self.0, read_once(&self.0).wrapping_add(1));
    }

    fn get(&self) -> u64 {
        // ORDERING: As for `add`.
        read_once(&self.0)
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* struct $type:ident { $($(#[$field_doc:meta])* $name:ident,)* }) => {
        $(#[$doc])*
        pub(crate) struct $type {
            $($(#[$field_doc])* pub(crate) $name: Counter,)*
            rx_batch_size: [Counter; SIZES.len()],
        }

        impl $type {
            /// All zero.
            pub(crate) const fn new() -> Self {
                Self {
                    $($name: Counter::new(),)*
                    rx_batch_size: [const { Counter::new() }; SIZES.len()],
                }
            }

            /// Writes a line `name value` for each counter.
            pub(crate) fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(f, concat!(stringify!($name), " {}"), self.$name.get())?;)*
                for (size, counter) in SIZES.iter().zip(&self.rx_batch_size) {
                    writeln!(f, "rx_batch_size_{size} {}", counter.get())?;
                }
                Ok(())
            }
        }
    };
}

/// The classes of batch sizes: each counts the batches from its own size to below the next.
const SIZES: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

counters! {
    /// The module's counters.
    struct Stats {
        /// Well-formed packets received.
        rx_packets,
        /// Their payload, in bytes.
        rx_bytes,
        /// Packets that a batch took.
        rx_fast_packets,
        /// Packets that went to `virtio_transport_recv_pkt()`.
        rx_slow_packets,
        /// Packets whose payload was copied, and whose buffer went straight back to the device.
        rx_copied_packets,
        /// Batches of one packet or more.
        rx_batches,
        /// Batches that ended because there was no further packet.
        rx_batch_end_idle,
        /// ... because the next packet was of another flow.
        rx_batch_end_flow,
        /// ... because they had as many packets as is allowed.
        rx_batch_end_packets,
        /// ... because they had as many bytes as is allowed, or the next packet had too many.
        rx_batch_end_bytes,
        /// ... because the next packet was no stream payload.
        rx_batch_end_regular,
        /// ... because the socket would not take the next packet this way.
        rx_batch_end_refused,
        /// ... because the next packet was malformed.
        rx_batch_end_malformed,
        /// ... because replies have to be sent first.
        rx_batch_end_replies,
        /// ... because batching was switched off.
        rx_batch_end_off,
        /// ... because others get their turn, or the device is about to go.
        rx_batch_end_budget,
        /// Buffers of which the device says that they have less than a header.
        rx_drop_short,
        /// Buffers of which the device says that they have more than they have room for.
        rx_drop_long,
        /// Packets that claim more payload than there is.
        rx_drop_payload,
        /// Times that receiving stopped until replies are sent.
        replies_stalled,
        /// Times that there was no memory for receive buffers.
        rx_refill_failed,
        /// Packets that went straight onto the virtqueue. Written with the TX lock held.
        tx_direct,
        /// Packets that were queued.
        tx_queued,
        /// ... because the TX lock was taken, or the device was not running.
        tx_direct_busy,
        /// ... because the virtqueue was full, or memory was short.
        tx_direct_full,
        /// Packets that the worker put onto the virtqueue.
        tx_worker,
        /// Transport resets that the device announced.
        transport_resets,
    }
}

impl Stats {
    /// Counts a batch that ended.
    pub(crate) fn batch_ended(&self, closed: &Closed, end: End) {
        self.rx_batches.add(1);
        let class = SIZES.iter().rposition(|size| closed.packets >= *size);
        if let Some(counter) = class.and_then(|class| self.rx_batch_size.get(class)) {
            counter.add(1);
        }
        match end {
            End::Idle => &self.rx_batch_end_idle,
            End::Flow => &self.rx_batch_end_flow,
            End::Packets => &self.rx_batch_end_packets,
            End::Bytes => &self.rx_batch_end_bytes,
            End::Regular => &self.rx_batch_end_regular,
            End::Refused => &self.rx_batch_end_refused,
            End::Malformed => &self.rx_batch_end_malformed,
            End::Replies => &self.rx_batch_end_replies,
            End::Off => &self.rx_batch_end_off,
            End::Budget => &self.rx_batch_end_budget,
        }
        .add(1);
    }

    /// Counts a malformed packet.
    pub(crate) fn dropped(&self, why: Malformed) {
        match why {
            Malformed::Short => &self.rx_drop_short,
            Malformed::Long => &self.rx_drop_long,
            Malformed::Payload => &self.rx_drop_payload,
        }
        .add(1);
    }
}

/// What the RX worker counts for itself, and adds to the module's counters now and then.
#[derive(Default)]
pub(crate) struct RxTally {
    /// See [`Stats::rx_packets`].
    pub(crate) packets: u64,
    /// See [`Stats::rx_bytes`].
    pub(crate) bytes: u64,
    /// See [`Stats::rx_slow_packets`].
    pub(crate) slow: u64,
    /// See [`Stats::rx_copied_packets`].
    pub(crate) copied: u64,
}

impl RxTally {
    /// Adds all of it to `stats`, and begins anew.
    pub(crate) fn fold_into(&mut self, stats: &Stats) {
        let tally = core::mem::take(self);
        stats.rx_packets.add(tally.packets);
        stats.rx_bytes.add(tally.bytes);
        stats.rx_slow_packets.add(tally.slow);
        stats.rx_copied_packets.add(tally.copied);
        // OVERFLOW: A slow packet was counted as a packet.
        stats
            .rx_fast_packets
            .add(tally.packets.wrapping_sub(tally.slow));
    }
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_stats)]
mod tests {
    use super::*;

    static STATS: Stats = Stats::new();

    const ENDS: [End; 10] = [
        End::Idle,
        End::Flow,
        End::Packets,
        End::Bytes,
        End::Regular,
        End::Refused,
        End::Malformed,
        End::Replies,
        End::Off,
        End::Budget,
    ];

    fn ends() -> [u64; 10] {
        [
            &STATS.rx_batch_end_idle,
            &STATS.rx_batch_end_flow,
            &STATS.rx_batch_end_packets,
            &STATS.rx_batch_end_bytes,
            &STATS.rx_batch_end_regular,
            &STATS.rx_batch_end_refused,
            &STATS.rx_batch_end_malformed,
            &STATS.rx_batch_end_replies,
            &STATS.rx_batch_end_off,
            &STATS.rx_batch_end_budget,
        ]
        .map(Counter::get)
    }

    #[test]
    fn a_batch_counts_once_for_its_end_and_its_size() {
        let sizes = [
            (1, 0),
            (2, 1),
            (3, 1),
            (4, 2),
            (63, 5),
            (64, 6),
            (1023, 9),
            (1024, 10),
            (u32::MAX, 10),
        ];
        for (number, end) in ENDS.iter().enumerate() {
            for (packets, class) in sizes {
                let (before, batches) = (ends(), STATS.rx_batches.get());
                let in_class = STATS.rx_batch_size[class].get();
                STATS.batch_ended(&Closed { packets, bytes: 1 }, *end);
                let mut wanted = before;
                wanted[number] += 1;
                assert_eq!(ends(), wanted);
                assert_eq!(STATS.rx_batches.get(), batches + 1);
                assert_eq!(STATS.rx_batch_size[class].get(), in_class + 1);
                // The number is the reason's place in this list.
                assert_eq!(usize::try_from(end.number()), Ok(number));
            }
        }
    }

    #[test]
    fn a_tally_is_added_once() {
        let mut tally = RxTally {
            packets: 10,
            bytes: 1000,
            slow: 3,
            copied: 2,
        };
        let stats = Stats::new();
        tally.fold_into(&stats);
        tally.fold_into(&stats);
        assert_eq!(stats.rx_packets.get(), 10);
        assert_eq!(stats.rx_bytes.get(), 1000);
        assert_eq!(stats.rx_slow_packets.get(), 3);
        assert_eq!(stats.rx_fast_packets.get(), 7);
        assert_eq!(stats.rx_copied_packets.get(), 2);
    }

    #[test]
    fn a_malformed_packet_is_counted_by_its_fault() {
        let stats = Stats::new();
        stats.dropped(Malformed::Short);
        stats.dropped(Malformed::Long);
        stats.dropped(Malformed::Long);
        stats.dropped(Malformed::Payload);
        assert_eq!(stats.rx_drop_short.get(), 1);
        assert_eq!(stats.rx_drop_long.get(), 2);
        assert_eq!(stats.rx_drop_payload.get(), 1);
    }
}
