// SPDX-License-Identifier: GPL-2.0
#include <linux/skbuff.h>
#include <linux/virtio_vsock.h>

void vsock_helper_kfree_skb(struct sk_buff *skb)
{
	kfree_skb(skb);
}

unsigned int vsock_helper_skb_nr_frags(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->nr_frags;
}

/* The linear-map address of fragment @i, which need not be mapped for reading. */
void *vsock_helper_skb_frag_address(const struct sk_buff *skb, unsigned int i)
{
	const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];

	return page_to_virt(skb_frag_page(frag)) + skb_frag_off(frag);
}

unsigned int vsock_helper_skb_frag_size(const struct sk_buff *skb, unsigned int i)
{
	return skb_frag_size(&skb_shinfo(skb)->frags[i]);
}

void vsock_helper_skb_queue_head_init(struct sk_buff_head *list)
{
	skb_queue_head_init(list);
}

void vsock_helper___skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb)
{
	__skb_queue_tail(list, skb);
}

void vsock_helper_virtio_vsock_skb_queue_head(struct sk_buff_head *list, struct sk_buff *skb)
{
	virtio_vsock_skb_queue_head(list, skb);
}

void vsock_helper_virtio_vsock_skb_queue_tail(struct sk_buff_head *list, struct sk_buff *skb)
{
	virtio_vsock_skb_queue_tail(list, skb);
}

struct sk_buff *vsock_helper_virtio_vsock_skb_dequeue(struct sk_buff_head *list)
{
	return virtio_vsock_skb_dequeue(list);
}
