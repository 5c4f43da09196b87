// SPDX-License-Identifier: GPL-2.0
//! What standard output carries: one JSON object a line.

use std::fmt;
use std::io::Write;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::block::{Blocking, Woken};
use crate::latency::{Latency, Times};
use crate::leave::Price;
use crate::pattern::Difference;
use crate::plan::Plan;
use crate::pledge::Pledged;
use crate::tally::Tally;
use crate::usage::Usage;
use crate::zerocopy::Completions;

/// A line of standard output.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A listener's first: it can be connected to from now on.
    Listening {
        /// The port it listens on.
        port: u32,
    },
    /// A connection stands, which is held from now on.
    Held {
        /// Its number.
        connection: u32,
    },
    /// A connection that was held, or was to be, has ended.
    Ended {
        /// Its number.
        connection: u32,
        /// How: an error's name, or `closed`.
        how: String,
    },
    /// This machine's context ID, if that was all that was asked.
    Cid(u32),
    /// What leaving the guest costs.
    Price(Price),
    /// What became of connections up to now, of those that are made again and again.
    Churn(Box<Tally>),
    /// A call that is about to block.
    Blocked(Blocking),
    /// How it came back.
    Woken(Woken),
    /// What became of zero-copy sends up to now.
    Pledged(Pledged),
    /// What was sent in UNIX datagrams, all of which have been taken.
    Datagrams(Amount),
    /// The last: what was moved, and what went wrong.
    Report(Box<Report>),
}

/// What went wrong on a connection, other than wrong bytes.
#[derive(Clone, Debug, Error)]
pub enum Fault {
    /// A system call failed.
    #[error("{doing}: {errno}")]
    Call {
        /// Which call, and where in the transfer.
        doing: String,
        /// How.
        errno: Errno,
    },
    /// The deadline came first.
    #[error("still {doing} after {seconds} s")]
    Timeout {
        /// What was waited for.
        doing: String,
        /// The time that was given.
        seconds: u64,
    },
    /// The stream ended before its payload did.
    #[error("the stream ended after {got} of {expected} bytes")]
    Short {
        /// Bytes that arrived.
        got: u64,
        /// Bytes that were sent.
        expected: u64,
    },
    /// More than the payload arrived.
    #[error("{got} bytes arrived where {expected} were sent")]
    Excess {
        /// Bytes that arrived.
        got: u64,
        /// Bytes that were sent.
        expected: u64,
    },
    /// A SEQPACKET message is not the message that was sent.
    #[error("message {index} at byte {offset}: {what}")]
    Message {
        /// Number of the message.
        index: u64,
        /// Its place in the payload.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A completion of a zero-copy send is wrong.
    #[error("MSG_ZEROCOPY: {0}")]
    Completion(String),
    /// A socket was not taken into a map.
    #[error("BPF sockmap: {0}")]
    Sockmap(String),
}

impl Fault {
    /// A failed call.
    pub fn call(doing: impl Into<String>, errno: Errno) -> Self {
        Self::Call {
            doing: doing.into(),
            errno,
        }
    }

    fn errno(&self) -> Option<String> {
        match self {
            Self::Call { errno, .. } => Some(format!("{errno:?}")),
            _ => None,
        }
    }
}

/// Traffic in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Amount {
    /// Bytes.
    pub bytes: u64,
    /// Calls that moved them; with SEQPACKET, messages.
    pub messages: u64,
}

impl Amount {
    /// Adds one call.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.messages += 1;
    }

    fn merge(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.messages += other.messages;
    }
}

/// What one worker did, as far as it came.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Sent bytes and calls.
    pub sent: Amount,
    /// Received bytes and calls.
    pub received: Amount,
    /// The first wrong byte, with the number of wrong bytes in all.
    pub difference: Option<Difference>,
    /// Zero-copy completions.
    pub completions: Completions,
    /// How long each round trip took.
    pub times: Times,
    /// Why it ended early or wrongly.
    pub fault: Option<Fault>,
}

