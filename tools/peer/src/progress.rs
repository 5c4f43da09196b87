// SPDX-License-Identifier: GPL-2.0
//! What each worker is doing right now, so that a deadline can say what was
//! waited for.

use std::fmt;
use std::sync::Mutex;

/// A worker's present step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Not started.
    Starting,
    /// In `send()`.
    Sending,
    /// In `recv()`.
    Receiving,
    /// Sent everything, waiting for MSG_ZEROCOPY completions.
    Completions,
    /// Everything is in, waiting for the end of the stream.
    PeersEnd,
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    step: Step,
    bytes: u64,
    of: Option<u64>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.step {
            Step::Starting => "before the first byte",
            Step::Sending => "in send()",
            Step::Receiving => "in recv()",
            Step::Completions => "waiting for MSG_ZEROCOPY completions",
            Step::PeersEnd => "waiting for the peer to end",
        })?;
        write!(f, " after {} ", self.bytes)?;
        match self.of {
            Some(of) => write!(f, "of {of} bytes"),
            None => f.write_str("bytes"),
        }
    }
}

/// A position that its worker moves and the deadline's keeper reads.
#[derive(Debug)]
pub struct Progress(Mutex<Position>);

impl Progress {
    /// A worker that has not begun, of as many bytes as are known to come.
    pub fn new(of: Option<u64>) -> Self {
        Self(Mutex::new(Position {
            step: Step::Starting,
            bytes: 0,
            of,
        }))
    }

    /// Says what comes next, and how many bytes are done.
    pub fn set(&self, step: Step, bytes: u64) {
        let mut position = self.0.lock().expect("no worker panics with it");
        position.step = step;
        position.bytes = bytes;
    }

    /// Where the worker stands.
    pub fn get(&self) -> Position {
        *self.0.lock().expect("no worker panics with it")
    }
}
