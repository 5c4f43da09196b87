// SPDX-License-Identifier: GPL-2.0
/*
 * C functions for what Rust cannot call: static inline functions, macros, and
 * fields of `struct sock`, which bindgen keeps opaque. One file a C header, as
 * in the kernel's own rust/helpers.
 */
#include "page_pool.c"
#include "skbuff.c"
#include "sock.c"
#include "spinlock_bh.c"
#include "virtio.c"
#include "vsock.c"
