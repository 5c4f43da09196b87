// SPDX-License-Identifier: GPL-2.0

//! The receive and send accounts of a locked socket.
//!
//! C header: [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h)
//! (`struct virtio_vsock_sock`)

use super::{
    credit,
    Header, //
};
use crate::{
    bindings,
    net::{
        skbuff::{
            SkBuff,
            SkBuffList, //
        },
        sock::LockedSock, //
    },
    sync::{
        lock::spinlock_bh::SpinLockBh,
        read_once, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::sync::{
    atomic::Atomic,
    lock::Lock, //
};

/// The transport's private state of a socket whose lock is held.
///
/// # Invariants
///
/// The pointer is the `trans` of a vsock socket, which the C common code made, for as long as
/// `'a`: it is freed under the socket lock, or with the last reference to the socket, and a
/// [`LockedSock`] has both.
#[derive(Clone, Copy)]
pub(super) struct Account<'a> {
    vvs: NonNull<bindings::virtio_vsock_sock>,
    _locked: PhantomData<&'a LockedSock>,
}

impl<'a> Account<'a> {
    /// The account of `sock`, if it is one that `transport` serves.
    ///
    /// # Safety
    ///
    /// `sock` must be a vsock socket, and `transport` be one that is built on the C common code.
    #[inline]
    pub(super) unsafe fn of(
        sock: &'a LockedSock,
        transport: *const bindings::vsock_transport,
    ) -> Option<Self> {
        // CAST: A `struct vsock_sock` begins with its `struct sock`.
        let vsk = sock.as_ptr().cast::<bindings::vsock_sock>();
        // SAFETY: `sock` is a vsock socket. Its transport and what that keeps for it change under
        // the socket lock only, which is held.
        let (assigned, trans) = unsafe { ((*vsk).transport, (*vsk).trans) };
        if assigned != transport {
            return None;
        }
        // INVARIANT: A transport that is built on the C common code keeps a `virtio_vsock_sock`.
        let vvs = NonNull::new(trans.cast())?;
        Some(Self {
            vvs,
            _locked: PhantomData,
        })
    }

    /// What the socket may still receive; `pending` skbs with `pending_bytes` of payload are on
    /// their way into its queue.
    ///
    /// `buf_alloc` changes under the socket lock. So do the other two, but that a psock's reader
    /// lowers them, under `rx_lock`; what is read here may be more than what is true by then.
    #[inline]
    pub(super) fn room(&self, pending: u32, pending_bytes: u32) -> credit::Room {
        let vvs = self.vvs.as_ptr();
        // SAFETY: By the type invariant the account is valid, and the field is not written now.
        let buf_alloc = unsafe { (*vvs).buf_alloc };
        // SAFETY: The account is valid; C's writes are those of a single word.
        let buf_used = unsafe { Atomic::from_ptr(&raw mut (*vvs).buf_used) };
        // SAFETY: As above.
        let queue_len = unsafe { Atomic::from_ptr(&raw mut (*vvs).rx_queue.qlen) };
        // ORDERING: The numbers stand for themselves.
        credit::Room {
            buf_alloc,
            buf_used: read_once(buf_used).saturating_add(pending_bytes),
            queue_len: read_once(queue_len).saturating_add(pending),
            skb_cost: bindings::VSOCK_CONST_HELPER_SKB_COST,
        }
    }

    /// Takes the receive lock.
    #[inline]
    pub(super) fn rx<R>(&self, f: impl FnOnce(&mut RxAccount<'_>) -> R) -> R {
        // SAFETY: By the type invariant the account is valid, and its lock is initialised. It is
        // never taken but with `spin_lock_bh()`.
        let lock: &SpinLockBh<()> =
            unsafe { Lock::from_raw((&raw mut (*self.vvs.as_ptr()).rx_lock).cast()) };
        let guard = lock.lock();
        // INVARIANT: The lock was just taken, and `f` cannot keep what it is given.
        let ret = f(&mut RxAccount { account: self });
        drop(guard);
        ret
    }

    /// Notes what `hdr` says of the peer's room, and says whether anything may be sent.
    ///
    /// Mirrors `virtio_transport_space_update()`. The numbers are absolute, so that those of a
    /// newer packet take the place of an older one's.
    #[inline]
    pub(super) fn space_update(&self, hdr: &Header) -> bool {
        let vvs = self.vvs.as_ptr();
        // SAFETY: As for `rx`.
        let lock: &SpinLockBh<()> = unsafe { Lock::from_raw((&raw mut (*vvs).tx_lock).cast()) };
        let guard = lock.lock();
        // SAFETY: By the type invariant the account is valid, and `tx_lock`, which protects the
        // four fields but `buf_alloc`, is held. That one changes under the socket lock.
        let (buf_alloc, tx_cnt) = unsafe {
            (*vvs).peer_buf_alloc = hdr.buf_alloc();
            (*vvs).peer_fwd_cnt = hdr.fwd_cnt();
            ((*vvs).buf_alloc, (*vvs).tx_cnt)
        };
        drop(guard);
        credit::has_space(hdr.buf_alloc(), buf_alloc, tx_cnt, hdr.fwd_cnt())
    }
}

/// The receive account.
///
/// # Invariants
///
/// The account's `rx_lock` is held.
pub(super) struct RxAccount<'a> {
    account: &'a Account<'a>,
}

impl RxAccount<'_> {
    /// Charges the socket for `len` bytes of payload that are in its queue, or about to be.
    ///
    /// Mirrors the second half of `virtio_transport_inc_rx_pkt()`; the first, the checks, are
    /// [`credit::Room::admits`].
    #[inline]
    pub(super) fn charge(&mut self, len: u32) {
        let vvs = self.account.vvs.as_ptr();
        // OVERFLOW: As in C, where a reader that got ahead makes the numbers wrap for a moment.
        //
        // SAFETY: The account is valid, and `rx_lock` is held.
        unsafe {
            (*vvs).rx_bytes = (*vvs).rx_bytes.wrapping_add(len);
            (*vvs).buf_used = (*vvs).buf_used.wrapping_add(len);
        }
    }

    /// Appends all skbs of the list to the receive queue.
    #[inline]
    pub(super) fn append(&mut self, list: &mut SkBuffList) {
        // SAFETY: The account is valid, and its queue is initialised.
        let queue = unsafe { &raw mut (*self.account.vvs.as_ptr()).rx_queue };
        while let Some(skb) = list.pop_front() {
            // SAFETY: `rx_lock` is held, which the queue's users take instead of its own. It owns
            // the skb from here on.
            unsafe { bindings::__skb_queue_tail(queue, skb.into_raw().as_ptr()) };
        }
    }

    /// Copies the payload of `skb` into the last skb of the receive queue, if the C rules let it.
    #[inline]
    pub(super) fn merge_into_tail(&mut self, skb: &SkBuff) -> bool {
        // SAFETY: The account is valid, and `rx_lock` is held, so that a last skb stays there.
        unsafe {
            bindings::virtio_vsock_rx_queue_try_merge(
                &raw const (*self.account.vvs.as_ptr()).rx_queue,
                skb.as_ptr(),
            )
        }
    }
}
