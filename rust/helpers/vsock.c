// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/mutex.h>
#include <linux/skmsg.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/tcp_states.h>

/* virtio_vsock_reset_sock(): vsock_table_lock is held, the socket lock is not. */
static void reset_sock(struct sock *sk)
{
	WRITE_ONCE(sk->sk_state, TCP_CLOSE);
	WRITE_ONCE(sk->sk_err, ECONNRESET);
	sk_error_report(sk);
}

void vsock_helper_vsock_reset_connected(struct vsock_transport *transport)
{
	vsock_for_each_connected_socket(transport, reset_sock);
}

bool vsock_helper_vsock_net_mode_global(struct vsock_sock *vsk)
{
	return vsock_net_mode_global(vsk);
}

/*
 * May this socket, whose lock is held, be fed without virtio_transport_recv_pkt()
 * looking at it? An established stream of @transport, which only its own
 * protocol serves, in a namespace that a device may reach. What can change
 * without the socket lock is read once: virtio_vsock_reset_sock() writes
 * sk_state, sockmap replaces sk_prot and publishes a psock.
 */
bool vsock_helper_vsock_is_native_established(struct vsock_sock *vsk,
					      const struct vsock_transport *transport)
{
	struct sock *sk = sk_vsock(vsk);

	return READ_ONCE(sk->sk_state) == TCP_ESTABLISHED &&
	       sk->sk_type == SOCK_STREAM &&
	       !sock_flag(sk, SOCK_DONE) &&
	       vsk->transport == transport && vsk->trans &&
	       READ_ONCE(sk->sk_prot) == sk->sk_prot_creator &&
	       !((uintptr_t)rcu_access_pointer(__sk_user_data(sk)) & SK_USER_DATA_PSOCK) &&
	       vsock_net_check_mode(sock_net(sk), NULL);
}

/* The probe and the removal of devices exclude each other: the_virtio_vsock_mutex. */
static DEFINE_MUTEX(device_mutex);

int vsock_helper_vsock_device_lock_interruptible(void)
{
	return mutex_lock_interruptible(&device_mutex);
}

void vsock_helper_vsock_device_lock(void)
{
	mutex_lock(&device_mutex);
}

void vsock_helper_vsock_device_unlock(void)
{
	mutex_unlock(&device_mutex);
}

bool vsock_helper_virtio_vsock_skb_reply(struct sk_buff *skb)
{
	return virtio_vsock_skb_reply(skb);
}

void vsock_helper_virtio_vsock_skb_put(struct sk_buff *skb, u32 len)
{
	virtio_vsock_skb_put(skb, len);
}

/* As virtio_vsock_alloc_linear_skb() and virtio_vsock_rx_fill() leave it. */
void vsock_helper_virtio_vsock_rx_skb_reset(struct sk_buff *skb)
{
	skb_trim(skb, 0);
	memset(skb->cb, 0, sizeof(skb->cb));
	memset(skb->head, 0, VIRTIO_VSOCK_SKB_HEADROOM);
}

/*
 * The second half of virtio_transport_recv_enqueue(): copy the payload of @skb,
 * which is linear, behind that of @last. Not across the end of a message, nor
 * onto an skb whose payload is not linear. That @last must not be partly read is
 * our own rule.
 */
bool vsock_helper_virtio_vsock_skb_try_merge(struct sk_buff *last, const struct sk_buff *skb)
{
	struct virtio_vsock_hdr *hdr = virtio_vsock_hdr(last);

	if (skb_is_nonlinear(last) || VIRTIO_VSOCK_SKB_CB(last)->offset ||
	    le32_to_cpu(hdr->flags) & VIRTIO_VSOCK_SEQ_EOM ||
	    skb->len >= skb_tailroom(last))
		return false;

	skb_put_data(last, skb->data, skb->len);
	le32_add_cpu(&hdr->len, skb->len);
	return true;
}

bool vsock_helper_virtio_vsock_rx_queue_try_merge(const struct sk_buff_head *queue,
						  const struct sk_buff *skb)
{
	struct sk_buff *last = skb_peek_tail(queue);

	return last && vsock_helper_virtio_vsock_skb_try_merge(last, skb);
}

bool vsock_helper_path_exists(const char *name)
{
	struct path path;

	if (kern_path(name, 0, &path))
		return false;
	path_put(&path);
	return true;
}
