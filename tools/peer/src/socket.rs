// SPDX-License-Identifier: GPL-2.0
//! Connected AF_VSOCK sockets, and how they come to be.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::setsockopt_impl;
use nix::sys::socket::sockopt::{SetBool, SetStruct, SocketError};
use nix::sys::socket::{
    self, AddressFamily, Backlog, MsgFlags, Shutdown, SockFlag, SockType, VsockAddr, getpeername,
    getsockname, getsockopt, setsockopt,
};

use crate::plan::{Kind, Plan};
use crate::report::Fault;

/// From `<linux/vm_sockets.h>`: the option level is the address family.
const SOL_AF_VSOCK: i32 = libc::AF_VSOCK;
const SO_VM_SOCKETS_BUFFER_SIZE: i32 = 0;
const SO_VM_SOCKETS_BUFFER_MIN_SIZE: i32 = 1;
const SO_VM_SOCKETS_BUFFER_MAX_SIZE: i32 = 2;

/// Receive buffer, which is the credit granted to the peer.
#[derive(Clone, Copy, Debug)]
struct BufferSize;

/// The bound that the kernel puts on the buffer size.
#[derive(Clone, Copy, Debug)]
struct BufferMaxSize;

/// How much has to be there before a receiver is woken.
#[derive(Clone, Copy, Debug)]
struct RcvLowat;

/// The bound on the other side.
#[derive(Clone, Copy, Debug)]
struct BufferMinSize;

/// Permission to use `MSG_ZEROCOPY`.
#[derive(Clone, Copy, Debug)]
pub struct ZeroCopy;

setsockopt_impl!(
    BufferSize,
    SOL_AF_VSOCK,
    SO_VM_SOCKETS_BUFFER_SIZE,
    u64,
    SetStruct<'_, u64>
);
setsockopt_impl!(
    BufferMaxSize,
    SOL_AF_VSOCK,
    SO_VM_SOCKETS_BUFFER_MAX_SIZE,
    u64,
    SetStruct<'_, u64>
);
setsockopt_impl!(
    BufferMinSize,
    SOL_AF_VSOCK,
    SO_VM_SOCKETS_BUFFER_MIN_SIZE,
    u64,
    SetStruct<'_, u64>
);
setsockopt_impl!(ZeroCopy, libc::SOL_SOCKET, libc::SO_ZEROCOPY, bool, SetBool);

setsockopt_impl!(
    RcvLowat,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    i32,
    SetStruct<'_, i32>
);

/// A connected, blocking socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// What one `recv()` brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the buffer; 0 at the end of the stream.
    pub len: usize,
    /// The message carried `MSG_EOR`.
    pub eor: bool,
    /// The message was longer than the buffer.
    pub truncated: bool,
}

impl Socket {
    /// Connects to a listener. The kernel gives up after two seconds by itself.
    pub fn connect(plan: &Plan, cid: u32, port: u32) -> nix::Result<Self> {
        let fd = new_socket(plan)?;
        socket::connect(fd.as_raw_fd(), &VsockAddr::new(cid, port))?;
        Ok(Self(fd))
    }

    /// Sends what the kernel takes; all of it, unless something interferes.
    pub fn send(&self, bytes: &[u8], flags: MsgFlags) -> nix::Result<usize> {
        socket::send(self.0.as_raw_fd(), bytes, flags | MsgFlags::MSG_NOSIGNAL)
    }

    /// Receives at most a buffer full, or one message.
    pub fn receive(&self, buffer: &mut [u8]) -> nix::Result<Received> {
        let mut iov = [IoSliceMut::new(buffer)];
        let message = socket::recvmsg::<()>(self.0.as_raw_fd(), &mut iov, None, MsgFlags::empty())?;
        Ok(Received {
            len: message.bytes,
            eor: message.flags.contains(MsgFlags::MSG_EOR),
            truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
        })
    }

    /// The port of this end.
    pub fn local_port(&self) -> nix::Result<u32> {
        Ok(getsockname::<VsockAddr>(self.0.as_raw_fd())?.port())
    }

    /// The port of the other end.
    pub fn remote_port(&self) -> nix::Result<u32> {
        Ok(getpeername::<VsockAddr>(self.0.as_raw_fd())?.port())
    }

    /// Bytes that have come and are not received yet.
    pub fn unread(&self) -> nix::Result<u64> {
        rustix::io::ioctl_fionread(&self.0).map_err(|error| Errno::from_raw(error.raw_os_error()))
    }

