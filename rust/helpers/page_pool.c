// SPDX-License-Identifier: GPL-2.0
#include <linux/skbuff.h>
#include <linux/virtio_vsock.h>
#include <net/page_pool/helpers.h>

/* NULL on a kernel without page pools, an ERR_PTR() if there is no memory. */
struct page_pool *vsock_helper_page_pool_create(unsigned int size)
{
#ifdef CONFIG_PAGE_POOL
	const struct page_pool_params params = {
		.pool_size = size,
		.nid = NUMA_NO_NODE,
	};

	return page_pool_create(&params);
#else
	return NULL;
#endif
}

void vsock_helper_page_pool_destroy(struct page_pool *pool)
{
#ifdef CONFIG_PAGE_POOL
	page_pool_destroy(pool);
#endif
}

/*
 * What virtio_vsock_alloc_linear_skb(VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE) returns,
 * but that the page comes from @pool and goes back there.
 */
struct sk_buff *vsock_helper_page_pool_alloc_rx_skb(struct page_pool *pool, gfp_t gfp)
{
#ifdef CONFIG_PAGE_POOL
	struct page *page = page_pool_alloc_pages(pool, gfp);
	struct sk_buff *skb;

	if (!page)
		return NULL;
	/* VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE is made for 4 KiB, whatever a page is. */
	skb = build_skb(page_address(page), SKB_DATA_ALIGN(VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE) +
					    SKB_DATA_ALIGN(sizeof(struct skb_shared_info)));
	if (!skb) {
		page_pool_put_full_page(pool, page, false);
		return NULL;
	}
	skb_mark_for_recycle(skb);
	skb_reserve(skb, VIRTIO_VSOCK_SKB_HEADROOM);
	return skb;
#else
	return virtio_vsock_alloc_linear_skb(VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE, gfp);
#endif
}
