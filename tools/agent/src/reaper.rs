// SPDX-License-Identifier: GPL-2.0

//! Waits for children: the jobs, and as PID 1 all that others leave behind.

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use proto::Exit;
use std::collections::HashMap;
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// Starts programs and tells how they end.
#[derive(Clone, Default)]
pub(crate) struct Reaper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Held while a program starts, so that it cannot be waited for before it is known.
    waiting: Mutex<HashMap<Pid, Sender<Exit>>>,
    started: Condvar,
}

impl Reaper {
    /// Begins to wait.
    pub(crate) fn start() -> Self {
        let reaper = Reaper::default();
        let shared = reaper.0.clone();
        thread::spawn(move || shared.reap());
        reaper
    }

    /// Starts a program; the receiver gets its end.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<(Child, Receiver<Exit>)> {
        let mut waiting = self
            .0
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn()?;
        let (tell, told) = channel();
        waiting.insert(pid_of(&child), tell);
        drop(waiting);
        self.0.started.notify_one();
        Ok((child, told))
    }
}

impl Shared {
    fn reap(&self) {
        loop {
            // Only looks, because a program that could not start is waited for by its starter.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            let ended = match waitid(Id::All, flags) {
                Ok(status) => status.pid(),
                Err(Errno::ECHILD) => {
                    self.await_child();
                    continue;
                }
                Err(_) => continue,
            };
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(pid) = ended else { continue };
            let exit = match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => Exit::Code(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => Exit::Signal(signal as i32),
                _ => continue,
            };
            if let Some(tell) = waiting.remove(&pid) {
                // The job's thread holds the other end until it has been told.
                let _ = tell.send(exit);
            }
        }
    }

    /// Waits until there is a child again.
    fn await_child(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.is_empty() {
            waiting = self
                .started
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The child's number, as the kernel's calls take it.
pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(
        i32::try_from(child.id()).expect("the kernel's numbers of processes are positive"),
    )
}