/// A connection whose payload arrived changed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Mismatch {
    /// Which one.
    pub connection: u32,
    /// Offset of the first wrong byte.
    pub offset: u64,
    /// The byte that was sent.
    pub expected: u8,
    /// The byte that arrived.
    pub got: u8,
    /// Wrong bytes in all.
    pub wrong_bytes: u64,
    /// The offset whose payload it is instead, if it is any.
    pub belongs_at: Option<u64>,
}

/// A connection that failed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Failure {
    /// Which one; none before there was a connection.
    pub connection: Option<u32>,
    /// The symbolic name of the error, if a call failed.
    pub errno: Option<String>,
    /// What was done, and how it failed.
    pub what: String,
}

/// The last line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Report {
    /// Everything arrived as it was sent, and nothing failed.
    pub exact: bool,
    /// What this end was asked to do.
    pub plan: Plan,
    /// What it sent, on all connections.
    pub sent: Amount,
    /// What it received, on all connections.
    pub received: Amount,
    /// From the last connection's establishment to the last worker's end.
    pub seconds: f64,
    /// Completions of its zero-copy sends.
    pub completions: Completions,
    /// How long its round trips took, if it made any.
    pub latency: Option<Latency>,
    /// What the machine spent meanwhile.
    pub usage: Usage,
    /// Connections that received wrong bytes.
    pub mismatches: Vec<Mismatch>,
    /// Everything else that failed.
    pub errors: Vec<Failure>,
}

impl Report {
    /// A report of nothing yet.
    pub fn new(plan: &Plan) -> Self {
        Self {
            exact: true,
            plan: plan.clone(),
            sent: Amount::default(),
            received: Amount::default(),
            seconds: 0.0,
            completions: Completions::default(),
            latency: None,
            usage: Usage::default(),
            mismatches: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Adds what a worker did.
    pub fn add(&mut self, connection: u32, outcome: Outcome) {
        self.sent.merge(outcome.sent);
        self.received.merge(outcome.received);
        self.completions.merge(outcome.completions);
        if let Some(difference) = outcome.difference {
            self.exact = false;
            self.mismatches.push(Mismatch {
                connection,
                offset: difference.offset,
                expected: difference.expected,
                got: difference.got,
                wrong_bytes: difference.wrong_bytes,
                belongs_at: difference.belongs_at,
            });
        }
        if let Some(fault) = outcome.fault {
            self.fail(Some(connection), &fault);
        }
    }

    /// Adds a failure.
    pub fn fail(&mut self, connection: Option<u32>, fault: &Fault) {
        self.exact = false;
        self.errors.push(Failure {
            connection,
            errno: fault.errno(),
            what: fault.to_string(),
        });
    }
}

impl Report {
    /// What went wrong, a sentence each, for people.
    pub fn complaints(&self) -> Vec<String> {
        let wrong = self.mismatches.iter().map(ToString::to_string);
        let failed = self.errors.iter().map(ToString::to_string);
        wrong.chain(failed).collect()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            connection,
            offset,
            expected,
            got,
            wrong_bytes,
            ..
        } = self;
        write!(
            f,
            "connection {connection}: byte {offset} is {got:#04x} and was sent as {expected:#04x}, \
             {wrong_bytes} bytes are wrong in all"
        )?;
        match self.belongs_at {
            Some(from) => write!(f, "; these are the bytes of offset {from}"),
            None => f.write_str("; the bytes are from nowhere in this stream"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.connection {
            Some(connection) => write!(f, "connection {connection}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl Line {
    /// The last line of what a program has printed, if it is one of these.
    pub fn last(output: &str) -> Option<Self> {
        serde_json::from_str(output.lines().last()?).ok()
    }

    /// The port that a listener says it has, if a line is that.
    pub fn listening_port(line: &str) -> Option<u32> {
        match serde_json::from_str(line) {
            Ok(Self::Listening { port }) => Some(port),
            _ => None,
        }
    }
}

/// Prints a line at once: the reader waits for whole lines.
pub fn print(line: &Line) {
    let line = serde_json::to_string(line).expect("plain data has a JSON form");
    let mut out = std::io::stdout().lock();
    // Without a reader there is nobody to tell; the exit code still does.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
