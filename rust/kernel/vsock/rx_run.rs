// SPDX-License-Identifier: GPL-2.0

//! A run of packets that one locked socket receives.
//!
//! This is the C receive path for the one case that matters most, payload of an established
//! stream: `virtio_transport_recv_pkt()`, from the look-up of the socket to its release, and
//! `virtio_transport_recv_connected()` and `virtio_transport_recv_enqueue()` inside of it. What C
//! does for each packet is done once for a run here: look-up, locks, space update and wake-ups.

use super::{
    account::Account,
    rx_packet::{
        RxBuffer,
        RxPacket, //
    },
    socket,
    transport::{
        Transport,
        TransportTable, //
    },
    Addr,
    Header, //
};
use crate::{
    bindings,
    net::{
        skbuff::SkBuffList,
        sock::{
            LockedSock,
            Sock, //
        },
    },
    trace, //
};

/// The payload of packets up to this length, in bytes, is copied behind that of the one before.
///
/// The C code does so up to 128 bytes (`GOOD_COPY_LEN`). Here copying also saves the buffer the way
/// to the reader and back, and is cheaper than that up to about this length.
const COPY_LEN: u32 = 1024;

/// A locked socket, and the packets that were received for it since it was locked.
///
/// Packets are collected in here, and reach the socket's queue when the run is dropped: then the
/// peer's credit is noted, the reader and a waiting writer are woken, and the lock and the
/// reference are released, in this order. None of that can fail.
///
/// While a run exists nothing may take a socket lock in the same thread.
///
/// # Invariants
///
/// - `sock` is a stream vsock socket that was found by the flow `src` to `dst`, and `transport` is
///   the table that it was admitted for.
/// - `pending` are packets of that flow, `pending_bytes` their payload, which together were found
///   to have room in the socket. Each owns a reference to the socket.
pub struct RxRun {
    sock: LockedSock,
    transport: *const bindings::vsock_transport,
    src: Addr,
    dst: Addr,
    pending: SkBuffList,
    pending_bytes: u32,
    newest: Option<Header>,
}

impl RxRun {
    /// Finds and locks the socket that `hdr` is for, if it can take that packet this way.
    ///
    /// `None` means that the regular receive path has to decide: it looks everything up again.
    /// May sleep.
    pub fn open<T: Transport>(transport: &'static TransportTable<T>, hdr: &Header) -> Option<Self> {
        let sock = socket::find_connected(hdr)?;
        // A type that does not match is answered with a reset by the regular path.
        if !sock.is_stream() {
            return None;
        }
        // INVARIANT: The socket was found by this flow; nothing is pending.
        let run = Self {
            sock: Sock::lock(sock),
            transport: transport.as_vsock_transport(),
            src: hdr.src(),
            dst: hdr.dst(),
            pending: SkBuffList::new(),
            pending_bytes: 0,
            newest: None,
        };
        // A sockmap update that is under way is waited for; later ones are seen by `admits`, which
        // looks again for each packet.
        let admitted = run
            .sock
            .with_callback_lock(|| run.is_peer() && run.admits(hdr));
        // A run that admitted nothing has done nothing: dropping it only unlocks the socket.
        admitted.then_some(run)
    }

    /// Is the flow still the socket's own, now that it is locked?
    ///
    /// From here on it stays so: a socket's addresses change under its lock only.
    ///
    /// Stands for `vsock_check_source()`, and the part of the look-up that it does not repeat.
    fn is_peer(&self) -> bool {
        let vsk = self.vsk();
        let src = socket::sockaddr(self.src);
        // SAFETY: This is a vsock socket, and its lock is held.
        let local_port = unsafe { (*vsk).local_addr.svm_port };
        // SAFETY: As above; the transport's table is static.
        let source_is_peer = unsafe { bindings::vsock_check_source(vsk, self.transport, &src) };
        source_is_peer && local_port == self.dst.port
    }

    /// Is the packet of the same flow?
    #[inline]
    pub fn is_same_flow(&self, hdr: &Header) -> bool {
        self.src == hdr.src() && self.dst == hdr.dst()
    }

