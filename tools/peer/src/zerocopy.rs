// SPDX-License-Identifier: GPL-2.0
//! Completions of `MSG_ZEROCOPY` sends, read from the socket's error queue.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, getsockopt, recvmsg, setsockopt};
use serde::{Deserialize, Serialize};

use crate::report::Fault;
use crate::socket::{Socket, ZeroCopy};

/// From `<linux/vm_sockets.h>`.
const SOL_VSOCK: i32 = 287;
const VSOCK_RECVERR: i32 = 1;

/// From `<linux/errqueue.h>`.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// Counts of completions, summed up over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Completions {
    /// Sends that the kernel has completed.
    pub completed: u64,
    /// Of these, those whose bytes were copied after all.
    pub copied: u64,
}

impl Completions {
    /// Adds another connection's.
    pub fn merge(&mut self, other: Self) {
        self.completed += other.completed;
        self.copied += other.copied;
    }
}

/// The completions of one socket, each of which has to come exactly once.
///
/// The kernel numbers them from 0. Each `send()` has at least one, and more
/// when it waited for credit in between.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Sends that were made.
    sends: u64,
    /// Ranges of numbers that came, disjoint, in order, neighbours merged.
    ranges: Vec<(u64, u64)>,
    counts: Completions,
}

impl Ledger {
    /// Allows `MSG_ZEROCOPY` on the socket.
    pub fn open(socket: &Socket) -> Result<Self, Fault> {
        setsockopt(&socket, ZeroCopy, &true)
            .map_err(|errno| Fault::call("setting SO_ZEROCOPY", errno))?;
        Ok(Self::default())
    }

    /// Notes a send.
    pub fn sent(&mut self) {
        self.sends += 1;
    }

    /// What came so far.
    pub fn counts(&self) -> Completions {
        self.counts
    }

    /// Every send has its completion, and none is missing in between.
    pub fn settled(&self) -> bool {
        match self.ranges.as_slice() {
            [] => self.sends == 0,
            [(0, last)] => last + 1 >= self.sends,
            _ => false,
        }
    }

    /// Reads the completions that are there.
    pub fn drain(&mut self, socket: &Socket) -> Result<(), Fault> {
        while let Some((low, high, copied)) = read(socket)? {
            self.note(low, high, copied)?;
        }
        Ok(())
    }

