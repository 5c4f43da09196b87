// SPDX-License-Identifier: GPL-2.0
#include <linux/skmsg.h>
#include <net/sock.h>
#include <net/tcp_states.h>

void vsock_helper_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

void vsock_helper_sock_put(struct sock *sk)
{
	sock_put(sk);
}

void vsock_helper_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

void vsock_helper_sk_callback_read_lock_bh(struct sock *sk)
{
	read_lock_bh(&sk->sk_callback_lock);
}

void vsock_helper_sk_callback_read_unlock_bh(struct sock *sk)
{
	read_unlock_bh(&sk->sk_callback_lock);
}

void vsock_helper_sk_write_space(struct sock *sk)
{
	sk->sk_write_space(sk);
}

bool vsock_helper_sk_is_stream(const struct sock *sk)
{
	return sk->sk_type == SOCK_STREAM;
}

/* skb_set_owner_sk_safe() for a caller that has a reference to @sk. */
void vsock_helper_skb_set_owner_sk(struct sk_buff *skb, struct sock *sk)
{
	sock_hold(sk);
	skb_orphan(skb);
	skb->destructor = sock_efree;
	skb->sk = sk;
}

/*
 * May this socket be fed without the C receive path looking at it? What can
 * change without the socket lock is read once: virtio_vsock_reset_sock() writes
 * sk_state, sockmap replaces sk_prot and publishes a psock.
 */
bool vsock_helper_sk_is_native_established(const struct sock *sk)
{
	return READ_ONCE(sk->sk_state) == TCP_ESTABLISHED &&
	       sk->sk_type == SOCK_STREAM &&
	       !sock_flag(sk, SOCK_DONE) &&
	       READ_ONCE(sk->sk_prot) == sk->sk_prot_creator &&
	       !((uintptr_t)rcu_access_pointer(__sk_user_data(sk)) & SK_USER_DATA_PSOCK);
}
