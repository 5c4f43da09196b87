/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of virtio_vsock_rs.
 *
 * `vsock:virtio_transport_recv_pkt` belongs to the C common code and cannot be
 * emitted from another module. A packet that goes the regular way still hits
 * it; one that a batch takes hits virtio_vsock_rs_recv_pkt, which has the same
 * fields under the same names.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM virtio_vsock_rs

#if !defined(_VIRTIO_VSOCK_RS_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _VIRTIO_VSOCK_RS_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(virtio_vsock_rs_recv_pkt,
	TP_PROTO(u32 src_cid, u32 src_port, u32 dst_cid, u32 dst_port, u32 len,
		 u16 type, u16 op, u32 flags, u32 buf_alloc, u32 fwd_cnt),
	TP_ARGS(src_cid, src_port, dst_cid, dst_port, len, type, op, flags,
		buf_alloc, fwd_cnt),
	TP_STRUCT__entry(
		__field(u32, src_cid)
		__field(u32, src_port)
		__field(u32, dst_cid)
		__field(u32, dst_port)
		__field(u32, len)
		__field(u16, type)
		__field(u16, op)
		__field(u32, flags)
		__field(u32, buf_alloc)
		__field(u32, fwd_cnt)
	),
	TP_fast_assign(
		__entry->src_cid = src_cid;
		__entry->src_port = src_port;
		__entry->dst_cid = dst_cid;
		__entry->dst_port = dst_port;
		__entry->len = len;
		__entry->type = type;
		__entry->op = op;
		__entry->flags = flags;
		__entry->buf_alloc = buf_alloc;
		__entry->fwd_cnt = fwd_cnt;
	),
	TP_printk("%u:%u -> %u:%u len=%u type=%u op=%u flags=%#x buf_alloc=%u fwd_cnt=%u",
		  __entry->src_cid, __entry->src_port,
		  __entry->dst_cid, __entry->dst_port, __entry->len,
		  __entry->type, __entry->op, __entry->flags,
		  __entry->buf_alloc, __entry->fwd_cnt)
);

TRACE_EVENT(virtio_vsock_rs_rx_batch,
	TP_PROTO(u32 packets, u32 bytes, u32 end),
	TP_ARGS(packets, bytes, end),
	TP_STRUCT__entry(
		__field(u32, packets)
		__field(u32, bytes)
		__field(u32, end)
	),
	TP_fast_assign(
		__entry->packets = packets;
		__entry->bytes = bytes;
		__entry->end = end;
	),
	/* The order of `enum End` in rust/driver/rx/batch.rs. */
	TP_printk("packets=%u bytes=%u end=%s", __entry->packets, __entry->bytes,
		  __print_symbolic(__entry->end,
			{ 0, "idle" }, { 1, "flow" }, { 2, "packets" },
			{ 3, "bytes" }, { 4, "regular" }, { 5, "refused" },
			{ 6, "malformed" }, { 7, "replies" }, { 8, "off" },
			{ 9, "budget" }))
);

#endif /* _VIRTIO_VSOCK_RS_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE virtio_vsock_rs_trace
#include <trace/define_trace.h>
