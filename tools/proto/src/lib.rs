// SPDX-License-Identifier: GPL-2.0

//! What the lab and the agent in a virtual machine say to each other.
//!
//! One JSON value a line in each direction, over a virtio-serial port: the lab sends a [`Request`],
//! the agent answers each with one [`Note::Reply`] of the same id, in any order, and sends the other
//! [`Note`]s whenever there is something to tell. A second port carries nothing but the heartbeat.

mod bytes;
mod call;
mod job;
mod klog;
mod line;
mod note;
pub mod port;

pub use call::{Answer, Call, Failure, Request, WriteHow};
pub use job::{Command, Exit, JobId, Stream};
pub use klog::{KlogRecord, Level};
pub use line::{read_line, write_line};
pub use note::{Hello, Note};

/// Raised with every change of the messages, so that a stale agent is told apart from a broken one.
pub const VERSION: u32 = 1;

/// The largest piece of a file or of a program's output that one line carries.
pub const CHUNK: usize = 256 * 1024;
