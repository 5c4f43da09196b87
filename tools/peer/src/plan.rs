// SPDX-License-Identifier: GPL-2.0
//! What one end is asked to do, once for all of its connections.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::habits::Habits;
use crate::pattern::MAX_SLICE;

/// The socket type of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `SOCK_STREAM`: bytes, whose boundaries mean nothing.
    Stream,
    /// `SOCK_SEQPACKET`: messages, whose boundaries are compared too.
    Seqpacket,
}

/// Which way the payload goes, seen from this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// Send the payload, then expect nothing but the peer's end.
    Send,
    /// Receive the payload to its end.
    Receive,
    /// Send and receive at once, each end its own payload.
    Both,
    /// Send back whatever comes, until its end.
    Echo,
    /// Send the payload and expect the very same back: the peer of `echo`.
    Bounce,
    /// The same, but one write at a time, each answered before the next, and timed.
    Ping,
    /// Open and end the connections one after the other, without payload.
    Dial,
    /// The peer of `dial`.
    Answer,
}

impl Flow {
    /// The flow that the other end has to be given.
    pub fn opposite(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Both => Self::Both,
            Self::Echo => Self::Bounce,
            Self::Bounce | Self::Ping => Self::Echo,
            Self::Dial => Self::Answer,
            Self::Answer => Self::Dial,
        }
    }
}

/// How a sender ends its connection after the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Shut down writing, and wait until the peer has read everything and closed.
    HalfClose,
    /// Close at once, with bytes possibly still on their way.
    Close,
}

/// What is at the other end of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Partner {
    /// Another `vsock-peer`.
    #[default]
    Peer,
    /// A service of `vsock-wire`. A source's bytes count modulo 251 and do not
    /// end, so a receiver closes as soon as it has all that it was to have.
    Service,
}

/// The end of a connection, told apart so that each sends a payload of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The end that accepted.
    Listen,
    /// The end that connected.
    Connect,
}

impl Side {
    /// The other end.
    pub fn opposite(self) -> Self {
        match self {
            Self::Listen => Self::Connect,
            Self::Connect => Self::Listen,
        }
    }
}

/// Everything about the transfer that both ends agree on, and this end's part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Plan {
    /// Which end this is.
    pub side: Side,
    /// Which way the payload goes.
    pub flow: Flow,
    /// The socket type.
    pub kind: Kind,
    /// Connections, at once if they have any payload.
    pub connections: u32,
    /// Payload bytes a connection and a direction.
    pub bytes: u64,
    /// Bytes a `send()`, and so a SEQPACKET message.
    pub write_size: usize,
    /// Bytes a `recv()` asks for; SEQPACKET asks for a whole message anyway.
    pub read_size: usize,
    /// What the payload is made from.
    pub seed: u64,
    /// `SO_VM_SOCKETS_BUFFER_SIZE`, or the kernel's default.
    pub buffer_size: Option<u64>,
    /// Send with `MSG_ZEROCOPY` and account for every completion.
    pub zerocopy: bool,
    /// Set `MSG_EOR` on every message, and expect it on every message.
    pub eor: bool,
    /// How a sender ends.
    pub end: End,
    /// What is at the other end.
    pub partner: Partner,
    /// What makes it harder.
    pub habits: Habits,
    /// The end of every wait, counted from the start of the program.
    pub timeout: Duration,
}

impl Plan {
    /// An echo for any number of peers, of which so many may wait at once.
    pub(crate) fn echo(kind: Kind, backlog: u32) -> Self {
        Self {
            side: Side::Listen,
            flow: Flow::Echo,
            kind,
            connections: backlog,
            bytes: 0,
            // The longest message that is echoed.
            write_size: MAX_SLICE,
            read_size: 65_536,
            seed: 0,
            buffer_size: None,
            zerocopy: false,
            eor: false,
            end: End::HalfClose,
            partner: Partner::Peer,
            habits: Habits::default(),
            timeout: Duration::from_secs(3600),
        }
    }
}
