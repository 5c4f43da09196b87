// SPDX-License-Identifier: GPL-2.0

//! Programs on a machine.

use crate::board::Seat;
use crate::error::{Error, Result};
use crate::link::Link;
use nix::sys::signal::Signal;
use proto::{Call, Command, Exit, JobId};
use std::time::{Duration, Instant};

/// A program to run, with its arguments and surroundings.
#[derive(Clone, Debug)]
pub struct Program(pub(crate) Command);

/// What a program that has ended left behind.
#[derive(Clone, Debug)]
pub struct Output {
    machine: String,
    program: String,
    /// How it ended.
    pub exit: Exit,
    /// Its whole standard output.
    pub stdout: Vec<u8>,
    /// Its whole standard error.
    pub stderr: Vec<u8>,
    /// From the request to the news of its end.
    pub elapsed: Duration,
}

/// A program that runs on a machine; dropped, it is killed.
#[derive(Debug)]
pub struct Job {
    link: Link,
    id: JobId,
    program: String,
    started: Instant,
    /// How much of its standard output [`Job::wait_line`] has gone through.
    read: usize,
    ended: bool,
}

impl Program {
    /// A program, searched in the machine's `PATH`, without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Program(Command {
            argv: vec![name.into()],
            env: Vec::new(),
        })
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.0.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.0.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.env.push((name.into(), value.into()));
        self
    }

    /// Makes a folder of the machine `/` to the program.
    pub fn root(mut self, folder: impl Into<String>) -> Self {
        self.0.argv.splice(0..0, ["chroot".into(), folder.into()]);
        self
    }

    /// As one would type it in a shell.
    pub(crate) fn shown(&self) -> String {
        let words = self.0.argv.iter().map(String::as_str);
        // Only a NUL in a word keeps it from being quoted, and such a program cannot start anyway.
        shlex::try_join(words).unwrap_or_else(|_| format!("{:?}", self.0.argv))
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Program {
    fn from(argv: [S; N]) -> Self {
        Vec::from(argv).into()
    }
}

impl<S: Into<String>> From<Vec<S>> for Program {
    fn from(argv: Vec<S>) -> Self {
        Program(Command {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
        })
    }
}

impl Output {
    /// Passes it on if the program ended with status 0, and makes an error of it otherwise.
    pub fn success(self) -> Result<Self> {
        if self.exit.success() {
            return Ok(self);
        }
        Err(Error::ProgramFailed {
            output: self.said(),
            machine: self.machine,
            program: self.program,
            exit: self.exit,
        })
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The end of both outputs.
    fn said(&self) -> String {
        const LINES: usize = 30;
        let (out, err) = (self.text(), self.errors());
        let lines: Vec<&str> = out.lines().chain(err.lines()).collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Job {
    pub(crate) fn start(link: &Link, program: Program) -> Result<Self> {
        let id = link.seat().open_job();
        let shown = program.shown();
        // Made first, so that a refusal closes the job again.
        let mut job = Job {
            link: link.clone(),
            id,
            program: shown,
            started: Instant::now(),
            read: 0,
            ended: true,
        };
        let what = format!("start `{}`", job.program);
        let call = Call::Spawn {
            job: id,
            command: program.0,
        };
        job.link.call(what, call)?;
        job.ended = false;
        Ok(job)
    }

    /// Says that it is the QEMU of another machine, which is gone when it ends.
    pub(crate) fn carries(&self, machine: &Seat) {
        self.seat().carry(self.id, machine.clone());
    }

    /// Says that it is that no longer.
    pub(crate) fn lets_go(&self) {
        self.seat().let_go(self.id);
    }

    fn seat(&self) -> &Seat {
        self.link.seat()
    }

    /// Waits until the program has ended, for at most `timeout`; afterwards it is killed.
    pub fn wait(mut self, timeout: Duration) -> Result<Output> {
        let what = format!("the end of `{}`", self.program);
        let id = self.id;
        let waited = self.seat().wait(what, timeout, |seat| {
            let ended = seat.jobs.get(&id).is_some_and(|job| job.exit.is_some());
            ended.then(|| seat.jobs.remove(&id)).flatten()
        });
        let state = waited?;
        self.ended = true;
        let exit = state.exit.unwrap_or(Exit::Code(-1));
        Ok(Output {
            machine: self.seat().name().into(),
            program: self.program.clone(),
            exit,
            stdout: state.stdout,
            stderr: state.stderr,
            elapsed: self.started.elapsed(),
        })
    }

    /// Waits for a line of standard output that `wanted` makes something of, beginning after the one
    /// that the last call found. `what` names it when the time is over or the program ends before.
    pub fn wait_line<T>(
        &mut self,
        what: &str,
        timeout: Duration,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Result<T> {
        let what = format!("{what} from `{}`", self.program);
        let (id, mut read) = (self.id, self.read);
        let found = self.link.seat().wait(what.clone(), timeout, |seat| {
            let job = seat.jobs.get(&id)?;
            while let Some(length) = job.stdout[read..].iter().position(|&byte| byte == b'\n') {
                let line = &job.stdout[read..read + length];
                read += length + 1;
                if let Some(found) = wanted(&String::from_utf8_lossy(line)) {
                    return Some(Ok(found));
                }
            }
            job.exit.map(Err)
        })?;
        self.read = read;
        found.map_err(|exit| Error::ProgramFailed {
            machine: self.link.seat().name().into(),
            program: self.program.clone(),
            exit,
            output: format!("it ended before {what} came\n{}", self.tail()),
        })
    }

    /// The end of what it has said so far.
    pub fn tail(&self) -> String {
        let (stdout, stderr) = self.said();
        let output = Output {
            machine: String::new(),
            program: String::new(),
            exit: Exit::Code(0),
            stdout,
            stderr,
            elapsed: Duration::ZERO,
        };
        output.said()
    }

    /// What it has said so far: standard output and standard error.
    pub fn said(&self) -> (Vec<u8>, Vec<u8>) {
        let id = self.id;
        self.seat().look(|seat| {
            let job = seat.jobs.get(&id);
            job.map_or_else(Default::default, |job| {
                (job.stdout.clone(), job.stderr.clone())
            })
        })
    }

    /// Whether it has ended, and how.
    pub fn exit(&self) -> Option<Exit> {
        let id = self.id;
        self.seat().look(|seat| seat.jobs.get(&id)?.exit)
    }

    /// Feeds its standard input; `end` closes it.
    pub fn input(&self, data: &[u8], end: bool) -> Result<()> {
        let call = Call::Input {
            job: self.id,
            data: data.into(),
            end,
        };
        self.link
            .call(format!("feed `{}`", self.program), call)
            .map(drop)
    }

    /// Sends a signal to it and to all that it has started.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let call = Call::Signal {
            job: self.id,
            signal: signal as i32,
        };
        self.link
            .call(format!("send {signal} to `{}`", self.program), call)
            .map(drop)
    }

    /// Kills it and waits for its end.
    pub fn kill(self) -> Result<Output> {
        const PATIENCE: Duration = Duration::from_secs(20);
        match self.signal(Signal::SIGKILL) {
            // It may have ended by itself meanwhile.
            Err(error) if error.errno() == Some(nix::libc::ESRCH) => {}
            other => other?,
        }
        self.wait(PATIENCE)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.ended {
            // Not waited for: a machine that is gone has no use for it, and its job neither.
            self.link.send(Call::Signal {
                job: self.id,
                signal: Signal::SIGKILL as i32,
            });
        }
        self.seat().close_job(self.id);
    }
}
