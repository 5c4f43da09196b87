// SPDX-License-Identifier: GPL-2.0

//! What can go wrong with a rig, told apart as far as callers act on it.

use crate::Exit;
use std::path::PathBuf;
use std::time::Duration;

/// Short for a result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A panic, oops, BUG, WARNING, hung task or stall in a machine's kernel log or on its console.
    #[error("kernel fault in {machine}: {line}\n{tail}\nThe whole log is {}", log.display())]
    KernelFault {
        /// Whose kernel.
        machine: String,
        /// The line that gave it away.
        line: String,
        /// That line and what followed it.
        tail: String,
        /// The whole log.
        log: PathBuf,
    },
    /// A machine whose emulation is known to stop now and then has stopped: its heartbeat is gone.
    #[error("the rig stalled: no heartbeat from {machine} for {} s; its log is {}", silent.as_secs(), log.display())]
    RigStalled {
        /// Which machine.
        machine: String,
        /// For how long its heart has not beaten.
        silent: Duration,
        /// Its log.
        log: PathBuf,
    },
    /// A machine whose emulation is known to fail now and then has reset itself, and its kernel
    /// complained of nothing.
    #[error("the rig broke off: {machine} reset itself, without a word from its kernel; its log is {}", log.display())]
    RigReset {
        /// Which machine.
        machine: String,
        /// Its log.
        log: PathBuf,
    },
    /// A machine on a rig without known stalls has stopped: its heartbeat is gone.
    #[error("{machine} hangs: no heartbeat for {} s\n{tail}\nThe whole log is {}", silent.as_secs(), log.display())]
    MachineHung {
        /// Which machine.
        machine: String,
        /// For how long its heart has not beaten.
        silent: Duration,
        /// The last lines of its log.
        tail: String,
        /// The whole log.
        log: PathBuf,
    },
    /// A virtual machine, or a process that it cannot do without, has ended.
    #[error("{machine} is gone: {how}\n{tail}\nThe whole log is {}", log.display())]
    MachineGone {
        /// Which machine.
        machine: String,
        /// How it ended.
        how: String,
        /// The last lines of its log.
        tail: String,
        /// The whole log.
        log: PathBuf,
    },
    /// Something did not happen in time, while the machine was alive.
    #[error("waited {} s in vain for {what} ({machine})", after.as_secs())]
    TimedOut {
        /// Where it should have happened.
        machine: String,
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
    },
    /// A machine's agent could not do as asked.
    #[error("{machine} could not {what}: {message}")]
    Refused {
        /// Which machine.
        machine: String,
        /// What it was to do.
        what: String,
        /// The error number, if the kernel gave one.
        errno: Option<i32>,
        /// The same in words.
        message: String,
    },
    /// A program ended otherwise than with status 0.
    #[error("`{program}` on {machine}: {exit}\n{output}")]
    ProgramFailed {
        /// Where it ran.
        machine: String,
        /// The program and its arguments.
        program: String,
        /// How it ended.
        exit: Exit,
        /// The end of what it said.
        output: String,
    },
    /// Kernel messages at warning level or above that nobody expected.
    #[error("unexpected kernel messages in {machine}:\n{lines}")]
    UnexpectedMessages {
        /// Whose kernel.
        machine: String,
        /// The messages.
        lines: String,
    },
    /// The monitor of a virtual machine refused a command or broke off.
    #[error("QEMU's monitor of {machine} on `{command}`: {message}")]
    Monitor {
        /// Which machine.
        machine: String,
        /// The command.
        command: String,
        /// What it said.
        message: String,
    },
    /// Something that the lab needs is missing or broken; the text says what to do.
    #[error("{0}")]
    Setup(String),
    /// A file or socket could not be used.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the emulation is to blame, so that a machine's heartbeat is gone, and a part may be run
    /// again: the one reason for that.
    pub fn is_rig_stall(&self) -> bool {
        matches!(self, Error::RigStalled { .. } | Error::RigReset { .. })
    }

    /// The error number that the kernel gave, if it is a refusal with one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Refused { errno, .. } => *errno,
            Error::Io { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// Says what was tried when an input or output fails.
pub(crate) trait IoContext<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what(),
            source: source.into(),
        })
    }
}
