// SPDX-License-Identifier: GPL-2.0
//! The two sockets.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, VsockAddr, bind, connect, socket,
};

use crate::error::Error;

/// A UNIX datagram socket, whose path is removed with it.
pub(crate) struct Inbox {
    socket: OwnedFd,
    path: Option<PathBuf>,
}

impl Inbox {
    /// Makes one to which nobody can send yet.
    pub(crate) fn new() -> Result<Self, Error> {
        let (family, kind) = (AddressFamily::Unix, SockType::Datagram);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|errno| Error::call("making a UNIX socket", errno))?;
        Ok(Self { socket, path: None })
    }

    /// Gives it a path.
    pub(crate) fn bind(&mut self, path: &Path) -> Result<(), Error> {
        UnixAddr::new(path)
            .and_then(|address| bind(self.socket.as_raw_fd(), &address))
            .map_err(|errno| Error::Bind {
                path: path.to_owned(),
                errno,
            })?;
        self.path = Some(path.to_owned());
        Ok(())
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Whoever has removed it already has done what was to be done.
            let _ = fs::remove_file(path);
        }
    }
}

/// Connects a STREAM socket to a vsock server.
pub(crate) fn connect_to(cid: u32, port: u32) -> Result<OwnedFd, Error> {
    let (family, kind) = (AddressFamily::Vsock, SockType::Stream);
    let connected = socket(family, kind, SockFlag::SOCK_CLOEXEC, None).and_then(|socket| {
        connect(socket.as_raw_fd(), &VsockAddr::new(cid, port))?;
        Ok(socket)
    });
    connected.map_err(|errno| Error::Connect { cid, port, errno })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_free_again_when_its_socket_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let mut first = Inbox::new().unwrap();
        first.bind(&path).unwrap();
        let mut second = Inbox::new().unwrap();
        let error = second.bind(&path).unwrap_err().to_string();
        assert!(error.ends_with("remove the file"), "{error}");
        // What it could not bind to is not its own to remove.
        drop(second);
        assert!(path.exists());
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let path = Path::new("/").join("x".repeat(200));
        let error = Inbox::new().unwrap().bind(&path).unwrap_err().to_string();
        assert!(error.ends_with("at most 107 bytes"), "{error}");
    }
}
