// SPDX-License-Identifier: GPL-2.0
//! Redirection by this program: each datagram is received, and sent again.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};
use rustix::event::PollFlags;

use crate::count::Counts;
use crate::error::Error;
use crate::until::{End, Until};

/// The longest datagram; a sender without privileges has to be content with net.core.wmem_max.
const LONGEST: usize = 1 << 20;

/// Copies until there is a reason to end. What was sent before a signal is passed on, unless there is a
/// second one.
pub(crate) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    until: &Until<'_>,
) -> Result<(Counts, End), Error> {
    let mut copier = Copier {
        from,
        to,
        until,
        buffer: vec![0; LONGEST],
        counts: Counts::default(),
        asked: false,
    };
    let end = copier.run()?;
    Ok((copier.counts, end))
}

struct Copier<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    until: &'a Until<'a>,
    buffer: Vec<u8>,
    counts: Counts,
    /// There was a signal.
    asked: bool,
}

impl Copier<'_> {
    fn run(&mut self) -> Result<End, Error> {
        loop {
            if !self.asked {
                match self.until.ready(self.from, PollFlags::IN)? {
                    Some(End::Closed) => return Ok(End::Closed),
                    Some(End::Asked) => self.take_no_more()?,
                    None => {}
                }
            }
            match self.receive()? {
                Some(0) => self.counts.empty += 1,
                Some(length) => {
                    if let Some(end) = self.pass_on(length)? {
                        return Ok(end);
                    }
                    self.counts.datagrams += 1;
                    self.counts.bytes += length as u64;
                }
                None if self.asked => return Ok(End::Asked),
                None => {}
            }
        }
    }

    /// Refuses new datagrams, so that there is an end of those that wait.
    fn take_no_more(&mut self) -> Result<(), Error> {
        self.asked = true;
        shutdown(self.from.as_raw_fd(), Shutdown::Read)
            .map_err(|errno| Error::call("shutting down the UNIX socket", errno))
    }

    /// The length of the next datagram, if there is one.
    fn receive(&mut self) -> Result<Option<usize>, Error> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        match recv(self.from.as_raw_fd(), &mut self.buffer, flags) {
            Ok(length) if length > LONGEST => Err(Error::TooLong { length }),
            Ok(length) => Ok(Some(length)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(Error::call("receiving a datagram", errno)),
        }
    }

    /// Sends as much of the buffer, however long the peer may take; or says why not.
    fn pass_on(&mut self, length: usize) -> Result<Option<End>, Error> {
        let mut sent = 0;
        while sent < length {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.to.as_raw_fd(), &self.buffer[sent..length], flags) {
                Ok(more) => sent += more,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => match self.until.ready(self.to, PollFlags::OUT)? {
                    Some(End::Asked) if !self.asked => self.take_no_more()?,
                    Some(end) => return Ok(Some(end)),
                    None => {}
                },
                Err(Errno::EPIPE) => return Ok(Some(End::Closed)),
                Err(errno) => return Err(Error::call("sending to the vsock peer", errno)),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::thread;

    use super::*;
    use crate::until::Signals;

    /// Copies from a datagram socket to a stream whose other end `host` has, until that returns.
    fn copied(
        datagrams: &[&[u8]],
        host: impl FnOnce(UnixStream) + Send + 'static,
    ) -> (Counts, End) {
        let (sender, inbox) = UnixDatagram::pair().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        for datagram in datagrams {
            sender.send(datagram).unwrap();
        }
        let host = thread::spawn(move || host(far));
        let signals = Signals::catch().unwrap();
        let until = Until::new(&signals, near.as_fd());
        let result = copy(inbox.as_fd(), near.as_fd(), &until).unwrap();
        host.join().unwrap();
        result
    }

    #[test]
    fn datagrams_become_one_stream_and_empty_ones_nothing() {
        let (counts, end) = copied(&[b"one", b"", b"two"], |mut far| {
            let mut got = [0; 6];
            far.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"onetwo");
        });
        assert_eq!(end, End::Closed);
        let text = "redirected 2 datagrams, 6 bytes; dropped 1 that were empty";
        assert_eq!(counts.to_string(), text);
    }

    #[test]
    fn what_the_host_sends_is_no_reason_to_end() {
        let (counts, end) = copied(&[b"one"], |mut far| {
            far.write_all(b"thanks").unwrap();
            far.read_exact(&mut [0; 3]).unwrap();
        });
        assert_eq!((counts.datagrams, end), (1, End::Closed));
    }

    #[test]
    fn a_datagram_longer_than_the_streams_buffer_arrives_whole() {
        let long = [7; 150_000];
        let (counts, _) = copied(&[&long], move |mut far| {
            let mut got = vec![0; long.len()];
            far.read_exact(&mut got).unwrap();
            assert!(got == long);
        });
        assert_eq!(counts.bytes, 150_000);
    }
}
