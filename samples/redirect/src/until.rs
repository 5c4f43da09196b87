// SPDX-License-Identifier: GPL-2.0
//! When to end: at a signal, or with the vsock peer.

use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{getsockopt, sockopt::SocketError};
use rustix::event::{PollFd, PollFlags, poll};

use crate::error::Error;

/// Why a redirection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// SIGINT or SIGTERM came.
    Asked,
    /// The vsock peer has closed the connection, or at least its own sending.
    Closed,
}

/// SIGINT and SIGTERM, which end nothing by themselves from now on.
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Catches them.
    pub(crate) fn catch() -> nix::Result<Self> {
        let set = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        set.thread_block()?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self(SignalFd::with_flags(&set, flags)?))
    }
}

/// What ends a redirection to a socket.
pub(crate) struct Until<'a> {
    signals: &'a Signals,
    peer: BorrowedFd<'a>,
}

impl<'a> Until<'a> {
    /// At one of these signals, or with the connection to this peer.
    pub(crate) fn new(signals: &'a Signals, peer: BorrowedFd<'a>) -> Self {
        Self { signals, peer }
    }

    /// Waits for the end.
    pub(crate) fn end(&self) -> Result<End, Error> {
        loop {
            if let Some(end) = self.wait(&[])? {
                return Ok(end);
            }
        }
    }

    /// Waits until a socket is ready for something, or for the end.
    pub(crate) fn ready(
        &self,
        socket: BorrowedFd<'_>,
        events: PollFlags,
    ) -> Result<Option<End>, Error> {
        self.wait(&[PollFd::from_borrowed_fd(socket, events)])
    }

    fn wait(&self, wanted: &[PollFd<'_>]) -> Result<Option<End>, Error> {
        let mut files = vec![
            PollFd::from_borrowed_fd(self.signals.0.as_fd(), PollFlags::IN),
            // Of a vsock peer that is gone the kernel says RDHUP alone.
            PollFd::from_borrowed_fd(self.peer, PollFlags::RDHUP),
        ];
        files.extend_from_slice(wanted);
        match poll(&mut files, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                let errno = Errno::from_raw(errno.raw_os_error());
                return Err(Error::call("waiting", errno));
            }
        }
        let happened = files[1].revents();
        if happened.intersects(PollFlags::RDHUP | PollFlags::HUP) {
            return Ok(Some(End::Closed));
        }
        if happened.contains(PollFlags::ERR) {
            let errno = getsockopt(&self.peer, SocketError).map_or_else(|e| e, Errno::from_raw);
            return Err(Error::call("the connection to the vsock peer", errno));
        }
        let signal = self.signals.0.read_signal();
        let signal = signal.map_err(|errno| Error::call("reading a signal", errno))?;
        Ok(signal.map(|_| End::Asked))
    }
}
