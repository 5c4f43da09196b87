// SPDX-License-Identifier: GPL-2.0

//! One machine of a rig: a guest, the host VM of a nested rig, or this machine itself.

mod devices;
mod files;
mod klog;
mod modules;
mod power;
mod root;
mod sleep;

pub use klog::Mark;
pub use modules::ModuleInfo;

use crate::board::Seat;
use crate::error::{Error, Result};
use crate::fault::Expected;
use crate::image::Manifest;
use crate::job::{Job, Output, Program};
use crate::link::Link;
use crate::qemu::{Qmp, VsockDevices};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A machine whose agent answers.
///
/// Every method that waits fails as soon as any machine of the same boot is in trouble.
#[derive(Debug)]
pub struct Machine {
    link: Link,
    traits: Traits,
    cid: AtomicU32,
    /// None of these, if the machine is this one itself.
    monitor: Option<Mutex<Qmp>>,
    terminal: Option<Mutex<UnixStream>>,
    console: Option<UnixStream>,
}

/// What a rig knows of a machine from the start.
#[derive(Debug)]
pub(crate) struct Traits {
    /// Its address in the beginning.
    pub(crate) cid: u32,
    /// What its image holds.
    pub(crate) manifest: Arc<Manifest>,
    /// What serves its vsock devices.
    pub(crate) vsock: Option<VsockDevices>,
    /// Whether the lab root is there to be mounted.
    pub(crate) lab_root: bool,
    /// What its kernel says at any time because of what it runs on.
    pub(crate) noise: Expected,
}

impl Machine {
    pub(crate) fn new(
        link: Link,
        traits: Traits,
        monitor: Option<Qmp>,
        terminal: Option<UnixStream>,
        console: Option<UnixStream>,
    ) -> Self {
        Machine {
            link,
            cid: AtomicU32::new(traits.cid),
            traits,
            monitor: monitor.map(Mutex::new),
            terminal: terminal.map(Mutex::new),
            console,
        }
    }

    /// What results and errors call it.
    pub fn name(&self) -> &str {
        self.seat().name()
    }

    /// Its vsock address.
    pub fn cid(&self) -> u32 {
        self.cid.load(Ordering::Relaxed)
    }

    /// Notes that its device gives it another one now.
    pub fn set_cid(&self, cid: u32) {
        self.cid.store(cid, Ordering::Relaxed);
    }

    /// Runs a program to its end; after `timeout` it is killed, and that is an error.
    pub fn run(&self, program: impl Into<Program>, timeout: Duration) -> Result<Output> {
        self.spawn(program)?.wait(timeout)
    }

    /// Starts a program.
    pub fn spawn(&self, program: impl Into<Program>) -> Result<Job> {
        Job::start(&self.link, program.into())
    }

    /// The monitor of the machine's QEMU; the machine itself has none on the kvm rig's host side.
    pub fn monitor(&self) -> Result<MutexGuard<'_, Qmp>> {
        let monitor = self.monitor.as_ref().ok_or_else(|| {
            Error::Setup(format!(
                "{} is not a virtual machine of ours and has no monitor",
                self.name()
            ))
        })?;
        Ok(monitor.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails if a machine of this boot is in trouble.
    pub fn check(&self) -> Result<()> {
        self.seat().check()
    }

    /// Waits until the machine's heart has beaten on each of its CPUs. Fails if it does not, or if another
    /// machine of this boot is in trouble.
    pub(crate) fn check_heart(&self) -> Result<()> {
        /// More beats than a machine of any rig has CPUs.
        const ROUND: u64 = 8;
        match self.is_virtual() {
            true => self.seat().wait_beats(ROUND),
            // The machine that the lab runs on, whose heart would be the lab's own.
            false => self.check(),
        }
    }

    /// Gives the user's terminal a shell on the machine, until the shell ends or the user leaves with
    /// Ctrl-].
    pub fn shell(&self) -> Result<()> {
        crate::terminal::attach(self, self.terminal.as_ref())
    }

    /// Whether it is a virtual machine of ours, whose kernel log is ours to write into and to watch.
    fn is_virtual(&self) -> bool {
        self.monitor.is_some()
    }

    pub(crate) fn seat(&self) -> &Seat {
        self.link.seat()
    }
}
