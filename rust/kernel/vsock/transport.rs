// SPDX-License-Identifier: GPL-2.0

//! A guest-to-host transport of AF_VSOCK.
//!
//! C headers: [`include/net/af_vsock.h`](srctree/include/net/af_vsock.h),
//! [`include/linux/virtio_vsock.h`](srctree/include/linux/virtio_vsock.h)

use super::{
    rx_packet::RxPacket,
    tx_packet::TxPacket,
    VsockSock, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    types::Opaque,
    ThisModule, //
};

/// What a transport decides; all else is the C common code's.
///
/// None of the functions may sleep.
pub trait Transport: 'static {
    /// The guest's CID, or [`super::CID_ANY`] without a device.
    fn local_cid() -> u32;

    /// May the CID `cid` be reached this way?
    fn has_remote_cid(vsk: &VsockSock, cid: u32) -> bool;

    /// May a stream be opened to `cid` and `port`?
    fn stream_allow(vsk: &VsockSock, cid: u32, port: u32) -> bool;

    /// May a SEQPACKET connection be opened to `cid`?
    fn seqpacket_allow(vsk: &VsockSock, cid: u32) -> bool;

    /// May a packet of `bufs` buffers, its header among them, be sent without a copy?
    fn can_msgzerocopy(bufs: u32) -> bool;

    /// Sends a packet, or drops it and says why.
    fn send_pkt(packet: TxPacket) -> Result;

    /// Drops the packets of `vsk` that wait to be sent.
    fn cancel_pkt(vsk: &VsockSock) -> Result;
}

/// A transport's table, for the C code.
///
/// Stands for `struct virtio_transport`. It is a `static`, as its address is the transport's
/// identity.
#[repr(transparent)]
pub struct TransportTable<T: Transport> {
    table: Opaque<bindings::virtio_transport>,
    _transport: PhantomData<fn() -> T>,
}

// SAFETY: The table is not written after it was made; C takes no mutable access to it.
unsafe impl<T: Transport> Sync for TransportTable<T> {}

impl<T: Transport> TransportTable<T> {
    /// The table of `T`, whose code is in `module`.
    pub const fn new(module: &ThisModule) -> Self {
        Self {
            table: Opaque::new(bindings::virtio_transport {
                transport: bindings::vsock_transport {
                    module: module.as_ptr(),

                    get_local_cid: Some(local_cid_callback::<T>),
                    has_remote_cid: Some(has_remote_cid_callback::<T>),

                    init: Some(bindings::virtio_transport_do_socket_init),
                    destruct: Some(bindings::virtio_transport_destruct),
                    release: Some(bindings::virtio_transport_release),
                    connect: Some(bindings::virtio_transport_connect),
                    shutdown: Some(bindings::virtio_transport_shutdown),
                    cancel_pkt: Some(cancel_pkt_callback::<T>),

                    dgram_bind: Some(bindings::virtio_transport_dgram_bind),
                    dgram_dequeue: Some(bindings::virtio_transport_dgram_dequeue),
                    dgram_enqueue: Some(bindings::virtio_transport_dgram_enqueue),
                    dgram_allow: Some(bindings::virtio_transport_dgram_allow),

                    stream_dequeue: Some(bindings::virtio_transport_stream_dequeue),
                    stream_enqueue: Some(bindings::virtio_transport_stream_enqueue),
                    stream_has_data: Some(bindings::virtio_transport_stream_has_data),
                    stream_has_space: Some(bindings::virtio_transport_stream_has_space),
                    stream_rcvhiwat: Some(bindings::virtio_transport_stream_rcvhiwat),
                    stream_is_active: Some(bindings::virtio_transport_stream_is_active),
                    stream_allow: Some(stream_allow_callback::<T>),

                    seqpacket_dequeue: Some(bindings::virtio_transport_seqpacket_dequeue),
                    seqpacket_enqueue: Some(bindings::virtio_transport_seqpacket_enqueue),
                    seqpacket_allow: Some(seqpacket_allow_callback::<T>),
                    seqpacket_has_data: Some(bindings::virtio_transport_seqpacket_has_data),

                    msgzerocopy_allow: Some(msgzerocopy_allow_callback),

                    notify_poll_in: Some(bindings::virtio_transport_notify_poll_in),
                    notify_poll_out: Some(bindings::virtio_transport_notify_poll_out),
                    notify_recv_init: Some(bindings::virtio_transport_notify_recv_init),
                    notify_recv_pre_block: Some(bindings::virtio_transport_notify_recv_pre_block),
                    notify_recv_pre_dequeue: Some(
                        bindings::virtio_transport_notify_recv_pre_dequeue,
                    ),
                    notify_recv_post_dequeue: Some(
                        bindings::virtio_transport_notify_recv_post_dequeue,
                    ),
                    notify_send_init: Some(bindings::virtio_transport_notify_send_init),
                    notify_send_pre_block: Some(bindings::virtio_transport_notify_send_pre_block),
                    notify_send_pre_enqueue: Some(
                        bindings::virtio_transport_notify_send_pre_enqueue,
                    ),
                    notify_send_post_enqueue: Some(
                        bindings::virtio_transport_notify_send_post_enqueue,
                    ),
                    notify_buffer_size: Some(bindings::virtio_transport_notify_buffer_size),
                    notify_set_rcvlowat: Some(bindings::virtio_transport_notify_set_rcvlowat),

                    unsent_bytes: Some(bindings::virtio_transport_unsent_bytes),

                    read_skb: Some(bindings::virtio_transport_read_skb),
                },
                send_pkt: Some(send_pkt_callback::<T>),
                can_msgzerocopy: Some(can_msgzerocopy_callback::<T>),
            }),
            _transport: PhantomData,
        }
    }

