// SPDX-License-Identifier: GPL-2.0
//! What every case works on: two machines, and the driver under test in one.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rig::{Driver, Machine, Output, Pair};

use super::mode::Mode;
use crate::counters::Counters;
use crate::transfer::{self, Endpoint, Running, Transfer};

/// Where the driver shows its counters and switches.
const DEBUGFS: &str = "/sys/kernel/debug/virtio_vsock_rs";

/// The longest that a small program or a change of drivers may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What unloading a module in use fails with, from `<errno.h>`.
pub(crate) const EAGAIN: i32 = 11;
/// The same, where it is not a matter of waiting; also what a refused transport fails with.
pub(crate) const EBUSY: i32 = 16;

/// The driver that the cases are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum Subject {
    /// This project's.
    Rust,
    /// The kernel's own: the control, which shows what the cases themselves are worth.
    C,
}

impl Subject {
    /// The driver, as a rig loads it.
    pub(crate) fn driver(self) -> Driver {
        match self {
            Self::Rust => Driver::rust(),
            Self::C => Driver::c(),
        }
    }
}

/// How long a case may take its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// As part of `lab check`: a few seconds.
    Quick,
    /// As `lab conformance` runs it by itself.
    Usual,
    /// With every loop as long as it is worth.
    Full,
}

/// Two machines, and the driver under test in one of them.
pub(crate) struct Fixture<'a> {
    /// The machines, and the way between them that is not under test.
    pub pair: &'a Pair,
    /// The driver under test.
    pub subject: Subject,
    /// How long the case may take.
    pub length: Length,
    /// What fails is to be tried with the C driver as well, which has had no turn of its own.
    pub compare: bool,
}

impl<'a> Fixture<'a> {
    /// The guest with the driver under test.
    pub(crate) fn guest(&self) -> &'a Machine {
        self.pair.dut()
    }

    /// The machine that it talks to.
    pub(crate) fn far(&self) -> &'a Machine {
        self.pair.far()
    }

    /// The number of rounds of a loop: in `lab check`, usually, and at full length.
    pub(crate) fn rounds<T: Copy>(&self, quick: T, usual: T, full: T) -> T {
        match self.length {
            Length::Quick => quick,
            Length::Usual => usual,
            Length::Full => full,
        }
    }

    /// Brings the driver under test to the state in which every case finds it.
    pub(crate) fn settle(&self) -> Result<()> {
        if !self.guest().has_module(self.subject.driver().name())? {
            self.reload([]).context("loading the driver under test")?;
        }
        self.switch(Mode::DEFAULT)
    }

    /// Loads the driver under test anew, with parameters of the form `name=value`.
    pub(crate) fn reload<'p>(&self, parameters: impl IntoIterator<Item = &'p str>) -> Result<()> {
        let plain = self.subject.driver();
        self.use_driver(&parameters.into_iter().fold(plain, Driver::with))
    }

    /// Loads a driver in the place of the one that is there.
    pub(crate) fn use_driver(&self, driver: &Driver) -> Result<()> {
        self.when_let_go(|| self.guest().use_driver(driver))
    }

    /// Unloads the driver that is there.
    pub(crate) fn unload(&self) -> Result<()> {
        self.when_let_go(|| self.guest().unload_driver())
    }

    /// Unloads a module of the guest that is no driver.
    pub(crate) fn unload_module(&self, name: &str) -> Result<()> {
        self.when_let_go(|| self.guest().rmmod(name))
    }

    /// A closed connection lets go of its driver once the peer has confirmed, which takes a moment;
    /// so this tries until the driver can be unloaded.
    fn when_let_go(&self, change: impl Fn() -> rig::Result<()>) -> Result<()> {
        until(
            "the closed connections to let go of the driver",
            PATIENCE,
            || match change() {
                Ok(()) => Ok(Some(())),
                Err(error) if matches!(error.errno(), Some(EAGAIN | EBUSY)) => Ok(None),
                Err(error) => Err(error.into()),
            },
        )
    }

    /// Sets both switches; the C driver has none and is always the same.
    pub(crate) fn switch(&self, mode: Mode) -> Result<()> {
        if self.subject == Subject::C {
            return Ok(());
        }
        for (name, on) in [
            ("rx_batch", mode.batching),
            ("tx_fast_path", mode.fast_path),
        ] {
            let value = if on { "1\n" } else { "0\n" };
            self.guest().write(&format!("{DEBUGFS}/{name}"), value)?;
        }
        Ok(())
    }

    /// Reads a switch as the driver shows it.
    pub(crate) fn switched(&self, name: &str) -> Result<String> {
        let text = self.guest().read_text(&format!("{DEBUGFS}/{name}"))?;
        Ok(text.trim().to_owned())
    }

    /// Writes to a switch whatever the case wants.
    pub(crate) fn write_switch(&self, name: &str, value: &str) -> rig::Result<()> {
        self.guest().write(&format!("{DEBUGFS}/{name}"), value)
    }

    /// Reads the driver's counters.
    pub(crate) fn counters(&self) -> Result<Counters> {
        Counters::parse(&self.guest().read_text(&format!("{DEBUGFS}/stats"))?)
    }

    /// Does something, and returns what the counters grew by.
    pub(crate) fn counted<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Counters)> {
        let before = self.counters()?;
        let done = work()?;
        Ok((done, self.counters()?.since(&before)))
    }

    /// Makes a transfer, which has to be exact.
    pub(crate) fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let (guest, far) = self.ends();
        transfer::run(transfer, guest, far)
    }

    /// Makes the transfers that show that the driver works at all.
    pub(crate) fn works(&self) -> Result<()> {
        let transfers = transfer::smoke();
        transfers
            .iter()
            .try_for_each(|transfer| self.transfer(transfer))
    }

    /// Begins a transfer.
    pub(crate) fn begin<'t>(&self, transfer: &'t Transfer) -> Result<Running<'t>> {
        let (guest, far) = self.ends();
        transfer::begin(transfer, guest, far)
    }

    fn ends(&self) -> (Endpoint<'a>, Endpoint<'a>) {
        let end = |machine: &'a Machine| Endpoint {
            machine,
            cid: machine.cid(),
        };
        (end(self.guest()), end(self.far()))
    }

    /// Runs a line of shell in the guest, which has to succeed.
    pub(crate) fn guest_shell(&self, line: &str) -> Result<Output> {
        let output = self.guest().run(["sh", "-c", line], PATIENCE)?;
        Ok(output.success()?)
    }
}

/// Tries until something comes of it, for at most `timeout`.
pub(crate) fn until<T>(
    what: &str,
    timeout: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = attempt()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("waited {} s in vain for {what}", timeout.as_secs());
        }
        // Each attempt asks another machine; this keeps the asking from being its load.
        std::thread::sleep(Duration::from_millis(50));
    }
}