    /// Waits for at least one more completion.
    ///
    /// A connection that both ends have ended says so at every look, while completions of what it
    /// sent last may still come. So only news count here.
    pub fn wait(&mut self, socket: &Socket, deadline: Instant) -> Result<(), Fault> {
        let failed = |errno| Fault::call("waiting for MSG_ZEROCOPY completions", errno);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let news = EpollEvent::new(EpollFlags::EPOLLERR | EpollFlags::EPOLLET, 0);
        epoll.add(socket.as_fd(), news).map_err(failed)?;
        let before = self.counts.completed;
        loop {
            self.drain(socket)?;
            if self.counts.completed > before {
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = self.sends.saturating_sub(before);
                let error = getsockopt(&socket, SocketError).map(Errno::from_raw);
                return Err(Fault::Completion(format!(
                    "{missing} sends have no completion, and the connection has {error:?}"
                )));
            }
            let timeout = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX);
            match epoll.wait(&mut [EpollEvent::empty()], timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    fn note(&mut self, low: u64, high: u64, copied: bool) -> Result<(), Fault> {
        if high < low {
            return Err(Fault::Completion(format!(
                "range {low}..={high} is backwards"
            )));
        }
        let at = self.ranges.partition_point(|&(_, end)| end < low);
        if self.ranges.get(at).is_some_and(|&(start, _)| start <= high) {
            let what = format!("number in {low}..={high} was completed twice");
            return Err(Fault::Completion(what));
        }
        self.ranges.insert(at, (low, high));
        self.ranges.dedup_by(|next, kept| {
            let touch = kept.1 + 1 == next.0;
            if touch {
                kept.1 = next.1;
            }
            touch
        });
        let count = high - low + 1;
        self.counts.completed += count;
        if copied {
            self.counts.copied += count;
        }
        Ok(())
    }
}

/// Takes one notification: the lowest and highest number, and whether copied.
fn read(socket: &Socket) -> Result<Option<(u64, u64, bool)>, Fault> {
    let mut control = nix::cmsg_space!([u8; 64]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let fd = socket.as_fd().as_raw_fd();
    let message = match recvmsg::<()>(fd, &mut [], Some(&mut control), flags) {
        Ok(message) => message,
        Err(Errno::EAGAIN) => return Ok(None),
        Err(errno) => return Err(Fault::call("reading the error queue", errno)),
    };
    let mut control = message
        .cmsgs()
        .map_err(|errno| Fault::call("reading the error queue's control message", errno))?;
    let Some(ControlMessageOwned::Unknown(unknown)) = control.next() else {
        let what = "the error queue held something that is no vsock error";
        return Err(Fault::Completion(what.into()));
    };
    let header = unknown.cmsg_header;
    if (header.cmsg_level, header.cmsg_type) != (SOL_VSOCK, VSOCK_RECVERR) {
        let what = format!(
            "control message of level {} and type {}",
            header.cmsg_level, header.cmsg_type
        );
        return Err(Fault::Completion(what));
    }
    parse(&unknown.data_bytes).map(Some)
}

/// Reads a `struct sock_extended_err` that has to be a zero-copy notification.
fn parse(bytes: &[u8]) -> Result<(u64, u64, bool), Fault> {
    let word = |at: usize| -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (Some(errno), Some(kind), Some(info), Some(data)) = (word(0), word(4), word(8), word(12))
    else {
        let what = format!("control message of {} bytes is too short", bytes.len());
        return Err(Fault::Completion(what));
    };
    let [origin, _type, code, _pad] = kind.to_ne_bytes();
    if origin != SO_EE_ORIGIN_ZEROCOPY || errno != 0 {
        let what = format!("error {errno} of origin {origin} where a completion belongs");
        return Err(Fault::Completion(what));
    }
    let copied = code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
    Ok((info.into(), data.into(), copied))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sends: u64) -> Ledger {
        Ledger {
            sends,
            ..Ledger::default()
        }
    }

    #[test]
    fn completions_settle_in_any_order() {
        let mut ledger = ledger(6);
        for (low, high) in [(4, 5), (0, 0), (2, 3)] {
            ledger.note(low, high, false).unwrap();
            assert!(!ledger.settled());
        }
        ledger.note(1, 1, true).unwrap();
        assert!(ledger.settled());
        let expected = Completions {
            completed: 6,
            copied: 1,
        };
        assert_eq!(ledger.counts(), expected);
    }

    #[test]
    fn a_completion_that_comes_twice_is_a_fault() {
        let mut ledger = ledger(6);
        ledger.note(0, 3, false).unwrap();
        assert!(ledger.note(3, 4, false).is_err());
        assert!(ledger.note(2, 2, false).is_err());
    }

    #[test]
    fn a_missing_completion_is_seen() {
        let mut ledger = ledger(3);
        ledger.note(0, 1, false).unwrap();
        assert!(!ledger.settled());
        let mut ledger = self::ledger(3);
        ledger.note(1, 2, false).unwrap();
        assert!(!ledger.settled());
    }

    #[test]
    fn notifications_are_parsed_and_others_refused() {
        let mut bytes = [0u8; 16];
        bytes[4] = SO_EE_ORIGIN_ZEROCOPY;
        bytes[6] = SO_EE_CODE_ZEROCOPY_COPIED;
        bytes[8..12].copy_from_slice(&7u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&9u32.to_ne_bytes());
        assert_eq!(parse(&bytes).unwrap(), (7, 9, true));
        bytes[4] = 2;
        assert!(parse(&bytes).is_err());
        assert!(parse(&bytes[..8]).is_err());
    }
}
