// SPDX-License-Identifier: GPL-2.0

//! The arithmetic of credit, apart from the socket that it is about.

/// What a socket may still receive.
///
/// Mirrors `virtio_transport_inc_rx_pkt()`, and the bound at which
/// `virtio_transport_recv_enqueue()` begins to collapse the queue.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Size of the receive buffer: the credit given to the peer.
    pub(super) buf_alloc: u32,
    /// Bytes of payload that are charged to it.
    pub(super) buf_used: u32,
    /// Number of skbs in the queue.
    pub(super) queue_len: u32,
    /// What one skb is charged, whatever it holds: `SKB_TRUESIZE(0)`. Not zero.
    pub(super) skb_cost: u32,
}

impl Room {
    /// Would the C code take a packet of `len` bytes as it is, without a reset or a collapse?
    #[inline]
    pub(super) fn admits(&self, len: u32) -> bool {
        // 64 bits hold the sum and the product of any three 32-bit numbers here.
        let used = u64::from(self.buf_used) + u64::from(len);
        let overhead = (u64::from(self.queue_len) + 1) * u64::from(self.skb_cost);
        let buf_alloc = u64::from(self.buf_alloc);
        used <= buf_alloc
            && overhead <= buf_alloc
            && self.queue_len < self.buf_alloc / self.skb_cost
    }
}

/// May anything be sent to the peer?
///
/// Mirrors `virtio_transport_has_space()`: what is in flight may exceed what the peer has room
/// for, when the peer shrank its buffer.
#[inline]
pub(super) fn has_space(
    peer_buf_alloc: u32,
    buf_alloc: u32,
    tx_cnt: u32,
    peer_fwd_cnt: u32,
) -> bool {
    // OVERFLOW: Both counters run modulo 2^32, and so does their distance.
    let in_flight = tx_cnt.wrapping_sub(peer_fwd_cnt);
    peer_buf_alloc.min(buf_alloc) > in_flight
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_credit)]
mod tests {
    use super::*;

    fn room(buf_alloc: u32, buf_used: u32, queue_len: u32) -> Room {
        Room {
            buf_alloc,
            buf_used,
            queue_len,
            skb_cost: 576,
        }
    }

    #[test]
    fn payload_is_bounded_by_the_buffer() {
        assert!(room(65536, 0, 0).admits(65536));
        assert!(!room(65536, 0, 0).admits(65537));
        assert!(room(65536, 65535, 0).admits(1));
        assert!(!room(65536, 65535, 0).admits(2));
        // More in use than allowed: the buffer was made smaller.
        assert!(!room(65536, 65537, 0).admits(0));
        assert!(!room(u32::MAX, u32::MAX, 0).admits(u32::MAX));
    }

    #[test]
    fn skbs_are_bounded_by_the_buffer() {
        // 455 skbs fit into 256 KiB; at that many the C code collapses.
        assert!(room(262144, 0, 454).admits(1));
        assert!(!room(262144, 0, 455).admits(1));
        assert!(!room(0, 0, 0).admits(0));
        assert!(!room(262144, 0, u32::MAX).admits(1));
    }

    #[test]
    fn space_survives_wrapping_counters() {
        assert!(has_space(4096, 4096, 0, 0));
        assert!(!has_space(4096, 4096, 4096, 0));
        assert!(has_space(4096, 4096, 4095, 0));
        assert!(has_space(4096, 4096, 10, u32::MAX - 9));
        assert!(!has_space(20, 4096, 10, u32::MAX - 9));
        // The smaller of both buffers counts.
        assert!(!has_space(u32::MAX, 100, 100, 0));
        // A peer that shrank its window below what is in flight, and one that ran ahead.
        assert!(!has_space(10, 4096, 1000, 0));
        assert!(!has_space(4096, 4096, 0, 1));
        assert!(!has_space(0, 4096, 0, 0));
    }
}
