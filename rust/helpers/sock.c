// SPDX-License-Identifier: GPL-2.0
#include <net/sock.h>

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
