// SPDX-License-Identifier: GPL-2.0
//! What makes a transfer harder than most programs do.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use serde::{Deserialize, Serialize};

use crate::plan::{Kind, Plan};
use crate::report::Fault;
use crate::socket::{Socket, wait};

/// The kernel's default of `SO_VM_SOCKETS_BUFFER_SIZE`.
const DEFAULT_BUFFER: u64 = 256 * 1024;

/// How often a reader that waits looks at what has come.
const LOOK: Duration = Duration::from_millis(10);

/// Options of a transfer that most have off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::Args)]
pub struct Habits {
    /// Receive nothing until the receive buffer is full or everything is in it.
    #[arg(long)]
    pub read_when_full: bool,
    /// Make the receive buffer this small once it is full, and begin to receive then.
    #[arg(long)]
    pub shrink: Option<u64>,
    /// SO_RCVLOWAT of every receiver.
    #[arg(long)]
    pub rcvlowat: Option<i32>,
    /// The receiver ends its own sending first, and the sender waits for that before its first byte.
    #[arg(long)]
    pub mute: bool,
    /// Writes, and so messages, of all sizes up to that of --write-size.
    #[arg(long)]
    pub mixed: bool,
    /// SEQPACKET: look at every message with MSG_PEEK before it is received, and find the same.
    #[arg(long)]
    pub peek: bool,
    /// SEQPACKET: receive every second message with a buffer of half its size and MSG_TRUNC, which has
    /// to tell its real size.
    #[arg(long)]
    pub truncate: bool,
    /// Put every receiver's socket into a BPF sockmap once so many bytes have come.
    #[arg(long, value_name = "BYTES")]
    pub sockmap: Option<u64>,
}

impl Habits {
    /// The command line that asks for them.
    pub fn arguments(&self) -> Vec<String> {
        let switches = [
            (self.read_when_full, "--read-when-full"),
            (self.mute, "--mute"),
            (self.mixed, "--mixed"),
            (self.peek, "--peek"),
            (self.truncate, "--truncate"),
        ];
        let on = switches.into_iter().filter(|(on, _)| *on);
        let mut args: Vec<String> = on.map(|(_, name)| name.to_owned()).collect();
        args.extend(self.shrink.map(|bytes| format!("--shrink={bytes}")));
        args.extend(self.rcvlowat.map(|bytes| format!("--rcvlowat={bytes}")));
        args.extend(self.sockmap.map(|bytes| format!("--sockmap={bytes}")));
        args
    }
}

impl Plan {
    /// Bytes of the write at `offset`, as both ends reckon it; at least 1.
    pub fn write_at(&self, offset: u64) -> usize {
        let size = if self.habits.mixed {
            // The sizes have to be spread, and the same at both ends, and nothing more.
            let mut x = offset.wrapping_add(self.seed).wrapping_add(1);
            x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^= x >> 29;
            // As many small ones as large ones: a random length of a random number of digits.
            let bits = u64::from(usize::BITS - self.write_size.leading_zeros());
            let most = (1_u64 << (x % bits + 1)).min(self.write_size as u64);
            ((x >> 8) % most + 1) as usize
        } else {
            self.write_size
        };
        let left = self.bytes.saturating_sub(offset).max(1);
        usize::try_from(left).map_or(size, |left| left.min(size))
    }

    /// The most that a receiver's buffer can hold of what it is to receive.
    fn most_unread(&self) -> u64 {
        self.bytes.min(self.buffer_size.unwrap_or(DEFAULT_BUFFER))
    }
}

/// Waits until the socket's receive buffer is full, or holds everything that was sent.
pub fn await_full(socket: &Socket, plan: &Plan, deadline: Instant) -> Result<(), Fault> {
    let full = plan.most_unread();
    loop {
        let unread = socket
            .unread()
            .map_err(|errno| Fault::call("looking at how much is unread", errno))?;
        if unread >= full {
            return Ok(());
        }
        if let Some(errno) = socket.error() {
            let doing = format!("waiting with {unread} of {full} bytes unread");
            return Err(Fault::call(doing, errno));
        }
        if Instant::now() > deadline {
            let doing = format!("waiting for the receive buffer, with {unread} of {full} bytes");
            return Err(Fault::Timeout {
                doing,
                seconds: plan.timeout.as_secs(),
            });
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until the peer has ended its sending, without having sent anything.
pub fn await_silence(socket: &Socket, plan: &Plan, deadline: Instant) -> Result<(), Fault> {
    let doing = "waiting for the peer to end its sending first";
    wait(socket.as_fd(), PollFlags::POLLIN, deadline).map_err(|errno| Fault::call(doing, errno))?;
    loop {
        match socket.receive(&mut [0]) {
            Ok(received) if received.len == 0 => return Ok(()),
            Ok(received) => {
                return Err(Fault::Excess {
                    got: received.len as u64,
                    expected: 0,
                });
            }
            Err(Errno::EINTR) => {}
            Err(errno) => {
                debug_assert_eq!(plan.kind, Kind::Stream);
                return Err(Fault::call(doing, errno));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_writes_have_all_sizes_and_end_with_the_payload() {
        let mut plan = Plan::echo(Kind::Stream, 1);
        plan.bytes = 10_000_000;
        plan.write_size = 65_536;
        plan.habits.mixed = true;
        let (mut offset, mut small, mut large) = (0, 0, 0);
        while offset < plan.bytes {
            let size = plan.write_at(offset);
            assert!((1..=65_536).contains(&size));
            small += usize::from(size <= 64);
            large += usize::from(size > 4096);
            offset += size as u64;
        }
        assert_eq!(offset, plan.bytes);
        assert!(small > 100 && large > 100, "{small} {large}");
    }

    #[test]
    fn without_habits_writes_are_as_planned() {
        let mut plan = Plan::echo(Kind::Stream, 1);
        plan.bytes = 10_000;
        plan.write_size = 4096;
        assert_eq!(plan.write_at(0), 4096);
        assert_eq!(plan.write_at(8192), 1808);
        assert!(plan.habits.arguments().is_empty());
    }
}
