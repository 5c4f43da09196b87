// SPDX-License-Identifier: GPL-2.0

//! Sockets on which a rig's processes reach the lab.

use crate::error::{Error, IoContext as _, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder for sockets, whose paths must be short; gone with the value.
#[derive(Debug)]
pub(crate) struct SocketDir(TempDir);

/// A socket that waits for one connection. It stands before the process that is to connect starts, so
/// that nobody has to try again.
#[derive(Debug)]
pub(crate) struct Expectation {
    name: String,
    path: PathBuf,
    listener: UnixListener,
}

impl SocketDir {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("lab").tempdir();
        folder
            .map(SocketDir)
            .context(|| "make a folder for sockets".into())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Begins to listen.
    pub(crate) fn expect(&self, name: &str) -> Result<Expectation> {
        let path = self.path(name);
        let listener =
            UnixListener::bind(&path).context(|| format!("listen on {}", path.display()))?;
        Ok(Expectation {
            name: name.into(),
            path,
            listener,
        })
    }
}

impl Expectation {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the connection, for at most `timeout`; `alive` says why it will not come any more.
    pub(crate) fn accept(
        self,
        timeout: Duration,
        alive: impl Fn() -> Result<()>,
    ) -> Result<UnixStream> {
        let started = Instant::now();
        let what = || format!("accept the connection for {}", self.name);
        loop {
            alive()?;
            let mut fds = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, PollTimeout::from(200u16)) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(self.listener.accept().context(what)?.0),
                Err(errno) => return Err(errno).context(what),
            }
            if started.elapsed() > timeout {
                let what = format!("the connection for {}", self.name);
                let machine = "this machine".into();
                return Err(Error::TimedOut {
                    machine,
                    what,
                    after: timeout,
                });
            }
        }
    }
}
