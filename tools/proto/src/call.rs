// SPDX-License-Identifier: GPL-2.0

//! Requests of the lab and the agent's answers.

use crate::{Command, JobId};
use serde::{Deserialize, Serialize};

/// One request; `id` comes back in the reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the lab, not used twice on one link.
    pub id: u64,
    /// What is asked.
    pub call: Call,
}

/// What the lab can ask of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Start a program. Its output and its end come as notes that name `job`.
    Spawn {
        /// The number under which the lab wants to hear of it.
        job: JobId,
        /// What to start.
        command: Command,
    },
    /// Send a signal to a job's whole process group.
    Signal {
        /// Which job.
        job: JobId,
        /// The signal's number.
        signal: i32,
    },
    /// Feed a job's standard input, and close it if `end`.
    Input {
        /// Which job.
        job: JobId,
        /// What it is to read.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
        /// Whether end of file follows.
        end: bool,
    },
    /// Read at most [`crate::CHUNK`] bytes of a file, from `offset` on.
    Read {
        /// Which file.
        path: String,
        /// Where to begin.
        offset: u64,
    },
    /// Write to a file.
    Write {
        /// Which file.
        path: String,
        /// The piece to write.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
        /// How an existing file is treated.
        how: WriteHow,
    },
    /// Load a kernel module from a file.
    LoadModule {
        /// The uncompressed module.
        path: String,
        /// `name=value` pairs, separated by spaces.
        parameters: String,
    },
    /// Unload a kernel module; fails if it is in use.
    UnloadModule {
        /// Its name.
        name: String,
    },
    /// Switch the machine off; no answer comes.
    PowerOff,
}

/// How [`Call::Write`] treats the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteHow {
    /// Create it, or empty it, with these permissions.
    Create {
        /// Permission bits.
        mode: u32,
    },
    /// Add to its end; it must exist.
    Append,
    /// Write into it as it is; it must exist. The way for files of the kernel.
    InPlace,
}

/// What the agent answers when it could do as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done; there is nothing to tell.
    Done,
    /// A piece of a file.
    Data {
        /// The piece.
        #[serde(with = "crate::bytes")]
        data: Vec<u8>,
        /// Whether the file ends with it.
        end: bool,
    },
}

/// Why the agent could not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The error number, if the kernel gave one.
    pub errno: Option<i32>,
    /// The same in words.
    pub message: String,
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure {
            errno: error.raw_os_error(),
            message: error.to_string(),
        }
    }
}
