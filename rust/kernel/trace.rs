// SPDX-License-Identifier: GPL-2.0

//! The module's tracepoints.
//!
//! C header: `rust/trace/virtio_vsock_rs_trace.h`

use crate::vsock::Header;

/// `kernel::declare_trace!`, for tracepoints that are in this module's own bindings, and whose
/// arguments are integers, so that they are safe to hit.
macro_rules! declare_module_trace {
    ($(fn $name:ident($($arg:ident : $type:ty),* $(,)?);)*) => {$(
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        fn $name($($arg: $type),*) {
            ::kernel::macros::paste! {
                // SAFETY: It is always fine to query the static key of a tracepoint.
                let enabled = unsafe {
                    ::kernel::jump_label::static_branch_unlikely!(
                        $crate::bindings::[<__tracepoint_ $name>],
                        ::kernel::bindings::tracepoint,
                        key
                    )
                };
                if enabled {
                    // SAFETY: The tracepoint takes integers only, and has no requirements.
                    unsafe { $crate::bindings::[<rust_do_trace_ $name>]($($arg),*) };
                }
            }
        }
    )*}
}

declare_module_trace! {
    fn virtio_vsock_rs_recv_pkt(
        src_cid: u32,
        src_port: u32,
        dst_cid: u32,
        dst_port: u32,
        len: u32,
        type_: u16,
        op: u16,
        flags: u32,
        buf_alloc: u32,
        fwd_cnt: u32,
    );

    fn virtio_vsock_rs_rx_batch(packets: u32, bytes: u32, end: u32);
}

/// A packet that a batch took: `virtio_vsock_rs:virtio_vsock_rs_recv_pkt`.
#[inline]
pub fn recv_pkt(hdr: &Header) {
    let (src, dst) = (hdr.src(), hdr.dst());
    virtio_vsock_rs_recv_pkt(
        src.cid,
        src.port,
        dst.cid,
        dst.port,
        hdr.payload_len(),
        hdr.raw_type(),
        hdr.raw_op(),
        hdr.flags(),
        hdr.buf_alloc(),
        hdr.fwd_cnt(),
    );
}

/// A batch that ended: `virtio_vsock_rs:virtio_vsock_rs_rx_batch`.
///
/// `end` is the reason's number, as the trace header spells it out.
#[inline]
pub fn rx_batch(packets: u32, bytes: u32, end: u32) {
    virtio_vsock_rs_rx_batch(packets, bytes, end);
}
