// SPDX-License-Identifier: GPL-2.0

//! Programs that run for the lab, any number at once.

use crate::outbox::Outbox;
use crate::reaper::{Reaper, pid_of};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use proto::{JobId, Note, Stream};
use std::collections::HashMap;
use std::io::{self, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A piece of output that is passed on at once.
const PIECE: usize = 32 * 1024;

/// The running jobs.
#[derive(Clone)]
pub(crate) struct Jobs {
    reaper: Reaper,
    outbox: Outbox,
    running: Arc<Mutex<HashMap<JobId, Running>>>,
}

struct Running {
    group: Pid,
    /// Apart from the table, because a program that does not read holds up only those who write to it.
    input: Arc<Mutex<Option<ChildStdin>>>,
}

impl Jobs {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Jobs {
            reaper: Reaper::start(),
            outbox,
            running: Arc::default(),
        }
    }

    /// Starts a program in a process group of its own.
    pub(crate) fn spawn(&self, job: JobId, command: &proto::Command) -> io::Result<()> {
        let [program, arguments @ ..] = command.argv.as_slice() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no program was named",
            ));
        };
        let mut process = Command::new(program);
        process
            .args(arguments)
            .envs(command.env.iter().cloned())
            .process_group(0);
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, told) = self.reaper.spawn(&mut process)?;
        let running = Running {
            group: pid_of(&child),
            input: Arc::new(Mutex::new(child.stdin.take())),
        };
        self.table().insert(job, running);
        let readers = [
            child
                .stdout
                .take()
                .map(|output| self.forward(job, Stream::Out, output)),
            child
                .stderr
                .take()
                .map(|output| self.forward(job, Stream::Err, output)),
        ];
        let jobs = self.clone();
        thread::spawn(move || {
            // The reaper always tells, and tells once.
            let Ok(exit) = told.recv() else { return };
            // All that the program said comes before the news of its end.
            for reader in readers.into_iter().flatten() {
                let _ = reader.join();
            }
            jobs.table().remove(&job);
            jobs.outbox.send(&Note::Exit { job, exit });
        });
        Ok(())
    }

    /// Sends a signal to a job's process group.
    pub(crate) fn signal(&self, job: JobId, signal: i32) -> io::Result<()> {
        let group = self.table().get(&job).map(|running| running.group);
        let signal = Signal::try_from(signal)?;
        Ok(killpg(group.ok_or(Errno::ESRCH)?, signal)?)
    }

    /// Feeds a job's standard input.
    pub(crate) fn input(&self, job: JobId, data: &[u8], end: bool) -> io::Result<()> {
        let input = self.table().get(&job).map(|running| running.input.clone());
        let input = input.ok_or(Errno::ESRCH)?;
        let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = input.as_mut() {
            pipe.write_all(data)?;
        } else if !data.is_empty() {
            return Err(Errno::EPIPE.into());
        }
        if end {
            *input = None;
        }
        Ok(())
    }

    fn forward(
        &self,
        job: JobId,
        stream: Stream,
        mut output: impl Read + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let outbox = self.outbox.clone();
        thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            loop {
                match output.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => {
                        let data = buffer[..length].into();
                        outbox.send(&Note::Output { job, stream, data });
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<JobId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
