/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads: the kernel headers that `kernel::bindings` leaves out.
 * rust/bindings/bindgen_parameters says what of them is wanted.
 */
#include <linux/skbuff.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/sock.h>
#include <virtio_vsock_rs_trace.h>

/* Values of macros that bindgen does not evaluate by itself. */
const u32 VSOCK_CONST_HELPER_RX_BUF_SIZE = VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE;
/* What the bound of the receive queue charges for one skb. */
const u32 VSOCK_CONST_HELPER_SKB_COST = SKB_TRUESIZE(0);
const u32 VSOCK_CONST_HELPER_CID_ANY = VMADDR_CID_ANY;
