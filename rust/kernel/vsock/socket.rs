// SPDX-License-Identifier: GPL-2.0

//! AF_VSOCK sockets, as a transport sees them.
//!
//! C header: [`include/net/af_vsock.h`](srctree/include/net/af_vsock.h)

use super::Header;
use crate::{
    bindings,
    net::sock::Sock, //
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    sync::aref::ARef,
    types::Opaque, //
};

/// A vsock socket that the socket layer has called the transport about.
///
/// Stands for `struct vsock_sock`.
///
/// # Invariants
///
/// A `VsockSock` is a valid `struct vsock_sock`.
#[repr(transparent)]
pub struct VsockSock(Opaque<bindings::vsock_sock>);

impl VsockSock {
    /// The socket of a transport callback.
    ///
    /// # Safety
    ///
    /// `vsk` must be valid for `'a`.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(vsk: *mut bindings::vsock_sock) -> &'a Self {
        // SAFETY: By the requirements of this function; the type is a transparent wrapper.
        unsafe { &*vsk.cast() }
    }

    /// The C socket.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::vsock_sock {
        self.0.get()
    }

    /// Is the socket's network namespace in global mode?
    ///
    /// Stands for `vsock_net_mode_global()`.
    pub fn net_mode_global(&self) -> bool {
        // SAFETY: By the type invariant the socket is valid, and with it its namespace.
        unsafe { bindings::vsock_net_mode_global(self.as_ptr()) }
    }
}

/// Looks `hdr`'s flow up among the connected sockets that a device in global mode may reach.
///
/// Stands for `vsock_find_connected_socket_net()`.
#[inline]
pub(super) fn find_connected(hdr: &Header) -> Option<ARef<Sock>> {
    let mut src = sockaddr(hdr.src());
    let mut dst = sockaddr(hdr.dst());
    // SAFETY: Both addresses are valid; no namespace stands for global mode.
    let sk = unsafe { bindings::vsock_find_connected_socket_net(&mut src, &mut dst, null_mut()) };
    let sk = NonNull::new(sk)?;
    // SAFETY: The socket was returned with a reference, which is ours.
    Some(unsafe { ARef::from_raw(sk.cast()) })
}

/// Mirrors `vsock_addr_init()`.
#[inline]
pub(super) fn sockaddr(addr: super::Addr) -> bindings::sockaddr_vm {
    bindings::sockaddr_vm {
        // CAST: The family is a small constant.
        svm_family: bindings::AF_VSOCK as bindings::__kernel_sa_family_t,
        svm_cid: addr.cid,
        svm_port: addr.port,
        ..Default::default()
    }
}
