// SPDX-License-Identifier: GPL-2.0
/*
 * Hands every datagram that a socket in "source" receives to the vsock socket in "target", which sends
 * it. It runs where the sender's send() has put the datagram into the receiver's queue.
 */
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*bpf_sk_redirect_map)(struct __sk_buff *skb, void *map, __u32 key, __u64 flags) =
	(void *)BPF_FUNC_sk_redirect_map;

/* As Counts in count.rs has them. */
struct counts {
	__u64 datagrams;
	__u64 bytes;
	__u64 empty;
	__u64 refused;
};

struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} source SEC(".maps"), target SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counted SEC(".maps");

SEC("sk_skb/stream_verdict")
int verdict(struct __sk_buff *skb)
{
	__u32 only = 0;
	struct counts *counts = bpf_map_lookup_elem(&counted, &only);

	if (!counts)
		return SK_DROP;
	/*
	 * A stream cannot carry it, and sending nothing looks to the kernel's work (sk_psock_backlog())
	 * like an error, after which the target would take no more.
	 */
	if (!skb->len) {
		__sync_fetch_and_add(&counts->empty, 1);
		return SK_DROP;
	}
	if (bpf_sk_redirect_map(skb, &target, only, 0) != SK_PASS) {
		__sync_fetch_and_add(&counts->refused, 1);
		return SK_DROP;
	}
	__sync_fetch_and_add(&counts->datagrams, 1);
	__sync_fetch_and_add(&counts->bytes, skb->len);
	return SK_PASS;
}

char _license[] SEC("license") = "GPL";
