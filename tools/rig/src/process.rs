// SPDX-License-Identifier: GPL-2.0

//! A process of this machine that a rig cannot do without.

use crate::error::{IoContext as _, Result};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// One that was asked to end and has not done so after this time is killed.
const GRACE: Duration = Duration::from_secs(3);

/// Runs until it ends by itself, or is dropped and so ended.
#[derive(Debug)]
pub(crate) struct Process {
    /// Empty as soon as the process has been waited for and its number may name another one.
    child: Arc<Mutex<Option<Child>>>,
    ended: Receiver<()>,
    /// Whether it has something to finish, and is asked to end before it is killed.
    gentle: bool,
}

/// What there is to tell of a process.
pub(crate) trait Observer: Send + 'static {
    /// It has written a line to its standard output.
    fn said(&mut self, _line: &str) {}
    /// It has ended.
    fn ended(&mut self, status: ExitStatus);
}

impl<F: FnMut(ExitStatus) + Send + 'static> Observer for F {
    fn ended(&mut self, status: ExitStatus) {
        self(status);
    }
}

impl Process {
    /// Starts it. What it says goes to `log`; `observer` hears of it.
    pub(crate) fn start(
        command: &mut Command,
        log: &Path,
        mut observer: impl Observer,
    ) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let writing = || format!("write {}", log.display());
        let mut file = File::create(log).context(writing)?;
        let errors = file.try_clone().context(writing)?;
        command.stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().context(|| format!("start {program}"))?;
        let output = child.stdout.take();
        let pid = pid_of(&child);
        let child = Arc::new(Mutex::new(Some(child)));
        let watched = child.clone();
        let (tell, ended) = channel::<()>();
        thread::spawn(move || {
            for line in output
                .into_iter()
                .flat_map(|output| BufReader::new(output).lines())
            {
                let Ok(line) = line else { break };
                // A log that cannot be written is no reason to stop listening.
                let _ = writeln!(file, "{line}");
                observer.said(&line);
            }
            // Leaves it waited for by nobody, so that its number stays its own until the lock is held.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(pid), flags) == Err(Errno::EINTR) {}
            let child = watched
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            if let Some(Ok(status)) = child.map(|mut child| child.wait()) {
                observer.ended(status);
            }
            drop(tell);
        });
        Ok(Process {
            child,
            ended,
            gentle: false,
        })
    }

    /// Has it asked to end, before it is killed.
    pub(crate) fn gently(mut self) -> Self {
        self.gentle = true;
        self
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = &*child {
            // It can have ended, but not have been waited for; then the signal goes nowhere.
            let _ = kill(pid_of(child), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.gentle {
            self.signal(Signal::SIGTERM);
            // Nothing is ever sent: the channel closes when the process has ended.
            if self.ended.recv_timeout(GRACE) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
        self.signal(Signal::SIGKILL);
        // A killed process that does not end is stuck in the kernel, and nothing here helps.
        let _ = self.ended.recv_timeout(GRACE);
    }
}

/// The child's number, as the kernel's calls take it.
fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(
        i32::try_from(child.id()).expect("the kernel's numbers of processes are positive"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn its_end_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, told) = mpsc::channel();
        let mut command = Command::new("sh");
        command.args(["-c", "echo gone; exit 3"]);
        let log = folder.path().join("log");
        let process = Process::start(&mut command, &log, move |status: ExitStatus| {
            tell.send(status).unwrap()
        })
        .unwrap();
        let status = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(status.code(), Some(3));
        drop(process);
        assert_eq!(std::fs::read_to_string(log).unwrap(), "gone\n");
    }

    #[test]
    fn dropped_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (tell, told) = mpsc::channel();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let log = folder.path().join("log");
        let process = Process::start(&mut command, &log, move |status: ExitStatus| {
            tell.send(status).unwrap()
        })
        .unwrap();
        drop(process);
        let status = told.try_recv().expect("dropping waits for the end");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}