    /// May the socket, as it is at this moment, be given the packet without the regular path?
    ///
    /// Checks all that the C path checks: state and protocol of the socket, its transport, its
    /// namespace, and its room for the packet. Whoever of them says no, the verdict on the packet
    /// is the C code's.
    #[inline]
    pub fn admits(&self, hdr: &Header) -> bool {
        self.is_native_established()
            && self.account().is_some_and(|account| {
                account
                    .room(self.pending.len(), self.pending_bytes)
                    .admits(hdr.payload_len())
            })
    }

    /// Receives a packet that [`RxRun::admits`] has just agreed to.
    ///
    /// The payload of a small packet is copied, and its buffer returned.
    ///
    /// Mirrors `virtio_transport_recv_enqueue()`.
    #[inline]
    pub fn take(&mut self, packet: RxPacket) -> Option<RxBuffer> {
        let hdr = *packet.header();
        trace::recv_pkt(&hdr);
        self.newest = Some(hdr);
        if self.merge(&packet) {
            return Some(packet.into_buffer());
        }
        self.pending_bytes += hdr.payload_len();
        self.pending.push_back(packet.into_owned_by(&self.sock));
        None
    }

    /// Copies a small packet into the skb before it, if there is one with room.
    #[inline]
    fn merge(&mut self, packet: &RxPacket) -> bool {
        let len = packet.header().payload_len();
        if len > COPY_LEN {
            return false;
        }
        if let Some(tail) = self.pending.tail() {
            // SAFETY: The tail is a valid skb, ours by way of the list.
            let merged =
                unsafe { bindings::virtio_vsock_skb_try_merge(tail.as_ptr(), packet.skb.as_ptr()) };
            if merged {
                self.pending_bytes += len;
            }
            return merged;
        }
        self.account().is_some_and(|account| {
            account.rx(|rx| {
                let merged = rx.merge_into_tail(&packet.skb);
                if merged {
                    rx.charge(len);
                }
                merged
            })
        })
    }

    /// The socket's account, unless it went to another transport.
    #[inline]
    fn account(&self) -> Option<Account<'_>> {
        // SAFETY: By the type invariant this is a vsock socket; a `TransportTable` is built on the
        // C common code.
        unsafe { Account::of(&self.sock, self.transport) }
    }

    /// Is it an established stream socket of our transport that only its own protocol serves?
    ///
    /// False as well if it is done, if there is a psock, if `sk_prot` is not its creator's, or if a
    /// device may not reach its namespace. Some of it may change without the socket lock, so that
    /// the answer is for now.
    #[inline]
    fn is_native_established(&self) -> bool {
        // SAFETY: This is a vsock socket; what changes under the socket lock only does not, as
        // that is held, and the rest is read once.
        unsafe { bindings::vsock_is_native_established(self.vsk(), self.transport) }
    }

    /// The C socket.
    #[inline]
    fn vsk(&self) -> *mut bindings::vsock_sock {
        // CAST: A `struct vsock_sock` begins with its `struct sock`.
        self.sock.as_ptr().cast()
    }
}

impl Drop for RxRun {
    fn drop(&mut self) {
        let Some(newest) = self.newest else { return };
        let mut pending = core::mem::take(&mut self.pending);
        // The account is still there: a packet was admitted under this lock, and a socket leaves
        // its transport under its lock only.
        let Some(account) = self.account() else {
            return;
        };
        let vsk = self.vsk();
        let space_available = account.space_update(&newest);
        // The CID may have changed, after a transport reset.
        //
        // SAFETY: This is a vsock socket, and its lock is held.
        unsafe {
            if (*vsk).local_addr.svm_cid != super::CID_ANY {
                (*vsk).local_addr.svm_cid = self.dst.cid;
            }
        }
        if space_available {
            self.sock.write_space();
        }
        let appended = pending.len();
        if appended > 0 {
            account.rx(|rx| {
                rx.append(&mut pending);
                rx.charge(self.pending_bytes);
            });
        }
        // A reader takes all that there is when it is woken once. A psock's verdict, if one came
        // while the packets were pending, takes one skb each time.
        let wakeups = if self.is_native_established() {
            1
        } else {
            appended.max(1)
        };
        for _ in 0..wakeups {
            // SAFETY: The socket is valid, and its lock is held.
            unsafe { bindings::vsock_data_ready(self.sock.as_ptr()) };
        }
    }
}