    /// The C table.
    #[inline]
    fn as_ptr(&'static self) -> *mut bindings::virtio_transport {
        self.table.get()
    }

    /// The part of the C table that a socket's `transport` points to.
    #[inline]
    pub(super) fn as_vsock_transport(&'static self) -> *mut bindings::vsock_transport {
        // CAST: `transport` is the first field of `struct virtio_transport`.
        self.as_ptr().cast()
    }

    /// Registers the transport as the one from guest to host, until the result is dropped.
    ///
    /// `EBUSY` if there is such a transport already. May sleep.
    ///
    /// Stands for `vsock_core_register()`.
    pub fn register_g2h(&'static self) -> Result<Registration<T>> {
        // SAFETY: The table is static. C does not write it.
        to_result(unsafe {
            bindings::vsock_core_register(
                self.as_vsock_transport(),
                bindings::VSOCK_TRANSPORT_F_G2H as c_int,
            )
        })?;
        // INVARIANT: It is registered now.
        Ok(Registration(self))
    }

    /// Hands a packet to the regular receive path, which locks the socket that it is for.
    ///
    /// No socket may be locked by the caller. May sleep.
    ///
    /// Stands for `virtio_transport_recv_pkt()`.
    pub fn recv_pkt(&'static self, packet: RxPacket) {
        // No namespace stands for global mode, which is all that a virtio device has.
        //
        // SAFETY: The table is static; the packet is a valid vsock packet, and is given up.
        unsafe {
            bindings::virtio_transport_recv_pkt(
                self.as_ptr(),
                packet.skb.into_raw().as_ptr(),
                null_mut(),
            );
        }
    }

    /// Resets all connected sockets of this transport: they fail with `ECONNRESET`.
    ///
    /// Mirrors `virtio_vsock_reset_sock()` and its use.
    pub fn reset_connected(&'static self) {
        // SAFETY: The table is static.
        unsafe { bindings::vsock_reset_connected(self.as_vsock_transport()) }
    }
}

/// Keeps a transport registered.
///
/// Each socket that uses the transport holds a reference to its module, so that there is none when
/// the module is unloaded and this is dropped. A module that fails to load after it registered has
/// no such protection, and the C driver has none either: little should come after it.
///
/// # Invariants
///
/// The table is registered.
pub struct Registration<T: Transport>(&'static TransportTable<T>);

impl<T: Transport> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the table is registered.
        unsafe { bindings::vsock_core_unregister(self.0.as_vsock_transport()) }
    }
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn local_cid_callback<T: Transport>() -> u32 {
    T::local_cid()
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn has_remote_cid_callback<T: Transport>(
    vsk: *mut bindings::vsock_sock,
    cid: u32,
) -> bool {
    // SAFETY: The socket layer passes a valid socket.
    T::has_remote_cid(unsafe { VsockSock::from_raw(vsk) }, cid)
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn stream_allow_callback<T: Transport>(
    vsk: *mut bindings::vsock_sock,
    cid: u32,
    port: u32,
) -> bool {
    // SAFETY: The socket layer passes a valid socket.
    T::stream_allow(unsafe { VsockSock::from_raw(vsk) }, cid, port)
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn seqpacket_allow_callback<T: Transport>(
    vsk: *mut bindings::vsock_sock,
    cid: u32,
) -> bool {
    // SAFETY: The socket layer passes a valid socket.
    T::seqpacket_allow(unsafe { VsockSock::from_raw(vsk) }, cid)
}

/// Zero-copy sends are the rule; `can_msgzerocopy` decides on each.
///
/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn msgzerocopy_allow_callback() -> bool {
    true
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn can_msgzerocopy_callback<T: Transport>(bufs: c_int) -> bool {
    u32::try_from(bufs).is_ok_and(T::can_msgzerocopy)
}

/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn cancel_pkt_callback<T: Transport>(vsk: *mut bindings::vsock_sock) -> c_int {
    // SAFETY: The socket layer passes a valid socket.
    let vsk = unsafe { VsockSock::from_raw(vsk) };
    from_result(|| T::cancel_pkt(vsk).map(|()| 0))
}

/// Returns the number of bytes of payload that were sent.
///
/// # Safety
///
/// Called by the socket layer or the C common code only.
unsafe extern "C" fn send_pkt_callback<T: Transport>(
    skb: *mut bindings::sk_buff,
    _net: *mut bindings::net,
) -> c_int {
    from_result(|| {
        let skb = NonNull::new(skb).ok_or(EINVAL)?;
        // SAFETY: The C common code passes a packet that it made, and gives it up.
        let packet = unsafe { TxPacket::from_raw(skb) };
        // A packet has 64 KiB of payload at most.
        let len = c_int::try_from(packet.len())?;
        T::send_pkt(packet).map(|()| len)
    })
}