    /// The error that the socket has, which is gone with the asking.
    pub fn error(&self) -> Option<Errno> {
        match getsockopt(&self.0, SocketError) {
            Ok(0) => None,
            Ok(error) => Some(Errno::from_raw(error)),
            Err(errno) => Some(errno),
        }
    }

    /// Sets from how many bytes on a receiver is woken.
    pub fn set_rcvlowat(&self, bytes: i32) -> nix::Result<()> {
        setsockopt(&self.0, RcvLowat, &bytes)
    }

    /// Changes the receive buffer, and with it what the peer may send.
    pub fn set_buffer_size(&self, bytes: u64) -> nix::Result<()> {
        setsockopt(&self.0, BufferMinSize, &bytes)?;
        setsockopt(&self.0, BufferSize, &bytes)
    }

    /// Looks at the next message, without taking it.
    pub fn peek(&self, buffer: &mut [u8]) -> nix::Result<usize> {
        socket::recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_PEEK)
    }

    /// Takes the next message, as much of it as the buffer holds; returns its whole length.
    pub fn receive_truncated(&self, buffer: &mut [u8]) -> nix::Result<usize> {
        socket::recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_TRUNC)
    }

    /// Ends this end's sending.
    pub fn half_close(&self) -> nix::Result<()> {
        socket::shutdown(self.0.as_raw_fd(), Shutdown::Write)
    }

    /// Wakes every thread that is blocked on the socket.
    pub fn abort(&self) {
        // A socket that the peer has reset already says ENOTCONN, which is as good.
        let _ = socket::shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Listens on a port of any local address, with room for all connections.
    pub fn bind(plan: &Plan, port: u32) -> nix::Result<Self> {
        let fd = new_socket(plan)?;
        let port = if port == 0 {
            libc::VMADDR_PORT_ANY
        } else {
            port
        };
        socket::bind(fd.as_raw_fd(), &VsockAddr::new(libc::VMADDR_CID_ANY, port))?;
        // The kernel lowers it to what it allows.
        let backlog = i32::try_from(plan.connections)
            .unwrap_or(i32::MAX)
            .min(4096);
        socket::listen(&fd, Backlog::new(backlog)?)?;
        Ok(Self(fd))
    }

    /// Listens, and tells the port.
    pub fn open(
        plan: &Plan,
        port: u32,
        listening: impl FnOnce(u32),
    ) -> Result<Self, (Option<u32>, Fault)> {
        let failed = |errno| {
            (
                None,
                Fault::call(format!("listening on port {port}"), errno),
            )
        };
        let listener = Self::bind(plan, port).map_err(failed)?;
        listening(listener.port().map_err(failed)?);
        Ok(listener)
    }

    /// The socket that is waited on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The port that is listened on.
    pub fn port(&self) -> nix::Result<u32> {
        Ok(getsockname::<VsockAddr>(self.0.as_raw_fd())?.port())
    }

    /// The next connection, in the order of connecting, or `ETIMEDOUT`.
    pub fn accept(&self, deadline: Instant) -> nix::Result<Socket> {
        wait(self.0.as_fd(), PollFlags::POLLIN, deadline)?;
        self.take()
    }

    /// The next connection, however long it takes to come.
    pub fn take(&self) -> nix::Result<Socket> {
        Ok(Socket(socket::accept4(&self.0, SockFlag::SOCK_CLOEXEC)?))
    }
}

fn new_socket(plan: &Plan) -> nix::Result<OwnedFd> {
    let kind = match plan.kind {
        Kind::Stream => SockType::Stream,
        Kind::Seqpacket => SockType::SeqPacket,
    };
    let fd = socket::socket(AddressFamily::Vsock, kind, SockFlag::SOCK_CLOEXEC, None)?;
    // Before connect() and listen(): the size goes to the peer with the first
    // packet, and accepted sockets inherit it.
    if let Some(size) = plan.buffer_size {
        setsockopt(&fd, BufferMaxSize, &size)?;
        setsockopt(&fd, BufferSize, &size)?;
    }
    Ok(fd)
}

/// Waits for an event, or fails with `ETIMEDOUT` at the deadline.
pub fn wait(fd: BorrowedFd<'_>, events: PollFlags, deadline: Instant) -> nix::Result<PollFlags> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(fd, events)];
        match poll(&mut fds, timeout) {
            Ok(0) if left.as_millis() == 0 => return Err(Errno::ETIMEDOUT),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(fds[0].revents().unwrap_or(PollFlags::empty())),
            Err(errno) => return Err(errno),
        }
    }
}
